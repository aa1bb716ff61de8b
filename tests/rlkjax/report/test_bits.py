"""Two bit patterns side by side: which bits are marked, and where the fields of a number begin."""

import re

from rlkjax.report.bits import pair


def marks(text):
    """Of each row: its bits, the places that are marked, and the places where a field begins."""
    rows = [re.findall('<td(?: class="(.*?)")?>([01])</td>', row) for row in text.split("<tr>")[1:]]
    return [
        (
            "".join(bit for _, bit in row),
            [place for place, (kinds, _) in enumerate(row) if "differs" in kinds.split()],
            [place for place, (kinds, _) in enumerate(row) if "first" in kinds.split()],
        )
        for row in rows
    ]


def test_the_bits_of_two_floats():
    # 1.0 is 0 01111111 000...; 3.0 is 0 10000000 100...: exponent and the fraction's first bit.
    text = pair([("a", "3f800000", "1.0"), ("b", "40400000", "3.0")], "float32")
    places = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert marks(text) == [
        ("00111111100000000000000000000000", places, [0, 1, 9]),
        ("01000000010000000000000000000000", places, [0, 1, 9]),
    ]
    assert "9 of 32 bits differ; from the left: sign, exponent, fraction" in text
    assert ">0x40400000<" in text and ">3.0<" in text


def test_half_precision_and_integers():
    half = marks(pair([("a", "3c00", ""), ("b", "bc00", "")], "float16"))
    assert [(places, first) for _, places, first in half] == [([0], [0, 1, 6])] * 2
    whole = marks(pair([("a", "00000007", ""), ("b", "00000005", "")], "int32"))
    assert [(places, first) for _, places, first in whole] == [([30], [0, 8, 16, 24])] * 2
    assert "sign" not in pair([("a", "00000007", ""), ("b", "00000005", "")], "uint32")


def test_digests_and_what_is_no_pattern_are_shown_as_they_are():
    digests = pair([("expected", "ab" * 32, ""), ("got", "cd" * 32, "")], None)
    assert marks(digests) == [("", [], [])] * 2 and "cd" * 32 in digests
    odd = pair([("expected", "<x>", "y"), ("got", "00", "")], "bool")
    assert "&lt;x&gt;" in odd and "<x>" not in odd
