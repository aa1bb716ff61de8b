"""Reads a page as a browser would, strictly enough to see what it would load or run."""

import re
from html.parser import HTMLParser

# Attributes by which an element loads something, and names that any page may hold.
LOADING = {"src", "href", "xlink:href", "srcset", "data", "action", "formaction", "poster", "style"}
VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """Text, elements and attributes of a page; an element that is not closed is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words, self._open = [], [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def check_closed(self) -> None:
        """Nothing that loads, nothing that runs."""
        assert "script" not in self.tags
        for tag, name, value in self.attributes:
            assert not name.startswith("on"), (tag, name)
            if name in LOADING:
                raise AssertionError((tag, name, value))
            if "url(" in (value or ""):
                assert re.fullmatch(r"url\(#over-[a-z-]+\)", value)
