"""Whatever follows from the router's own description is answered as described."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.server import serving

TOOL = Path(sys.executable).with_name("schemathesis")
# Answers must be of a documented status, type and shape, and no failure of the server's.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance,unsupported_method"
)
LONG_S = 7200

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="needs schemathesis")


def _run(folder: Path, *, max_examples: int) -> int:
    """Sends what schemathesis makes of `/openapi.json`; gives the number of its requests."""
    log = folder / "log"
    with serving(folder, log=log) as server:
        command = [
            str(TOOL),
            "run",
            f"{server.http}/openapi.json",
            "--no-color",
            "--checks",
            CHECKS,
        ]
        command += ["--phases", "coverage,fuzzing", "--max-examples", str(max_examples)]
        command += ["--generation-deterministic", "--request-timeout", "60"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
    assert "panicked" not in log.read_text()
    counted = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
    assert counted is not None and counted[1] == counted[2], run.stdout[-2_000:]
    return int(counted[1])


def test_requests_of_the_description_are_answered_as_it_says(tmp_path: Path) -> None:
    assert _run(tmp_path, max_examples=20) >= 500


@pytest.mark.deep
@pytest.mark.timeout(LONG_S)
def test_twenty_thousand_requests_are_answered_as_described(tmp_path: Path) -> None:
    assert _run(tmp_path, max_examples=10_000) >= 20_000
