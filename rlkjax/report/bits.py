"""Two bit patterns side by side, with the bits that differ marked."""

from collections.abc import Sequence

from rlkjax.report.markup import Html, tag

# dtype -> widths of sign, exponent and fraction.
_FIELDS = {"float32": (1, 8, 23), "float16": (1, 5, 10)}


def pair(rows: Sequence[tuple[str, str, str]], dtype: str | None) -> Html:
    """Bit patterns under one another.

    Args:
      rows: (name, hex digits, value in words), two of them.
      dtype: of the element; None if unknown.

    Returns:
      A table; the differing bits are framed as well as coloured.
    """
    if not all(_is_hex(digits) for _, digits, _ in rows):
        cells = [
            tag("tr", tag("th", name), tag("td", bits), tag("td", v)) for name, bits, v in rows
        ]
        return tag("table", *cells, class_="plain")
    width = 4 * max(len(digits) for _, digits, _ in rows)
    if width > 64:  # digests, whose single bits say nothing
        shown = [tag("tr", tag("th", name), tag("td", digits)) for name, digits, _ in rows]
        return tag("table", *shown, class_="plain mono")
    values = [int(digits, 16) for _, digits, _ in rows]
    differ = values[0] ^ values[-1]
    starts = _starts(dtype, width)
    lines = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(_bit(value, differ, width - 1 - place, place in starts) for place in range(width)),
            tag("td", f"0x{digits}", class_="hex"),
            tag("td", said, class_="value"),
        )
        for (name, digits, said), value in zip(rows, values, strict=True)
    ]
    count = differ.bit_count()
    caption = f"{count} of {width} bits {'differs' if count == 1 else 'differ'}"
    if len(starts) == 3:
        caption += "; from the left: sign, exponent, fraction"
    return tag("div", tag("table", tag("caption", caption), *lines, class_="bits"), class_="wide")


def _is_hex(digits: object) -> bool:
    return isinstance(digits, str) and 0 < len(digits) <= 64 and set(digits) <= _HEX


_HEX = set("0123456789abcdef")


def _starts(dtype: str | None, width: int) -> set[int]:
    """Places where a field of the number begins."""
    fields = _FIELDS.get(dtype or "", ())
    if sum(fields) != width:
        return set(range(0, width, 8))
    return {sum(fields[:k]) for k in range(len(fields))}


def _bit(value: int, differ: int, power: int, first: bool) -> Html:
    kinds = ["differs"] if differ >> power & 1 else []
    kinds += ["first"] if first else []
    return tag("td", value >> power & 1, class_=" ".join(kinds) or None)
