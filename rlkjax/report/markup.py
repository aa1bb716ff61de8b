"""HTML as values: what is not marked as markup is escaped, so text from a file stays text."""

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Any

LONGEST = 2000  # characters of one piece of foreign text that are shown

# Elements that have no content and no closing tag.
_VOID = frozenset({"meta", "br", "hr"})


class Html(str):
    """A string that is markup already."""

    __slots__ = ()


EMPTY = Html("")


def visible(text: object) -> str:
    """Foreign text with every character that does not print written as an escape, and cut short.

    Args:
      text: anything; its `str` is shown.

    Returns:
      Printable characters only: no controls, no change of direction, no lone surrogate.
    """
    shown = str(text)
    rest = len(shown) - LONGEST
    if rest > 0:
        shown = f"{shown[:LONGEST]}… ({rest:,} more characters)"
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """One element.

    Args:
      name: of the element.
      *children: `Html` is taken as it is, None left out, anything else shown as text.
      **attributes: `class_` is class, `stroke_width` is stroke-width; None leaves one out.

    Returns:
      The element.
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Children side by side, under the rules of `tag`.

    Args:
      children: `Html`, text or None.

    Returns:
      Markup.
    """
    return Html("".join(map(_child, children)))


def _child(child: object) -> str:
    if isinstance(child, Html):
        return child
    return "" if child is None else escape(visible(child))


def data_block(name: str, value: Any) -> Html:
    """Values for a script, as a block that no browser executes.

    Args:
      name: id of the block.
      value: plain data.

    Returns:
      A script element of type application/json.
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def packaged(package: str, name: str) -> str:
    """Text of a file that is installed beside the code.

    Args:
      package: such as rlkjax.report.
      name: of the file.

    Returns:
      Its text.
    """
    return (resources.files(package) / name).read_text(encoding="utf-8")


def document(title: str, body: Html, *, style: str, script: str = "") -> str:
    """A whole page that may load nothing and run nothing but the script given here.

    The content security policy names the style and the script by digest. Should foreign text ever
    get past the escaping, the browser would still neither run it nor fetch for it.

    Args:
      title: plain text.
      body: content.
      style: CSS.
      script: JavaScript; empty for none.

    Returns:
      HTML.
    """
    policy = f"default-src 'none'; style-src {_digest(style)}"
    if script:
        policy += f"; script-src {_digest(script)}"
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", title),
            Html(f"<style>{style}</style>"),
        ]
    )
    run = Html(f"<script>{script}</script>") if script else EMPTY
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}{run}</body></html>\n'
    )


def _digest(text: str) -> str:
    found = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{found}'"
