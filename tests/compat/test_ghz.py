"""ghz sends many calls at once, and each has the answer of our own client."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from spectrie.client import Client
from tests.compat.conftest import Run

CALLS = 80
"""ghz logs every answer up to a hundred a second, and of more a sample."""


def test_every_call_of_a_load_has_the_right_answer(
    run: Run, server: dict[str, Any], client: Client, tmp_path: Path
) -> None:
    expected = client.generate("def the", max_tokens=24, seed=7)
    request = {"text": "def the", "sampling": {"seed": 7}, "stopping": {"maxTokens": 24}}
    log = tmp_path / "log"
    done = run(
        "ghz",
        "--insecure",
        "--call=spectrie.v1.Inference.Generate",
        f"--data={json.dumps(request)}",
        f"--total={CALLS}",
        "--concurrency=8",
        "--format=json",
        f"--debug={log}",
        server["grpc"],
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["count"] == CALLS
    assert report["statusCodeDistribution"] == {"OK": CALLS}
    assert not report["errorDistribution"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    answers = [line["response"] for line in lines if line["message"] == "Received response"]
    assert len(answers) == CALLS
    ids = {tuple(int(one) for one in re.findall(r"token_ids:(\d+)", text)) for text in answers}
    assert ids == {expected.token_ids}
