"""Dashboard and alerts: every metric and label is exported by a running router, every alert has its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.exported import documented, labels_of, named
from tests.deploy.watched import PATIENCE_S, Watched, watched
from tests.docs.markdown import ROOT
from tests.waiting import wait_until
from tools.render_chart import CHART

ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {rule["alert"]: rule["expr"] for rule in RULES} | {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in PANELS
    for target in panel["targets"]
}
_SELECTOR = re.compile(r"\b(spectrie_[a-z0-9_]+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
SCRAPED = {"instance", "namespace", "pod"}
"""Labels that Prometheus adds; the last two in Kubernetes."""
UNSEEN = {
    "spectrie_worker_restarts_total",
    "spectrie_fleet_dropped_total",
    "spectrie_fleet_streams_refused_total",
    "spectrie_otlp_dropped_spans_total",
    "spectrie_spec_drafter_gain_high_ratio",
    "spectrie_spec_drafter_gain_low_ratio",
    "spectrie_spec_drafter_gain_ratio",
    "spectrie_spec_drafter_levels_total",
    "spectrie_spec_drafter_rows_total",
}
"""What appears only when a second worker joins, beside a Redis or a collector that fails, and with a drafter."""
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for room in ("router", "types")
    for path in sorted((ROOT / "rust" / room / "src").rglob("*.rs"))
)


def wrong_names(query: str) -> set[str]:
    """The metrics and labels of a query that nothing exports."""
    wrong = named(query) - documented()
    known = {label for name in named(query) for label in labels_of(name)} | SCRAPED
    for name, matchers in _SELECTOR.findall(query):
        wrong |= {key for key, _, _ in _MATCHER.findall(matchers)} - labels_of(name) - SCRAPED
    for group in _GROUPED.findall(query):
        wrong |= {label.strip() for label in group.split(",")} - known
    return wrong


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("watched")) as router:
        router.use()
        yield router


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_query_names_metrics_and_labels_that_exist(query: str) -> None:
    assert named(query)
    assert wrong_names(query) == set()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("spectrie_requests_waiting", "spectrie_requests_wating"),
        ("spectrie_ttft_seconds_bucket", "spectrie_ttft_seconds"),
        ("spectrie_retries_total", "spectrie_retries"),
        ('spectrie_rejected_total{reason="QUEUE_FULL"}', 'spectrie_rejected_total{reasons="x"}'),
        (
            "sum by (source) (spectrie_spec_accepted_tokens_total)",
            "sum by (source) (spectrie_worker_up)",
        ),
    ],
)
def test_misspelt_metric_or_label_is_found(right: str, wrong: str) -> None:
    assert wrong_names(right) == set()
    assert wrong_names(wrong) != set()


def test_every_metric_of_the_queries_is_exported_by_a_running_router(running: Watched) -> None:
    wanted = {name for query in QUERIES.values() for name in named(query)} - UNSEEN
    wait_until(
        lambda: wanted <= running.samples(),
        PATIENCE_S,
        lambda: f"not exported: {sorted(wanted - running.samples())}",
    )


def test_a_running_router_exports_what_the_page_lists_and_no_more(running: Watched) -> None:
    wait_until(
        lambda: running.samples() | UNSEEN == documented(),
        PATIENCE_S,
        lambda: f"differ: {sorted((running.samples() | UNSEEN) ^ documented())}",
    )


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_values_of_labels_are_ones_that_the_router_sets(query: str) -> None:
    for _, matchers in _SELECTOR.findall(query):
        for key, kind, value in _MATCHER.findall(matchers):
            if kind == "=" and not value.startswith("$"):
                assert f'"{value}"' in SOURCES, f"{key} is never {value}"


def test_each_alert_has_its_section_in_the_runbook() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_each_alert_has_a_severity_and_a_sentence() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert rule["annotations"]["summary"].endswith("."), rule["alert"]


def test_dashboard_has_its_rows_and_no_panels_on_top_of_each_other() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Traffic",
        "Latency",
        "Queue",
        "Cache",
        "Speculation",
        "Workers and failover",
        "Fleet",
    ]
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_dashboard_uses_its_own_variables_alone() -> None:
    known = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    text = json.dumps(PANELS)
    assert set(re.findall(r"\$(\w+)", text)) == known
    for one in DASHBOARD["templating"]["list"]:
        assert one["type"] == "datasource" or wrong_names(one["query"]) == set()


def test_each_source_of_files_is_in_the_chart() -> None:
    """What the templates read exists: `.Files.Get` of a missing file is empty, not an error."""
    text = Path(CHART / "templates" / "monitoring.yaml").read_text(encoding="utf-8")
    files = re.findall(r'\.Files\.Get "([^"]+)"', text)
    assert len(files) == 2
    assert all((CHART / name).stat().st_size > 0 for name in files)
