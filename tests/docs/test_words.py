"""The pages use the words of the glossary, and README none of our own targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT

AVOIDED = re.compile(
    r"\b(company|told|tells|nobody|whoever|so many|for ever|learnt|taken apart|let in|anew)\b",
    re.IGNORECASE,
)
"""Words of docs/glossary.md that have a better one; those with a second meaning are left to readers."""
TARGETS = re.compile(r"\b(floor|goal|verdict|seed's)\b", re.IGNORECASE)
EXEMPT = {
    "docs/glossary.md": "lists them",
    "docs/benchmarks.md": "names our targets, and is made from results of earlier commits",
    "THIRD_PARTY_LICENSES.md": "is made of other people's texts",
}
CHECKED = [page for page in PAGES if str(page.relative_to(ROOT)) not in EXEMPT]


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    assert AVOIDED.findall(page.read_text(encoding="utf-8")) == []


def test_exempt_pages_exist() -> None:
    assert [name for name in EXEMPT if not (ROOT / name).is_file()] == []


def test_readme_speaks_of_results_not_of_targets() -> None:
    assert TARGETS.findall((ROOT / "README.md").read_text(encoding="utf-8")) == []
