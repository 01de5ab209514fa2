"""README and the benchmarks page show the last runs, and nothing else of them changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.support import summary
from bench.support.pages import BEGIN, END, IN_BENCHMARKS, fill_pages
from bench.support.report import RESULTS


def _page(path: Path) -> Path:
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    return path


def _between(page: Path) -> str:
    head, _, rest = page.read_text().partition(f"{BEGIN}\n")
    body, _, tail = rest.partition(END)
    assert (head, tail) == ("before\n", "\nafter\n")
    return body


def test_tables_replace_what_stood_between_the_markers(tmp_path: Path) -> None:
    readme, benchmarks = _page(tmp_path / "README.md"), _page(tmp_path / "benchmarks.md")
    (tmp_path / "router.md").write_text("### Router\n")
    (tmp_path / "cpu.md").write_text("### Decode\n")
    for _ in range(2):
        fill_pages(readme, benchmarks, tmp_path)
        assert _between(benchmarks) == "## Decode\n\n## Router\n"
        assert _between(readme).startswith("| what | rival | ours |")


def test_links_of_a_result_lead_to_the_same_file_from_the_page(tmp_path: Path) -> None:
    results, docs = tmp_path / "bench" / "results", tmp_path / "docs"
    for folder in (results / "draft", docs):
        folder.mkdir(parents=True)
    text = "[all](all.md) ![](curve.svg) [x](https://x.y/z)\n"
    (results / "draft" / "draft.md").write_text(text)
    fill_pages(_page(tmp_path / "README.md"), _page(docs / "benchmarks.md"), results)
    assert _between(docs / "benchmarks.md") == (
        "[all](../bench/results/draft/all.md) ![](../bench/results/draft/curve.svg)"
        " [x](https://x.y/z)\n"
    )


@pytest.mark.parametrize("without", ["README.md", "benchmarks.md"])
def test_page_without_markers_is_refused_and_both_are_kept(tmp_path: Path, without: str) -> None:
    readme, benchmarks = _page(tmp_path / "README.md"), _page(tmp_path / "benchmarks.md")
    (tmp_path / without).write_text("no markers\n")
    before = readme.read_text(), benchmarks.read_text()
    with pytest.raises(ValueError, match="lacks the markers"):
        fill_pages(readme, benchmarks, tmp_path)
    assert (readme.read_text(), benchmarks.read_text()) == before


def test_committed_results_give_six_rows_and_every_section() -> None:
    assert len(summary.rows(RESULTS)) == 6
    assert all((RESULTS / f"{name}.md").exists() for name in IN_BENCHMARKS)


def test_a_row_shows_both_rates_and_the_ratio_with_its_interval(tmp_path: Path) -> None:
    measured = {"base_median": 10.04, "ours_median": 21.0}
    measured |= {"ratio": 2.1, "ratio_low": 2.0, "ratio_high": 2.25}
    content = {"results": {"chat": {"spectrie": measured}}}
    (tmp_path / "speculation.json").write_text(json.dumps(content))
    row = ["chat, speculation on", "10.0 tok/s off", "21.0 tok/s", "2.10x (2.00-2.25, wide)"]
    assert summary.rows(tmp_path) == [row]
