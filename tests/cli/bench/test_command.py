"""`spectrie bench` against a scripted server: requests, figures, errors."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie.cli import main
from spectrie.cli.bench.load import Outcome, Sample, summarise
from spectrie.types import Completion, SpeculationStats, Usage
from tests.client.scripted import Server, delta, fail, finished, started


def answer(tokens: int, steps: int) -> Completion:
    accepted = tokens - 1 - steps
    return Completion(
        text="",
        token_ids=tuple(range(tokens)),
        finish_reason="length",
        usage=Usage(prompt_tokens=10, completion_tokens=tokens),
        speculation=SpeculationStats(steps, 2 * accepted, accepted, {"request": accepted}),
    )


def test_figures_follow_their_definitions() -> None:
    samples = (
        Sample(answer(11, 6), ttft_s=0.5, e2el_s=1.5, gaps_s=(0.25, 0.75)),
        Sample(answer(1, 0), ttft_s=0.5, e2el_s=0.5, gaps_s=()),
    )
    result = summarise(Outcome(samples, ("late",), duration_s=2.0))
    assert (result["completed"], result["failed"]) == (2, 1)
    assert result["output_throughput"] == 6.0
    assert result["mean_tpot_ms"] == pytest.approx(100.0)
    assert result["mean_itl_ms"] == pytest.approx(500.0)
    assert result["p99_e2el_ms"] == pytest.approx(1500.0)
    assert result["accepted_per_step"] == pytest.approx(4 / 6)
    assert result["acceptance_rate"] == pytest.approx(0.5)
    assert result["accepted_by_source"] == {"request": 4}


def test_both_runs_are_in_the_table_and_the_file(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script.unary = [pb.ListModelsResponse()]
    server.script.streams = [[started(), delta("ab", 1, 2), delta("c", 3, 4), finished()]]
    file = tmp_path / "result.json"
    arguments = ["bench", "--server", server.target, "--num-prompts", "3"]
    assert main([*arguments, "--save-result", str(file)]) == 0
    assert "| speculation off | speculation on |" in capsys.readouterr().out
    results = json.loads(file.read_text())
    assert results["speculation on"]["completed"] == 3
    wishes = [request.speculation.enabled for request in server.script.requests[1:]]
    assert wishes == [False] * 3 + [True] * 3


def test_failures_are_counted_and_named(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.script.unary = [pb.ListModelsResponse()]
    server.script.streams = [[fail(grpc.StatusCode.INTERNAL, "a bug")]]
    arguments = ["bench", "--server", server.target, "--num-prompts", "2"]
    assert main([*arguments, "--speculation", "on"]) == 1
    assert "2 requests failed, the first with: a bug" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no prompts in it"),
        ("{", ":1: Expecting property name"),
        ('{"prompt": "a", "messages": []}', "either 'prompt' or 'messages'"),
        ('{"prompt": "a", "answer": "b"}', "unknown key 'answer'"),
    ],
)
def test_bad_prompt_files_are_refused_by_line(
    tmp_path: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(line)
    assert main(["bench", "--prompts", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_profile_without_torch_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spectrie.model.machine.has_torch", lambda: False)
    assert main(["bench", "--profile", "/no/model"]) != 0
    message = "--profile needs torch: pip install 'spectrie[worker]'"
    assert message in capsys.readouterr().err
