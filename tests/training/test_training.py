"""`spectrie train-head` from start to end, on a tiny model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from spectrie._core import Tokenizer
from spectrie.cli import main
from spectrie.model import load_runner
from spectrie.training.recipe import Recipe
from spectrie.training.texts.samples import Sample, SampleFile
from spectrie.training.training import _is_held_out
from spectrie.training.worth import report_worth
from tests.tiny_model import Shape, write_tiny_model

SMALL = ["--epochs", "1", "--answer-tokens", "24", "--sample-tokens", "128", "--vocabulary", "200"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(
        tmp_path_factory.mktemp("model"), shape=Shape(hidden=32, inner=64, layers=3)
    )


def train(model: Path, output: Path, *arguments: str) -> int:
    return main(
        ["train-head", str(model), "--output", str(output), "--threads", "1", *SMALL, *arguments]
    )


def origin_of(head: Path) -> dict[str, Any]:
    with safe_open(head / "model.safetensors", framework="pt") as file:
        origin: dict[str, Any] = json.loads(file.metadata()["spectrie"])
    return origin


def test_a_head_is_trained_on_the_models_own_answers(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "head"
    assert train(model, output, "--self-generate", "--prompts", "100") == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == str(output)
    assert "right on held-out answers, by level" in shown.err
    worth = re.search(
        r"on held-out prompts: ([\d.]+) with the head alone.*: ([\d.]+) from text alone, ([\d.]+) with the head",
        shown.err,
    )
    assert worth is not None, shown.err
    assert all(1.0 <= float(figure) <= 20.0 for figure in worth.groups())
    assert "expected here for one request" in shown.err
    log = (tmp_path / "head.work/train.log").read_text()
    assert log and set(log.splitlines()) <= set(shown.err.splitlines())
    config = json.loads((output / "config.json").read_text())
    origin = origin_of(output)
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["rope_theta"] == 10000.0
    assert (origin["kind"], origin["namespaces"], origin["licence"]) == ("eagle3", None, "unknown")
    assert origin["data"][0]["name"] == "100 built-in prompts"
    assert len(origin["data"][0]["sha256"]) == 64
    assert origin["answer_tokens"] > 1000
    assert len(origin["held_out_top_1"]) == 3
    drafter = load_runner(model, num_pages=8, drafter=output).drafter
    assert drafter is not None
    assert (drafter.is_for_model, drafter.namespaces) == (True, None)
    with safe_open(output / "model.safetensors", framework="pt") as file:
        assert file.get_tensor("fc.weight").dtype == torch.bfloat16
        assert file.get_tensor("d2t").shape == (200,)
    # Everything is there already: the second call computes nothing and writes the same bytes.
    before = (output / "model.safetensors").read_bytes()
    (output / "model.safetensors").unlink()
    assert train(model, output, "--self-generate", "--prompts", "100") == 0
    assert (output / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("prompt_tokens", "expected"),
    [
        (8, "what the head gives is not measured: "),
        (40, "no held-out prompt leaves room for an answer: what the head gives is not measured"),
    ],
)
def test_a_head_that_cannot_be_measured_is_done_all_the_same(
    model: Path, tmp_path: Path, prompt_tokens: int, expected: str
) -> None:
    recipe = Recipe(str(model), tmp_path / "no-head", tmp_path / "work", sample_tokens=100_000)
    sample = Sample([5] * 60, [(prompt_tokens, 60)], "text")
    lines: list[str] = []
    report_worth(recipe, model, 64, [sample], lines.append)
    assert lines[-1].startswith(expected), lines


def test_a_namespace_that_no_request_can_name_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(model, tmp_path / "head", "--self-generate", "--namespace", "a b") != 0
    assert "--namespace is 'a b'" in capsys.readouterr().err


def test_a_command_that_is_killed_in_each_stage_ends_with_the_same_bytes(
    model: Path, tmp_path: Path
) -> None:
    # Two groups of answers: 128 and the rest.
    arguments = ["--self-generate", "--prompts", "130"]
    assert train(model, tmp_path / "whole", *arguments) == 0
    output = tmp_path / "killed"
    command = ["train-head", str(model), "--output", str(output), "--threads", "1"]
    child = subprocess.run(
        [sys.executable, "-m", "tests.training.killed_command", *command, *SMALL, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    state = torch.load(tmp_path / "killed.work/checkpoint.pt")
    assert (state["step"], output.exists()) == (2, False)
    assert train(model, output, *arguments) == 0
    found, expected = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("killed", "whole")
    )
    assert found == expected


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("eagle2", "LlamaForCausalLMEagle"),
        ("mtp", "MiMoMTPModel"),
        ("peagle", "PEagleDraftModel"),
        ("dflash", "DFlashDraftModel"),
        ("dflash2", "DFlash2DraftModel"),
    ],
)
def test_a_head_of_each_kind_is_one_command(
    model: Path, tmp_path: Path, kind: str, architecture: str
) -> None:
    data, output = tmp_path / "text.txt", tmp_path / "head"
    data.write_text("".join(f"def f{n}(x): return x + {n}\n" for n in range(500)))
    assert train(model, output, "--data", str(data), "--kind", kind) == 0
    config = json.loads((output / "config.json").read_text())
    assert config["architectures"] == [architecture]
    assert origin_of(output)["kind"] == kind
    drafter = load_runner(model, num_pages=8, drafter=output).drafter
    assert drafter is not None
    assert (drafter.kind, drafter.is_for_model) == (kind, True)


def test_a_head_of_low_rank_is_one_command(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, output = tmp_path / "text.txt", tmp_path / "head"
    data.write_text("".join(f"def f{n}(x): return x + {n}\n" for n in range(500)))
    arguments = [*SMALL[:-2], "--head-rank", "16", "--data", str(data), "--threads", "1"]
    assert main(["train-head", str(model), "--output", str(output), *arguments]) == 0
    lines = capsys.readouterr().err
    found = re.search(r"rank 16 finds 64 of (\d+) tokens, among them ([\d.]+)% of the", lines)
    assert found is not None, lines
    origin = origin_of(output)
    assert origin["head_rank"] == 16
    assert f"{origin['coverage']:.1%}" == f"{found[2]}%"
    with safe_open(output / "model.safetensors", framework="pt") as file:
        assert {"d2t", "t2d"}.isdisjoint(file.keys())
        assert file.get_slice("low_rank.down.weight").get_shape() == [16, 32]
        assert file.get_slice("low_rank.basis.weight").get_shape() == [32, 16]
    drafter = load_runner(model, num_pages=8, drafter=output).drafter
    assert drafter is not None
    assert (drafter.kind, drafter.named_tokens) == ("eagle3", None)


def test_data_and_its_namespace_are_named_in_the_head(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "chats.jsonl"
    lines = [{"prompt": f"the {n} of", "answer": f"it is {n} on {n} as {n}"} for n in range(200)]
    data.write_text("\n".join(map(json.dumps, lines)))
    arguments = ["--data", str(data), "--namespace", "acme"]
    arguments += ["--license", "ours", "--commit", "c0ffee"]
    assert train(model, tmp_path / "head", *arguments) == 0
    origin = origin_of(tmp_path / "head")
    assert (origin["namespaces"], origin["licence"]) == (["acme"], "ours")
    assert origin["commit"] == "c0ffee"
    assert origin["data"][0]["name"] == "chats.jsonl"


def test_the_model_is_asked_about_the_functions_of_a_python_file(
    model: Path, tmp_path: Path
) -> None:
    data, source = tmp_path / "chats.jsonl", tmp_path / "source.py"
    lines = [{"prompt": f"the {n} of", "answer": f"it is {n} on {n} as {n}"} for n in range(100)]
    data.write_text("\n".join(map(json.dumps, lines)))
    source.write_text("def doubled(x):\n    y = x + x\n    return y\n")
    output = tmp_path / "head"
    arguments = ["--data", str(data), "--data", str(source), "--self-generate"]
    assert train(model, output, *arguments) == 0
    (answer,) = SampleFile(tmp_path / "head.work" / "answers.jsonl")
    assert "def doubled(x):" in Tokenizer.from_folder(model).decode(answer.token_ids)
    assert [one["name"] for one in origin_of(output)["data"]] == ["chats.jsonl", "source.py"]


def test_text_that_must_stay_unseen_is_not_trained_on(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, unseen = tmp_path / "chats.jsonl", tmp_path / "test.txt"
    secret = "have from they which one you had their print the with self None True False"
    answers = [f"it is {n} on {n} as {n}" for n in range(200)] + [secret] * 3
    data.write_text("\n".join(json.dumps({"prompt": "for ", "answer": one}) for one in answers))
    unseen.write_text(f"and so on: {secret}")
    assert train(model, tmp_path / "head", "--data", str(data), "--unseen", str(unseen)) == 0
    assert "3 samples dropped, 200 kept" in capsys.readouterr().err


def test_features_stay_below_their_bound(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"def f{n}(x): return x + {n}\n" for n in range(2000)))
    assert train(model, tmp_path / "head", "--data", str(text), "--disk", "2MiB") == 0
    assert "samples are left out: more would not fit --disk" in capsys.readouterr().err
    size = sum(path.stat().st_size for path in (tmp_path / "head.work").glob("*.bin"))
    assert 1 << 20 < size <= 2 << 20


def test_wrong_uses_are_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "what"}\n')
    output = tmp_path / "head"
    assert train(model, output) == 2
    assert "nothing to learn from: give --data FILE, or --self-generate" in capsys.readouterr().err
    assert train(model, output, "--data", str(prompts)) == 2
    assert "prompts without an answer: 1; --self-generate" in capsys.readouterr().err
    assert train(model, output, "--data", str(prompts), "--self-generate") == 2
    message = capsys.readouterr().err
    assert "holds the work of another training (other: answers)" in message
    assert "--work" in message
    assert train(model, output, "--data", str(tmp_path / "none.jsonl")) == 2
    assert "cannot read" in capsys.readouterr().err
    assert train(model, output, "--kind", "dflash", "--levels", "1", "--self-generate") == 2
    assert "levels is 1; a head of kind dflash has at least 2" in capsys.readouterr().err
    assert train(model, output, "--self-generate", "--head-rank", "16") == 2
    assert "--head-rank and --vocabulary exclude each other" in capsys.readouterr().err
    ranked = ["train-head", str(model), "--output", str(output), "--self-generate", "--head-rank"]
    assert main([*ranked, "33"]) == 2
    assert "head-rank is 33, expected 1 to 32" in capsys.readouterr().err
    assert main([*ranked, "0"]) == 2
    assert "--head-rank: 0 is out of range: from 1" in capsys.readouterr().err
    assert main([*ranked, "16", "--kind", "dflash"]) == 2
    message = capsys.readouterr().err
    assert "a head of kind dflash names all tokens by the target's head" in message
    assert "eagle3, eagle2, mtp, peagle" in message
    assert train(model, output, "--kind", "eagle9", "--self-generate") == 2
    assert "eagle9" in capsys.readouterr().err


def test_all_turns_of_a_chat_are_held_out_or_none() -> None:
    first = [Sample([n, *range(60)], [(50, 61)], "x") for n in range(400)]
    longer = [Sample([*one.token_ids, 7, 8, 9], [(61, 64)], "x") for one in first]
    chosen = [_is_held_out(one) for one in first]
    assert chosen == [_is_held_out(one) for one in longer]
    assert 1 <= sum(chosen) <= 40
