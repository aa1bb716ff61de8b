"""Finds a named function in a lowered program and gives it a digest of its own.

A function that is traced by two programs stands in each of them as a private function of the
StableHLO module. Cut out, with the functions that it calls, and with names made canonical, it can
be compared.
"""

import hashlib
import re
from collections.abc import Sequence

from rlkjax.errors import ConsistencyError

_FUNCTION = re.compile(
    r"^  func\.func (?:public |private )?@([\w.$-]+)\(.*?^  }$", re.DOTALL | re.MULTILINE
)
_SYMBOL = re.compile(r"@([\w.$-]+)")


def functions(module: str) -> dict[str, str]:
    """The functions of a module.

    Args:
      module: StableHLO text, as `jax.stages.Lowered.as_text` prints it.

    Returns:
      Name -> text of the function.
    """
    return {found[1]: found[0] for found in _FUNCTION.finditer(module)}


def extract(module: str, name: str) -> str:
    """A function and all that it calls, in order of first mention, with names made canonical.

    Args:
      module: StableHLO text.
      name: name of the Python function that was traced under `jax.jit`.

    Returns:
      Text that is equal for equal programs, whatever stands around them in the module.

    Raises:
      ConsistencyError: the module has no such function, or two that differ.
    """
    table = functions(module)
    pattern = re.compile(re.escape(name) + r"(_\d+)?")
    texts = sorted({_closure(table, each) for each in table if pattern.fullmatch(each)})
    if len(texts) != 1:
        raise ConsistencyError(
            f"policy graph: found {len(texts)} versions of {name!r} in the lowered program, want "
            "exactly 1; trace it through one jitted function so that the graphs can be compared"
        )
    return texts[0]


def _closure(table: dict[str, str], start: str) -> str:
    """Text of a function and its callees, names replaced by f0, f1, ... in order of mention."""
    order, queue = {start: "f0"}, [start]
    texts = []
    while queue:
        text = table[queue.pop(0)]
        for callee in _SYMBOL.findall(text):
            if callee in table and callee not in order:
                order[callee] = f"f{len(order)}"
                queue.append(callee)
        texts.append(_SYMBOL.sub(lambda found: "@" + order.get(found[1], found[1]), text))
    return "\n".join(texts)


def digest(module: str, names: Sequence[str]) -> str:
    """Digest of some functions of a lowered program: SHA-256 over their canonical texts.

    Args:
      module: StableHLO text.
      names: names of the traced functions, in the order in which they are hashed.

    Returns:
      64 hex digits.

    Raises:
      ConsistencyError: one of them is missing or ambiguous.
    """
    text = "\n".join(extract(module, name) for name in names)
    return hashlib.sha256(text.encode()).hexdigest()
