"""The metrics that a router exports, by docs/metrics.md, which a test of the router holds to its table."""

from __future__ import annotations

import re
from functools import cache

from tests.docs.markdown import ROOT, tables

__all__ = ["documented", "labels_of", "named"]

_NAME = re.compile(r"\bspectrie_[a-z0-9_]+")


@cache
def _labels() -> dict[str, frozenset[str]]:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = next(rows for rows in tables(page) if rows[0][:3] == ["name", "kind", "labels"])
    found: dict[str, frozenset[str]] = {}
    for name, kind, given, *_ in table[1:]:
        metric = name.strip("`")
        labels = frozenset(label.strip() for label in given.split(",") if label.strip())
        if kind == "histogram":
            found |= {metric + end: labels for end in ("_count", "_sum")}
            found[f"{metric}_bucket"] = labels | {"le"}
        else:
            found[metric] = labels
    return found


def documented() -> frozenset[str]:
    """Every name that a query may use: those of docs/metrics.md, and the series of its histograms."""
    return frozenset(_labels())


def labels_of(name: str) -> frozenset[str]:
    """The labels of a series; none of one that is not documented."""
    return _labels().get(name, frozenset())


def named(query: str) -> set[str]:
    """The metrics of ours that a query names."""
    return set(_NAME.findall(query))
