"""Recorded answers of a head are those that it gives while serving, and belong to one trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.draft import trace
from bench.draft.recording.answers import LEVELS, record_answers
from bench.draft.recording.head import record_trace
from bench.draft.recording.head_file import answers_for, read_answers
from bench.draft.trace import Request as Recorded
from spectrie.cli import main
from spectrie.cli.replay.head_answers import answers_beside, open_answers
from spectrie.errors import ConfigError
from spectrie.model import Runner, load_runner
from tests.model.drafters.dflash import DFLASH, block_tensors
from tests.model.drafters.heads import write_head, write_tiny_head
from tests.model.drafters.session import Request, draft_path, feed
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model

PROMPT, OUTPUT = 7, 41
ROWS = 20
"""Of a forward at most: several chunks, and several groups of places in each."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    folder = tmp_path_factory.mktemp("head")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(folder / "cache"))
        loaded = load_runner(
            write_tiny_model(folder / "tiny"),
            dtype="float32",
            num_pages=16,
            threads=1,
            max_batch_rows=ROWS,
            drafter=write_tiny_head(folder / "head"),
        )
        yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    drawn = np.random.default_rng(3).integers(0, VOCABULARY_SIZE, PROMPT + OUTPUT)
    return [int(token) for token in drawn]


def test_a_drafter_is_asked_for_the_levels_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: list[int]
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    sizes = {"hidden_size": 64, "vocab_size": VOCABULARY_SIZE, "num_target_layers": 2}
    block = write_head(
        tmp_path / "head", block_tensors(hidden=64), **(DFLASH | sizes | {"block_size": 4})
    )
    runner = load_runner(
        write_tiny_model(tmp_path / "tiny"), num_pages=16, threads=1, drafter=block
    )
    names: list[list[int]] = [[] for _ in range(OUTPUT)]
    recorded = record_answers(runner, tokens[:PROMPT], tokens[PROMPT:], names)
    assert [len(levels) for levels in recorded[-4:]] == [3, 3, 2, 1]


def test_answers_are_those_of_one_request_that_is_served(runner: Runner, tokens: list[int]) -> None:
    names = [[(3 * index) % VOCABULARY_SIZE, 5] for index in range(OUTPUT)]
    recorded = record_answers(runner, tokens[:PROMPT], tokens[PROMPT:], names)
    assert [len(levels) for levels in recorded[-6:]] == [5, 5, 4, 3, 2, 1]
    for index in (0, 1, 12, 13, 14, 33, OUTPUT - 1):
        root = PROMPT - 1 + index
        request = Request(runner, range(4))
        feed(request, tokens[:root], 6)
        served = draft_path(request, tokens[root : root + len(recorded[index])])
        for level, (answer, entry) in enumerate(zip(served, recorded[index], strict=True)):
            ids, probabilities, others, scores = entry
            assert ids == answer.ids[0].tolist(), (index, level)
            assert probabilities == pytest.approx(answer.probabilities[0].tolist(), rel=1e-3)
            assert set(others).isdisjoint(ids) and len(others) == len(scores)
            assert set(others) <= set(names[index + level])


def test_tokens_that_others_name_are_scored(runner: Runner, tokens: list[int]) -> None:
    prompt, output = tokens[:PROMPT], tokens[PROMPT:]
    request = Request(runner, range(4))
    feed(request, tokens[: PROMPT - 1], 6)
    named = [4, 5, 6, 7, 8, 9]
    (answer,) = draft_path(request, [tokens[PROMPT - 1]], named)
    recorded = record_answers(runner, prompt, output, [named] * OUTPUT)
    others = dict(zip(recorded[0][0][2], recorded[0][0][3], strict=True))
    served = dict(zip(named, np.exp(answer.scored).tolist(), strict=True))
    known = {token: given for token, given in served.items() if given > 0}
    ids = recorded[0][0][0]
    assert set(others) == set(known) - set(ids)
    assert others == pytest.approx({token: known[token] for token in others}, rel=1e-3)


def test_a_prompt_of_one_token_has_no_answer_in_place_of_the_first(
    runner: Runner, tokens: list[int]
) -> None:
    recorded = record_answers(runner, tokens[:1], tokens[1:5], [[]] * 4)
    assert [len(levels) for levels in recorded] == [0, 3, 2, 1]


def test_a_text_that_does_not_fit_is_refused(runner: Runner) -> None:
    with pytest.raises(ValueError, match="a text has 400 tokens; allowed: 1 to"):
        record_answers(runner, [1] * 390, [2] * 10, [[]] * 10)


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["replay", "--json", *arguments]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {
        name: value
        for name, value in report.items()
        if "_us_" not in name and name != "projected_speedup"
    }


def test_a_replay_reads_what_was_recorded_beside_its_trace(
    runner: Runner, tokens: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "some.jsonl.xz")
    trace.write(Path(path), [Recorded(tokens[:PROMPT], tokens[PROMPT:]), Recorded([1, 2], [3])])
    before = report_of(capsys, "--input", path)
    out = Path(answers_beside(path))
    assert out == tmp_path / "some.head.jsonl.xz" == tmp_path / answers_for(Path(path))
    record_trace(runner, Path(path), out)
    header, answers = open_answers(str(out), path)
    facts, listed = read_answers(out, Path(path))
    assert facts == header.record() and [len(head) for head in listed] == [OUTPUT, 1]
    drafter = runner.drafter
    assert drafter is not None
    assert (header.drafter_hash, header.kind) == (drafter.hash, "eagle3")
    assert (header.model_hash, header.levels) == (runner.model_hash, LEVELS)
    assert [len(head) for head in answers] == [OUTPUT, 1]

    assert report_of(capsys, "--input", path) == before
    assert report_of(capsys, "--input", path, "--head", "off") == before
    mixed = report_of(capsys, "--input", path, "--head", "on", "--head-levels", "2")
    assert mixed["head_levels"] > 0 and mixed["drafted_tokens"] != before["drafted_tokens"]
    alone = report_of(capsys, "--input", path, "--head", "only")
    sources = alone["accepted_by_source"]
    assert sum(sources.values()) == sources["head"]
    # Answers are no trace of their own.
    trace.write_sums(tmp_path)
    trace.verify(tmp_path)


def test_answers_for_another_trace_and_wrong_uses_are_refused(
    runner: Runner, tokens: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"prompt_ids": [1, 2], "output_ids": [3, 4]}))
    out = tmp_path / "answers.jsonl.xz"
    record_trace(runner, path, out)
    path.write_text(json.dumps({"prompt_ids": [1, 2], "output_ids": [3, 5]}))
    with pytest.raises(ConfigError, match="answers for another trace"):
        open_answers(str(out), str(path))
    with pytest.raises(ValueError, match="record them again"):
        read_answers(out, path)
    given = ["replay", "--input", str(path), "--head", "on"]
    for more, message in (
        ([], "cannot read"),
        (["--head-answers", str(out)], "record them again"),
        (["--head-answers", str(path)], "expected the format"),
        (["--mode", "bfs"], "the fixed modes ask no head"),
    ):
        assert main([*given, *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["replay", "--input", "-", "--head", "on"]) == 2
    assert "--head needs --input FILE" in capsys.readouterr().err
