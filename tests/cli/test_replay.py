"""`spectrie replay` on ten requests whose every step is counted by hand, and what it refuses."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spectrie.cli import main
from tests.tiny_model import write_tiny_model

# With --nodes 4. In each text every token has one continuation at most, so a draft is the text that
# followed the last token where it was seen before, at most 4 tokens of it.
REQUESTS: list[dict[str, Any]] = [
    # 1. Drafts 3 4 5 6, takes all and emits 7 behind them: 1 step, 4 drafted, 4 accepted.
    {"prompt_ids": [1, 2, 3, 4, 5, 6, 7, 8, 1, 2], "output_ids": [3, 4, 5, 6, 7]},
    # 2. Nothing repeats: 2 steps, 0 drafted.
    {"prompt_ids": [11, 12], "output_ids": [13, 14]},
    # 3. Drafts 22 23 24 25, takes 22, emits 90; after 90 nothing is known: 2 steps, 4 drafted,
    #    1 accepted.
    {"prompt_ids": [21, 22, 23, 24, 25, 26, 21], "output_ids": [22, 90, 91]},
    # 4. Drafts 41 42 43 44 of the prediction and emits 45; then drafts 46, all that is left:
    #    2 steps, 4 + 1 drafted, 5 accepted.
    {
        "prompt_ids": [31, 32],
        "output_ids": [41, 42, 43, 44, 45, 46],
        "prediction_ids": [41, 42, 43, 44, 45, 46],
    },
    # 5. After 53 nothing is known: emits 51. After 51 the text says 52 53 51 and the model itself
    #    had said 59: drafts these four, takes 59: 2 steps, 4 drafted, 1 accepted. Without recycling
    #    it drafts 52 53 51 in vain, and nothing after 59: 3 steps, 3 drafted, 0 accepted.
    {
        "prompt_ids": [51, 52, 53],
        "output_ids": [51, 59, 60],
        "topk": [[[59], [1.0]], None, [[51], [1.0]], None, None, None],
    },
    # 6. Nothing is known: 5 steps.
    {"prompt_ids": [61, 62], "output_ids": [63, 64, 65, 66, 67]},
    # 7. The same in another namespace, which knows nothing of 6: 5 steps, online too.
    {"prompt_ids": [61, 62], "output_ids": [63, 64, 65, 66, 67], "namespace": "other"},
    # 8. The same again: 5 steps cold. Online 6 has taught it: drafts 63 64 65 66, emits 67: 1 step,
    #    4 drafted, 4 accepted.
    {"prompt_ids": [61, 62], "output_ids": [63, 64, 65, 66, 67], "namespace": "default"},
    # 9. Drafts 72 73 74 75 of the corpus, emits 76, where its document ends: 2 steps, 4 drafted,
    #    4 accepted. Without the corpus 6 steps.
    {"prompt_ids": [71], "output_ids": [72, 73, 74, 75, 76, 77]},
    # 10. Drafts 82 83 84 85; the output ends with 82: 1 step, 4 drafted, 1 accepted.
    {"prompt_ids": [81, 82, 83, 84, 85, 81], "output_ids": [82]},
]
CORPUS = [{"ids": [71, 72, 73, 74, 75, 76]}, {"ids": [78, 79]}]
KEYS = {
    *("requests", "output_tokens", "steps", "accepted_tokens", "drafted_tokens", "skipped_lines"),
    *("accepted_per_step", "tokens_per_step", "drafted_per_step", "accepted_per_drafted"),
    *("draft_us_p50", "draft_us_p99", "update_us_p50", "insert_tokens_per_second"),
    *("bytes_per_token", "memory_bytes", "memory_tokens", "evicted_tokens", "accepted_by_source"),
    *("calibration", "calibration_overall", "steps_by_drafted", "projected_speedup"),
}


def write_lines(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write_lines(tmp_path / "trace.jsonl", REQUESTS)


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return write_lines(tmp_path / "corpus.jsonl", CORPUS)


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["replay", "--json", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    report: dict[str, Any] = json.loads(lines[0])
    assert report.keys() == KEYS
    return report


def test_without_recycling_and_corpus_their_tokens_are_missed(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(capsys, "--input", trace, "--nodes", "4", "--no-recycle")
    assert report["steps"] == 27 + 1 + 4
    assert report["drafted_tokens"] == 25 - 1 - 4
    assert report["accepted_tokens"] == 16 - 1 - 4
    assert report["memory_tokens"] == 0
    assert report["bytes_per_token"] is None


def test_compressed_files_and_standard_input_give_the_same_counts(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Path(trace).read_bytes()
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "t.jsonl.xz").write_bytes(lzma.compress(plain))
    steps = report_of(capsys, "--input", trace)["steps"]
    for name in ("t.jsonl.gz", "t.jsonl.xz"):
        assert report_of(capsys, "--input", str(tmp_path / name))["steps"] == steps
    # In a process that has neither NumPy nor torch, as a base install.
    program = (
        "import sys; sys.modules.update(numpy=None, torch=None)\n"
        "from spectrie.cli import main; sys.exit(main(['replay', '--input', '-', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=plain, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == steps


def test_text_is_read_with_the_tokenizer_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(write_tiny_model(tmp_path / "tiny"))
    requests = [{"prompt": "def f(self): return", "output": " self", "prediction": " self"}]
    trace = write_lines(tmp_path / "text.jsonl", requests)
    report = report_of(capsys, "--input", trace, "--model", model)
    assert report["requests"] == 1
    assert report["accepted_by_source"]["prediction"] > 0


def test_the_table_names_the_figures_and_progress_stays_off_stdout(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--input", trace]) == 0
    output = capsys.readouterr().out
    for words in ("tokens per step", "accepted from", "promised probability", "what pays"):
        assert words in output


def test_a_budget_drafts_what_the_costs_make_worthwhile(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def projected(cost: str) -> dict[str, Any]:
        report = report_of(capsys, "--input", trace, "--cost", cost)
        (projection,) = report["projected_speedup"]
        assert projection["budgeted"]["drafted_per_step"] <= report["drafted_per_step"]
        budgeted: dict[str, Any] = projection["budgeted"]
        return budgeted

    # Rows that cost as much as forwards of their own are not worth it, and nothing is lost.
    assert projected("1:10,2:20") == pytest.approx(
        {"speedup": 1.0, "accepted_per_step": 0.0, "drafted_per_step": 0.0}
    )
    assert projected("1:10,17:11")["speedup"] > 1.1
    assert main(["replay", "--input", trace, "--mode", "bfs", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert all(projection["budgeted"] is None for projection in report["projected_speedup"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: expected a JSON object, got [1]"),
        ('{"prompt_ids": [1]}', "line 2: output_ids: missing"),
        (
            '{"prompt_ids": [1], "output_ids": "ab"}',
            'line 2: output_ids: expected a list of ids of 0..4294967294, got "ab"',
        ),
        (
            '{"prompt_ids": [1, -1], "output_ids": [1]}',
            "line 2: prompt_ids: expected a list of ids of 0..4294967294, got -1 at index 1",
        ),
        ('{"prompt_ids": [true], "output_ids": [1]}', "got true at index 0"),
        ('{"prompt_ids": [], "output_ids": [1], "namespace": 3}', "namespace: expected text"),
        (
            '{"prompt_ids": [1], "output_ids": [1], "topk": [null]}',
            "topk: expected a list of 2 entries, one for each token of prompt and output, got 1",
        ),
        (
            '{"prompt_ids": [1], "output_ids": [1], "topk": [null, [[1], [2]]]}',
            "topk[1][1]: expected probabilities of 0..1, got 2",
        ),
        ('{"prompt_ids": [1], "output_ids": [1], "topk": [null, [[1], []]]}', "got 0 for 1"),
    ],
)
def test_a_bad_line_is_named_and_ends_the_replay_unless_skipped(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"prompt_ids": [1], "output_ids": [2]}}\n{line}\n')
    assert main(["replay", "--input", str(path), "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    report = report_of(capsys, "--input", str(path), "--skip-bad")
    assert (report["requests"], report["skipped_lines"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "/nowhere.jsonl"], "cannot read /nowhere.jsonl"),
        (["--nodes", "x"], "--nodes: 'x' is not a whole number"),
        (["--memory", "warm"], "--memory: 'warm' is not one of cold, online"),
        (["--min-value", "2"], "--min-value: 2 is out of range: from 0 to 1"),
        (["--memory-bytes", "3"], "capacity_bytes is 3"),
        (["--cost", "1:10,1:11"], "--cost: '1:11': rows must ascend"),
        (["--cost", "1;2"], "is not ROWS:MILLISECONDS"),
        (["--corpus", "nothing"], "no corpus 'nothing'"),
    ],
)
def test_wrong_use_is_answered_with_what_is_allowed(
    arguments: list[str],
    message: str,
    trace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    assert main(["replay", "--input", trace, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_file_without_requests_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    assert main(["replay", "--input", str(tmp_path / "empty.jsonl")]) == 2
    assert "holds no request" in capsys.readouterr().err
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"prompt_ids": []}\n' * 99)[:-9])
    assert main(["replay", "--input", str(tmp_path / "cut.jsonl.gz"), "--skip-bad"]) == 2
    assert "cannot read" in capsys.readouterr().err
