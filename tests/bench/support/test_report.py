"""The README shows the tables of the last runs, and nothing else of it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.support import report


def test_tables_replace_what_stood_between_the_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    (tmp_path / "router.md").write_text("### Router\n")
    (tmp_path / "cpu.md").write_text("### Decode\n")
    for _ in range(2):
        report.fill_readme(readme, tmp_path)
        tables = "### Decode\n\n### Router\n"
        assert readme.read_text() == f"before\n{report.BEGIN}\n{tables}{report.END}\nafter\n"


def test_readme_without_markers_is_refused_and_kept(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("no markers\n")
    with pytest.raises(ValueError, match="lacks the markers"):
        report.fill_readme(readme, tmp_path)
    assert readme.read_text() == "no markers\n"
