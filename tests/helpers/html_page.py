"""Parses a page, and checks what holds for every page that the tool writes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser

from recovery.linux.files import template_dir

_WITHOUT_END_TAG = {"meta", "link", "br", "hr", "img", "input"}


def without_whole(page: str) -> str:
    """Returns a page without the marks that keep versions and figures on one line."""
    return re.sub(r'<span class="whole">([^<]*)</span>', r"\1", page)


class HtmlPage(HTMLParser):
    """The parts of a page. A tag that closes another than the open one is an error."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self.headings: list[int] = []
        self.labels: list[str] = []
        self.names: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert len(given) == len(attrs), f"twice in {tag}: {attrs}"
        self.names |= set(given)
        self.tags[tag] += 1
        self.ids.update([given["id"]] if "id" in given else [])
        self.labels += given.get("aria-labelledby", "").split()
        self.labels += [given["href"][1:]] if given.get("href", "").startswith("#") else []
        self.labels += re.findall(r"url\(#([^)]+)\)", given.get("fill", ""))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in _WITHOUT_END_TAG:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_policy(written: str) -> None:
    """The only script is the tool's own, and the page's policy allows it by its hash and no other."""
    (script,) = re.findall(r"<script[^>]*>(.*?)</script", written, re.DOTALL | re.IGNORECASE)
    assert written.lower().count("<script") == 1
    assert script.encode() == (template_dir() / "report.js").read_bytes()
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', written)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"


def check_page(written: str) -> HtmlPage:
    """Returns the page. It is well-formed, labels what it refers to, has no script but its own, and fetches nothing."""
    page = HtmlPage(written)
    check_policy(written)
    assert [name for name, times in page.ids.items() if times > 1] == []
    assert set(page.labels) <= set(page.ids)
    assert page.tags["script"] == 1
    assert {"link", "iframe", "img", "button"} & set(page.tags) == set()
    assert not any(name.startswith("on") for name in page.names)
    assert page.tags["h1"] == page.tags["style"] == 1
    assert page.headings[0] == 1
    deeper = zip(page.headings, page.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in deeper), "no heading leaves a level out"
    assert page.tags["table"] == page.tags["caption"]
    assert not any(re.match("<(Macro|function|recovery)", text) for text in page.texts), "a part of a template is shown"
    return page
