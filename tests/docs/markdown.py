"""Reads what the repository's pages say: fenced blocks, links, anchors, paths in code spans."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "anchors", "blocks", "links", "named_paths", "tables"]

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("deploy/*.md"),
        *ROOT.glob("examples/*.md"),
        *ROOT.glob("kernels/*.md"),
        *ROOT.glob("rust/*/*.md"),
    ]
)
"""Every page that people wrote; the generated list of licences has no links to check."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:rust|python|proto|tests|bench|docs|deploy|examples|kernels|tools)/[\w./-]+")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        language: What stands after the opening fence; empty for a picture.
        text: Its lines.
    """

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block: continued lines joined, comments left out."""
        joined = self.text.replace("\\\n", " ")
        lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
        return [line for line in lines if line]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(language, body) for language, body in _FENCE.findall(text)]


def _prose(text: str) -> str:
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """The targets of its links, pictures included."""
    return _LINK.findall(_prose(text))


def anchors(text: str) -> set[str]:
    """The names under which links reach its headings."""
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(_prose(text)))
    return {title.strip().replace(" ", "-") for title in titles}


def named_paths(text: str) -> list[str]:
    """Paths of the repository that stand alone in a code span."""
    return [code for code in _CODE.findall(_prose(text)) if _PATH.fullmatch(code)]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, header first and the line under it left out."""
    found: list[list[list[str]]] = []
    rows: list[list[str]] = []
    for line in [*_prose(text).splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found.append([rows[0], *rows[2:]])
            rows = []
    return found
