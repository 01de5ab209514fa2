"""Puts the tables of the last runs into README and `docs/benchmarks.md`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bench.support import summary
from bench.support.machine import ROOT
from bench.support.report import RESULTS
from spectrie.printing.markdown import render_table

__all__ = ["BEGIN", "END", "fill_pages"]

README = ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
IN_BENCHMARKS = (
    *(
        "cpu",
        "xeon/cpu",
        "speculation",
        "routing",
        "router",
        "serving/caches",
        "serving/serving",
        "draft/draft",
        "draft/heads",
        "gil/overlap",
        "gil/gil",
    ),
    "hostile/hostile",
)
"""Results that the benchmarks page shows, in this order: losses included."""
_LINK = re.compile(r"\]\((?!https?:|#|/)([^)]+)\)")


def fill_pages(
    readme: Path = README, benchmarks: Path = BENCHMARKS, results: Path = RESULTS
) -> None:
    """Replaces what stands between the markers of both pages; nothing else of them changes.

    Args:
        readme: Gets the summary of six rows.
        benchmarks: Gets every table.
        results: Folder of the result files.

    Raises:
        ValueError: A page has no markers.
    """
    tables = []
    for name in IN_BENCHMARKS:
        file = results / f"{name}.md"
        if file.exists():
            tables.append(_moved(file, benchmarks.parent))
    bodies = {
        readme: render_table(summary.HEADER, summary.rows(results)) + "\n",
        benchmarks: "\n".join(tables),
    }
    filled = {page: _filled(page, body) for page, body in bodies.items()}
    for page, text in filled.items():
        page.write_text(text, encoding="utf-8")


def _moved(file: Path, folder: Path) -> str:
    """The text of a result file as a section, its links as seen from `folder`."""

    def link(found: re.Match[str]) -> str:
        return f"]({Path(os.path.relpath(file.parent / found[1], folder)).as_posix()})"

    return _LINK.sub(link, file.read_text(encoding="utf-8")).replace("### ", "## ", 1)


def _filled(page: Path, body: str) -> str:
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} lacks the markers {BEGIN} and {END}")
    return f"{head}{BEGIN}\n{body}{END}{tail}"
