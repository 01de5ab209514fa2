"""Alerts and dashboard in Prometheus itself, where Debian's package `prometheus` is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.deploy.exported import named
from tests.deploy.test_monitoring import QUERIES, RULES, UNSEEN
from tests.deploy.watched import PATIENCE_S, watched
from tests.docs.markdown import ROOT
from tests.waiting import wait_until
from tools.render_chart import CHART

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
NEEDS_PROMTOOL = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
NEEDS_PROMETHEUS = pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
ALERTS = CHART / "files" / "alerts.yaml"
UNITS = ROOT / "tests" / "deploy" / "alerts_test.yaml"
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$model": ".*"}


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *map(str, words)], capture_output=True, text=True)


@NEEDS_PROMTOOL
def test_promtool_takes_the_rules() -> None:
    done = promtool("check", "rules", ALERTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


@NEEDS_PROMTOOL
def test_promtool_refuses_a_broken_query(tmp_path: Path) -> None:
    broken = tmp_path / "alerts.yaml"
    broken.write_text(ALERTS.read_text(encoding="utf-8").replace("rate(", "rat("))
    assert promtool("check", "rules", broken).returncode != 0


@NEEDS_PROMTOOL
def test_each_alert_fires_where_it_should_and_nowhere_else() -> None:
    done = promtool("test", "rules", UNITS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_among_those_that_are_made_to_fire() -> None:
    expected = yaml.safe_load(UNITS.read_text(encoding="utf-8"))["tests"][0]["promql_expr_test"]
    firing = {
        one["labels"].partition('"')[2].partition('"')[0] for one in expected[0]["exp_samples"]
    }
    assert firing == {rule["alert"] for rule in RULES}


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[str]:
    """Prometheus that reads `target` each second; gives its URL."""
    assert PROMETHEUS is not None
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    job = {"job_name": "spectrie", "static_configs": [{"targets": [target]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    config["rule_files"] = [str(ALERTS)]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [PROMETHEUS, f"--config.file={folder}/prometheus.yml"]
    command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@NEEDS_PROMETHEUS
def test_every_query_finds_a_series_of_a_router_under_load(tmp_path: Path) -> None:
    """Alerts are asked without their threshold: a sound router fires none."""
    pending = {}
    for name, query in QUERIES.items():
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)
        if not named(query) & UNSEEN and name not in {rule["alert"] for rule in RULES}:
            pending[name] = query
    assert len(pending) > 40
    with watched(tmp_path) as router, scraping(router.metrics, tmp_path) as url:

        def is_done() -> bool:
            router.use()
            for name, query in list(pending.items()):
                if _result(url, query):
                    del pending[name]
            return not pending

        wait_until(is_done, PATIENCE_S, lambda: f"no series: {pending}")
        rules = httpx.get(f"{url}/api/v1/rules", timeout=30).json()["data"]["groups"][0]["rules"]
        assert [rule["name"] for rule in rules] == [rule["alert"] for rule in RULES]
        assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


def _result(url: str, query: str) -> list[Any]:
    try:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, timeout=10)
    except httpx.TransportError:  # it has not begun to listen
        return []
    if answer.status_code == 503:  # it has not read its configuration
        return []
    assert answer.status_code == 200, answer.text
    result: list[Any] = answer.json()["data"]["result"]
    return [one for one in result if one["value"][1] != "NaN"]
