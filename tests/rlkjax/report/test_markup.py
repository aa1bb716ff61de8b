"""Foreign text stays text, whatever is in it."""

import base64
import hashlib
import re

import pytest

from rlkjax.report.markup import LONGEST, Html, data_block, document, join, tag, visible


def test_text_is_escaped_and_markup_is_not():
    made = tag("p", "a < b & c", Html("<b>d</b>"), None, 7, class_="x", data_a='"')
    assert made == '<p class="x" data-a="&quot;">a &lt; b &amp; c<b>d</b>7</p>'
    assert tag("br") == "<br>"
    assert join(["<", Html("<i></i>")]) == "&lt;<i></i>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b[31m", r"a\x00b\x1b[31m"),
        ("line\nbreak", r"line\nbreak"),
        ("\ud800", r"\ud800"),  # a lone surrogate, which UTF-8 cannot hold
        ("abc\u202edef", r"abc\u202edef"),  # turns the direction of what follows
        ("größe 中文", "größe 中文"),
    ],
)
def test_what_does_not_print_is_spelt_out(text, shown):
    assert visible(text) == shown
    assert tag("p", text).encode()


def test_long_text_is_cut_and_says_so():
    assert visible("x" * LONGEST) == "x" * LONGEST
    assert (
        visible("x" * 1_000_000) == "x" * LONGEST + f"… ({1_000_000 - LONGEST:,} more characters)"
    )


def test_no_value_closes_a_data_block():
    block = data_block("scene", {"a": "</script><script>x()</script><!--"})
    assert block.count("<") == 2 and block.count("</script>") == 1
    assert r"\u003c/script>\u003cscript>x()\u003c/script>\u003c!--" in block


def test_a_page_allows_its_own_style_and_script_only():
    page = document("a & b", tag("p", "x"), style="p{}", script="let y = 1;")
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)[1]
    for kind, text in (("style", "p{}"), ("script", "let y = 1;")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src &#x27;sha256-{digest}&#x27;" in policy
    assert policy.startswith("default-src &#x27;none&#x27;")
    assert "<title>a &amp; b</title>" in page
    still = document("a", tag("p", "x"), style="p{}")
    assert "script" not in still
