"""Pages: one HTML file each, with all it needs inside, and no way to reach anything outside of it."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from gradlex._files import write_whole
from gradlex._version import __version__
from gradlex.report._format import plain

PAGE = "report.html"


def render(template: str, **content: Any) -> str:
    """A page from a template; every string in the content is data, and is shown as text."""
    return _environment().get_template(template).render(**content)


def write_page(path: Path, page: str) -> Path:
    """Write a page, whole or not at all; returns the file."""
    write_whole(path, page.encode("utf-8"))
    return path


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("gradlex.report.html", "templates")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["lines"] = _lines
    style, script = (Markup(loader.get_source(environment, name)[0]) for name in ("style.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    environment.globals.update(
        style=style,
        script=script,
        version=__version__,
        # Nothing is loaded from anywhere, and no script runs but this one.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'",
    )
    return environment


def _visible(value: Any) -> Any:
    """Text without control characters, which would be lost or reorder what stands around them."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """Text of several lines, each of them as `_visible` shows it."""
    return Markup("\n").join(plain(line) for line in text.splitlines())
