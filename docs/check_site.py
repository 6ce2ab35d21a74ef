"""Is every page of the built site what it should be? python docs/check_site.py SITE

Fails if a page shows raw Markdown, lacks a stylesheet or has a link that leads nowhere, if a page of the navigation has a
different title than its link, or if the site has no favicon.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

RAW = {
    "a table": re.compile(r"\|\s*:?-{2,}"),
    "bold text": re.compile(r"\*\*\w"),
    "code": re.compile(r"`"),
    "a link": re.compile(r"\]\("),
    "a heading": re.compile(r"^#{1,6} ", re.MULTILINE),
    "a list": re.compile(r"^\s*- \w.*\n\s*- \w", re.MULTILINE),
    "a directive": re.compile(r":::"),
}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_SILENT = {"code", "pre", "script", "style", "svg", "head", "title"}


class Page(HTMLParser):
    """The text a reader sees outside code, the title, and the links of the navigation."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.title, self.links = [], "", []
        self._open: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what is open."""
        given = dict(attributes)
        if tag not in _VOID:
            self._open.append((tag, given.get("class") or ""))
        if tag == "a" and "md-nav__link" in (given.get("class") or ""):
            self.links.append([given.get("href") or "", ""])

    def handle_endtag(self, tag: str) -> None:
        """Close it, and what was left open inside it."""
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place][0] == tag:
                del self._open[place:]
                return

    def handle_data(self, data: str) -> None:
        """Sort the text."""
        tags = {tag for tag, _ in self._open}
        classes = " ".join(kind for _, kind in self._open)
        if (
            self.links
            and "md-ellipsis" in classes
            and any(tag == "a" and "md-nav__link" in kind for tag, kind in self._open)
        ):
            self.links[-1][1] += data
        elif "h1" in tags and "md-content" in classes and not re.search("headerlink|anchor-link", classes):
            self.title += data
        if (
            "md-content" in classes
            and not tags & _SILENT
            and not re.search("highlight|jp-OutputArea|clipboard", classes)
        ):
            self.words.append(data)


def faults(path: Path) -> list[str]:
    """What is wrong with a page."""
    page = Page(path.read_text("utf-8"))
    text = "".join(page.words)
    found = [
        f"shows raw Markdown of {kind}: {m.group(0)!r}" for kind, shape in RAW.items() if (m := shape.search(text))
    ]
    markup = path.read_text("utf-8")
    if 'rel="icon"' not in markup:
        found.append("has no favicon")
    needed = re.findall(r'<link[^>]* href="([^":#]+\.css)"|<script[^>]* src="([^":#]+\.js)"', markup)
    found += [f"lacks {name}" for name in map("".join, needed) if not (path.parent / name).is_file()]
    for link in re.findall(r'<a [^>]*href="([^":#?]+)(?:#[^"]*)?"', markup):
        target = path.parent / link
        if not (target.is_file() or (target / "index.html").is_file()):
            found.append(f"leads nowhere: {link}")
    for link, words in page.links:
        target = path.parent / link.partition("#")[0] / "index.html"
        if link in ("", "./") or link.startswith(("#", "http")) or not target.is_file():
            continue
        title = " ".join(Page(target.read_text("utf-8")).title.split())
        if title and title != " ".join(words.split()):
            found.append(f"links to {title!r} as {' '.join(words.split())!r}")
    return found


def main(site: Path) -> int:
    """Print what is wrong with each page; the number of bad pages."""
    pages = [path for path in sorted(site.rglob("index.html")) if "md-content" in path.read_text("utf-8")]
    home = site / "index.html"
    bad = 0 if home in pages else 1
    for path in pages:
        wrong = faults(path) if path == home else [each for each in faults(path) if not each.startswith("links")]
        bad += bool(wrong)
        for each in wrong:
            print(f"{path.relative_to(site)}: {each}")
    print(f"{len(pages)} pages, {bad} with faults")
    return bad


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) > 0)
