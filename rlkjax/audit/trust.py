"""A head that someone kept, and who must have signed it, as files. The standard library alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rlkjax.atomic import explain
from rlkjax.audit import head as heads
from rlkjax.audit import note as notes
from rlkjax.audit import sign
from rlkjax.audit.head import Head
from rlkjax.errors import ConsistencyError, InputError

LARGEST = 1 << 26  # bytes of a proof, a head or a key that are read


class Trusted(NamedTuple):
    """A head from outside the run folder.

    Attributes:
      file: where it came from.
      head: the head.
      problems: for each key by whose owner it should be signed and is not, one clause.
    """

    file: str
    head: Head
    problems: tuple[str, ...]


def read_head(path: Path, keys: Sequence[Path]) -> Trusted:
    """Reads a head and checks its signatures.

    Args:
      path: file of the head.
      keys: files of the public keys that must all have signed it.

    Returns:
      The head.

    Raises:
      InputError: a file that cannot be read, or holds no head or no key.
      MachineError: the extra `sign` is not installed.
    """
    try:
        note = notes.parse(read_file(path), str(path))
        head = heads.parse(note.text, str(path))
    except ConsistencyError as error:
        raise InputError(str(error)) from None
    problems = []
    for file in keys:
        key = notes.parse_key(read_file(file).decode("utf-8", "replace"), str(file), secret=False)
        problem = sign.problem(note, key)
        if problem is not None:
            problems.append(f"key {key.name}+{key.key_id.hex()}: {problem}")
    return Trusted(str(path), head, tuple(problems))


def read_file(path: Path) -> bytes:
    """All bytes of a file that a user named.

    Args:
      path: the file.

    Returns:
      Its bytes.

    Raises:
      InputError: no regular file, too large, or not readable.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path}: got no such file, want a file; check the path")
        if path.stat().st_size > LARGEST:
            raise InputError(
                f"{path}: got {path.stat().st_size} bytes, want {LARGEST} at most; check the path"
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        known = error if isinstance(error, OSError) else OSError(22, str(error))
        raise explain(known, path) from error
