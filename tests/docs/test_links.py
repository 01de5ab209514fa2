"""Links and paths in the pages lead to something that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT, anchors, links, named_paths

EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            found.append(link)
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(link)
    return found


@EACH_PAGE
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    assert broken(page) == []


@EACH_PAGE
def test_paths_in_code_spans_exist(page: Path) -> None:
    # A page of one folder names paths from there, too.
    folders = (ROOT, page.parent)
    paths = named_paths(page.read_text(encoding="utf-8"))
    assert [path for path in paths if not any((at / path).exists() for at in folders)] == []


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One title\n[a](gone.md) [b](#one-title) [c](#another)\n```\n[d](x)\n```\n")
    assert broken(page) == ["gone.md", "#another"]
