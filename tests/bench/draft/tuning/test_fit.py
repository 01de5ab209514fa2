"""What is believed of a head is fitted to its recorded answers, and the other weights stay."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.draft import trace
from bench.draft.bigrams import FILE
from bench.draft.recording.head_file import HeadAnswers, write_answers
from bench.draft.trace import TOP_K, Request
from bench.draft.tuning import fit
from bench.draft.tuning.words import answer_words, request_words

ROOT = Path(__file__).resolve().parents[4]
NUM_WEIGHTS, NUM_SHARES = 40, 12


def words_of(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def bits(value: float) -> int:
    (word,) = struct.unpack("<I", struct.pack("<f", value))
    return int(word)


def test_words_are_counts_then_ids_then_floats() -> None:
    request = Request([1, 2], [3], None, topk=[([9], [0.5])] * 3)
    words = words_of(request_words(request, recycle=True))
    assert words[:7] == [2, 1, 0, 3, 1, 2, 3]
    assert words[7 : 7 + 2 * TOP_K] == [9, *[0] * 7, bits(0.5), *[0] * 7]
    assert words_of(request_words(request, recycle=False)) == [2, 1, 0, 0, 1, 2, 3]
    head: HeadAnswers = [[[[7, 8], [0.5, 0.25], [9], [0.125]]], []]
    half, quarter, eighth = bits(0.5), bits(0.25), bits(0.125)
    assert words_of(answer_words(head)) == [1, 2, 1, 7, 8, half, quarter, 9, eighth, 0]


def boastful_head(output: list[int], dice: np.random.Generator) -> HeadAnswers:
    """It is right one time in five, and always sure."""
    return [
        [
            [[token if dice.random() < 0.2 else 5000], [0.95], [], []]
            for token in output[index : index + 3]
        ]
        for index in range(len(output))
    ]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Answers to a trace of each split, in place of those that are committed."""
    dice = np.random.default_rng(1)
    folder = tmp_path / "traces"
    for split in ("tune", "choose"):
        requests = []
        for _ in range(6):
            ids = [int(token) for token in dice.integers(0, 3000, 220)]
            topk = [([int(token)], [0.3]) for token in dice.integers(0, 3000, 220)]
            requests.append(Request(ids[:40], ids[40:], topk=topk))
        source = folder / split / "chat.jsonl.xz"
        trace.write(source, requests)
        line = "[1, [2, 3, 4, 5, 6, 7, 8, 9], [0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]]\n"
        trace.write_lines(folder / split / FILE, [line])
        trace.write_sums(folder / split)
        answers = [boastful_head(one.output_ids, dice) for one in requests]
        write_answers(tmp_path / "answers" / split / "chat.head.jsonl.xz", source, {}, answers)
    monkeypatch.setattr(trace, "folder", lambda split: folder / split)
    return tmp_path / "answers"


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("cargo") is None, reason="fits in Rust")
def test_a_boastful_head_is_believed_less(
    recorded: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "head_prior.bin"
    given = ["fit", "--head", str(recorded), str(out)]
    monkeypatch.setattr("sys.argv", given)
    assert fit.main() == 0
    printed = capfd.readouterr().out
    assert "all that was checked, without a head" in printed
    shipped = said_over_came(printed, "as shipped")
    fitted = said_over_came(printed, "as fitted")
    assert shipped > 1.25 and 0.8 < fitted < 1.25
    numbers = struct.unpack(f"<{NUM_WEIGHTS + NUM_SHARES}f", out.read_bytes())
    assert np.isfinite(numbers).all()
    # Of what others leave, it adds a fifth at first.
    assert 0.1 < numbers[NUM_WEIGHTS] < 0.35
    written = out.read_bytes()
    assert fit.main() == 0 and out.read_bytes() == written
    capfd.readouterr()
    monkeypatch.setattr("sys.argv", ["fit", "--head", str(recorded), "--of", str(out)])
    assert fit.main() == 0
    assert said_over_came(capfd.readouterr().out, "as fitted") == fitted
    assert out.read_bytes() == written


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("cargo") is None, reason="fits in Rust")
def test_what_ships_is_what_the_committed_traces_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes: every trace of the split `tune` is replayed many times."""
    out = tmp_path / "prior.bin"
    monkeypatch.setattr("sys.argv", ["fit", str(out)])
    assert fit.main() == 0
    assert out.read_bytes() == (ROOT / "rust/trie/src/score/prior.bin").read_bytes()


def said_over_came(printed: str, how: str) -> float:
    (line,) = (line for line in printed.splitlines() if f"all that was checked, {how}" in line)
    return float(line.partition("said / came ")[2].partition(":")[0])


def test_without_answers_nothing_is_fitted(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(recorded / "choose")
    monkeypatch.setattr("sys.argv", ["fit", "--head", str(recorded)])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match="holds no answers"):
        fit.main()
