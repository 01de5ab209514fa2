"""What the scale bench counts of tenants that share an engine."""

from __future__ import annotations

from pathlib import Path

from bench.scale.figure import FIGURES
from bench.scale.tenants import GIVEN_UP_S, SAMPLERS


def test_a_sample_gives_figures_of_the_table_and_counts_what_fairness_promises() -> None:
    with SAMPLERS["tenants"](Path(), 1, {"share": 0.001}) as sampler:
        figures, _ = sampler.take(0)
    assert figures.keys() <= {figure.name for figure in FIGURES}
    # Counted, not timed: twelve requests at the highest priority stand before no other tenant.
    assert figures["first token beside priority 100, s"] < 2.0 < GIVEN_UP_S
    assert figures["accepted after 64 unpredictable requests, over before"] > 0.8
