"""Which packages the code traces come from: a set for each split, and corpora.

No package is in two sets, so that no test file has its copy in the corpus.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from bench.support.packages import members

__all__ = ["CODE", "SETS", "Quota", "choose"]

_MIN_BYTES, _MAX_BYTES = 600, 60_000
_MAX_LINE = 300
"""Longer lines mean minified or generated text."""
_LEFT_OUT = (
    "/formats.py",
    "/locale/__init__.py",
    "autogen",
    "/_vendor/",
    ".min.",
    "_pb2",
    "/node_modules/",
)

_PYTHON = (".py",)
_SCRIPT = (".js", ".ts", ".tsx")
_C = (".c", ".h", ".cc", ".cpp", ".hpp")
_RUST = (".rs",)
_MARKDOWN = (".md",)


@dataclass(frozen=True, slots=True)
class Quota:
    """A number of bytes of one language from one package.

    Attributes:
        name: The project.
        suffixes: Endings of the files taken.
        kilobytes: About how much, in 1,000 bytes; about 3.4 bytes make one token.
        sdist: Whether the files come from its sdist rather than its wheel.
    """

    name: str
    suffixes: tuple[str, ...]
    kilobytes: int
    sdist: bool = False


SETS: dict[str, tuple[Quota, ...]] = {
    "code": (
        Quota("click", _PYTHON, 130),
        Quota("scrapy", _PYTHON, 130),
        Quota("jsonschema", _PYTHON, 90),
        Quota("ipydatagrid", _SCRIPT, 60, sdist=True),
        Quota("jupyter-collaboration-ui", _SCRIPT, 60, sdist=True),
        Quota("nanobind", _C, 100),
        Quota("jiter", _RUST, 80, sdist=True),
        Quota("pyzmq", _MARKDOWN, 35, sdist=True),
    ),
    "tune": (
        Quota("httpx", _PYTHON, 150),
        Quota("typer", _PYTHON, 120),
        Quota("trio", _PYTHON, 150),
        Quota("networkx", _PYTHON, 110),
        Quota("pythreejs", _SCRIPT, 100, sdist=True),
        Quota("bokeh", _SCRIPT, 60),
        Quota("pillow", _C, 120, sdist=True),
        Quota("lxml", _C, 30, sdist=True),
        Quota("pydantic-core", _RUST, 110, sdist=True),
        Quota("jupyter-server", _MARKDOWN, 15, sdist=True),
        Quota("pymdown-extensions", _MARKDOWN, 45, sdist=True),
    ),
    "choose": (
        Quota("starlette", _PYTHON, 90),
        Quota("httpcore", _PYTHON, 70),
        Quota("attrs", _PYTHON, 60),
        Quota("ipympl", _SCRIPT, 40, sdist=True),
        Quota("msgpack", _C, 60, sdist=True),
        Quota("rpds-py", _RUST, 50, sdist=True),
        Quota("mkdocs", _MARKDOWN, 25, sdist=True),
    ),
    "corpus": (
        Quota("django", _PYTHON, 900),
        Quota("werkzeug", _PYTHON, 450),
        Quota("flask", _PYTHON, 260),
        Quota("celery", _PYTHON, 400),
        Quota("tornado", _PYTHON, 350),
        Quota("aiohttp", _PYTHON, 350),
        Quota("sqlalchemy", _PYTHON, 500),
        Quota("rich", _PYTHON, 200),
        Quota("urllib3", _PYTHON, 200),
        Quota("requests", _PYTHON, 150),
        Quota("django", _SCRIPT, 100),
        Quota("ipycanvas", _SCRIPT, 60, sdist=True),
        Quota("jupyterlab-widgets", _SCRIPT, 40, sdist=True),
        Quota("widgetsnbextension", _SCRIPT, 30, sdist=True),
        Quota("nbclassic", _SCRIPT, 500),
        Quota("pybind11", _C, 450),
        Quota("greenlet", _C, 150, sdist=True),
        Quota("uvloop", _C, 300, sdist=True),
        Quota("tokenizers", _RUST, 400, sdist=True),
        Quota("cryptography", _RUST, 250, sdist=True),
        Quota("maturin", _RUST, 150, sdist=True),
        Quota("black", _MARKDOWN, 120, sdist=True),
        Quota("tokenizers", _MARKDOWN, 40, sdist=True),
    ),
    "tune_corpus": (
        Quota("pyramid", _PYTHON, 250),
        Quota("sanic", _PYTHON, 200),
        Quota("falcon", _PYTHON, 250),
        Quota("peewee", _PYTHON, 200, sdist=True),
        Quota("marshmallow", _PYTHON, 120),
        Quota("wtforms", _PYTHON, 100),
        Quota("cherrypy", _PYTHON, 250),
        Quota("paramiko", _PYTHON, 250),
        Quota("fonttools", _PYTHON, 300),
        Quota("panel", _SCRIPT, 80, sdist=True),
        Quota("gevent", _C, 150, sdist=True),
        Quota("orjson", _RUST, 150, sdist=True),
        Quota("hatch", _MARKDOWN, 60, sdist=True),
    ),
    "distractor_translations": (Quota("django", (".po",), 900),),
    "distractor_pages": (
        Quota("django", (".html", ".css"), 500),
        Quota("nbclassic", (".html", ".css"), 500),
    ),
    "distractor_manuals": (Quota("sqlalchemy", (".rst",), 1000, sdist=True),),
    "distractor_data": (
        Quota("bokeh", (".json", ".yaml"), 200),
        Quota("kubernetes-validate", (".json",), 900),
    ),
}
"""Per set, the quotas: about 200k, 300k, 120k, 1.7M and 0.7M tokens, and four of other things."""
CODE = {"report": "code", "tune": "tune", "choose": "choose"}
"""The set of each split."""


def choose(quota: Quota, archive: Path) -> list[tuple[str, str]]:
    """Name and text of the files that fill a quota, sorted by name.

    Files come in the order of their names' hashes until the quota is full, so that no folder of a
    package is preferred.
    """
    found: dict[str, str] = {}
    for name, content in members(archive):
        if not name.endswith(quota.suffixes) or any(part in name for part in _LEFT_OUT):
            continue
        if not _MIN_BYTES <= len(content) <= _MAX_BYTES:
            continue
        if max(map(len, content.split(b"\n"))) > _MAX_LINE:
            continue
        try:
            found[name] = content.decode("utf-8")
        except UnicodeDecodeError:
            continue
    chosen: list[tuple[str, str]] = []
    seen: set[str] = set()
    room = quota.kilobytes * 1000
    for name in sorted(found, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        text = found[name]
        if text in seen or len(text) > room:
            continue
        seen.add(text)
        chosen.append((name, text))
        room -= len(text)
    return sorted(chosen)
