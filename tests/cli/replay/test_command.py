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

# With --nodes 4. In each text a token has one continuation at most, so a draft of the fixed modes is
# the text that followed the last token where it was seen before, at most 4 tokens of it. The mode
# auto adds unlikely tokens where it knows no more; none of those comes true here, so its steps and
# what they accept are the same, but for the beginning of a prediction and recycling, of which the
# fixed modes know nothing.
REQUESTS: list[dict[str, Any]] = [
    # 1. Drafts 7 8 9 10, takes all and emits 11 after them: 1 step, 4 drafted, 4 accepted.
    {"prompt_ids": [*range(1, 13), *range(1, 7)], "output_ids": [7, 8, 9, 10, 11]},
    # 2. Nothing repeats: 2 steps, 0 drafted.
    {"prompt_ids": [13, 14], "output_ids": [15, 16]},
    # 3. Drafts 22 23 24 25, takes 22, emits 90; after 90 nothing is known: 2 steps, 4 drafted,
    #    1 accepted.
    {"prompt_ids": [21, 22, 23, 24, 25, 26, 21], "output_ids": [22, 90, 91]},
    # 4. The fixed modes find 32 nowhere and emit 41; then they draft 42 43 44 45, all that is left:
    #    2 steps, 4 drafted, 4 accepted. auto drafts 41 42 43 44 at once and emits 45: 1 step,
    #    4 accepted.
    {
        "prompt_ids": [31, 32],
        "output_ids": [41, 42, 43, 44, 45],
        "prediction_ids": [41, 42, 43, 44, 45],
    },
    # 5. Drafts 52 53 51, all that ever followed 51, without success, and nothing after 59: 2 steps,
    #    3 drafted, 0 accepted. With recycling it also drafts 59, which the model itself had given
    #    after 51, and emits 60 after it: 1 step, 1 accepted. The entry of the last 51 is that of
    #    the step to come: to use it, 60 for 59, would be to look ahead.
    {
        "prompt_ids": [51, 52, 53, 51],
        "output_ids": [59, 60],
        "topk": [[[59], [1.0]], None, None, [[60], [1.0]], None, None],
    },
    # 6. Nothing is known: 5 steps.
    {"prompt_ids": [*range(100, 130)], "output_ids": [600, 601, 602, 603, 604]},
    # 7. The same in another namespace, which has not seen 6: 5 steps, online too.
    {
        "prompt_ids": [*range(100, 130)],
        "output_ids": [600, 601, 602, 603, 604],
        "namespace": "other",
    },
    # 8. The same again: 5 steps cold. Online 6 has taught it: drafts 600 601 602 603, emits 604:
    #    1 step, 4 drafted, 4 accepted.
    {
        "prompt_ids": [*range(100, 130)],
        "output_ids": [600, 601, 602, 603, 604],
        "namespace": "default",
    },
    # 9. Drafts 700 701 702 703 of the corpus, emits 704, where its document ends: 2 steps,
    #    4 drafted, 4 accepted. Without the corpus 6 steps.
    {"prompt_ids": [*range(130, 160)], "output_ids": [700, 701, 702, 703, 704, 705]},
    # 10. Drafts 82 83 84 85; the output ends with 82: 1 step, 4 drafted, 1 accepted.
    {"prompt_ids": [81, 82, 83, 84, 85, 81], "output_ids": [82]},
]
CORPUS = [{"ids": [*range(130, 160), *range(700, 705)]}, {"ids": [706, 707]}]
KEYS = {
    *("requests", "output_tokens", "steps", "accepted_tokens", "drafted_tokens", "skipped_lines"),
    *("accepted_per_step", "tokens_per_step", "drafted_per_step", "accepted_per_drafted"),
    *("draft_us_p50", "draft_us_p99", "update_us_p50", "insert_tokens_per_second"),
    *("bytes_per_token", "memory_bytes", "memory_tokens", "evicted_tokens", "accepted_by_source"),
    *("head_levels", "head_rows", "head_answers"),
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


def test_every_draft_of_ten_requests_is_as_counted_by_hand(
    trace: str, corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--nodes", "4", "--mode", "bfs", "--corpus", corpus, "--cost", "1:10,5:20"]
    report = report_of(capsys, "--input", trace, *given)
    assert (report["requests"], report["output_tokens"]) == (10, 39)
    assert report["steps"] == 1 + 2 + 2 + 2 + 2 + 5 + 5 + 5 + 2 + 1
    assert report["drafted_tokens"] == 4 + 0 + 4 + 4 + 3 + 0 + 0 + 0 + 4 + 4
    assert report["accepted_tokens"] == 4 + 0 + 1 + 4 + 0 + 0 + 0 + 0 + 4 + 1
    assert report["accepted_by_source"] == {
        "prediction": 4,
        "request": 4 + 1 + 1,
        "shared": 0,
        "corpus": 4,
        "recycled": 0,
        "head": 0,
    }
    assert report["accepted_per_step"] == pytest.approx(14 / 27)
    assert report["tokens_per_step"] == pytest.approx(39 / 27)
    assert report["drafted_per_step"] == pytest.approx(23 / 27)
    assert report["accepted_per_drafted"] == pytest.approx(14 / 23)
    # Steps that drafted nothing (2 in request 2, 1 in 3, 4, 5 and 9, 15 in 6 to 8), 3 and 4 tokens.
    assert report["steps_by_drafted"] == [21, 0, 0, 1, 5]
    # Nodes with a reached parent and a known answer: 4 of 4 came in 1; 22 and not 23 in 3; 4 of 4
    # in 4; not 52 in 5; 4 of 4 in 9; 82 in 10, whose other nodes lie after the end.
    overall = report["calibration_overall"]
    assert (overall["trials"], overall["actual"]) == (4 + 2 + 4 + 1 + 4 + 1, 14)
    assert sum(bin["trials"] for bin in report["calibration"]) == overall["trials"]
    assert 0 < overall["expected"] <= overall["trials"]
    # The corpus alone is held; nothing was taught.
    assert report["memory_tokens"] == 35 + 2
    assert report["bytes_per_token"] == pytest.approx(report["memory_bytes"] / 37)
    assert report["insert_tokens_per_second"] is None
    assert 0 < report["draft_us_p50"] <= report["draft_us_p99"]
    # A forward of 1, 4 and 5 rows takes 10, 17.5 and 20 ms.
    (projected,) = report["projected_speedup"]
    assert projected["milliseconds_by_rows"] == {"1": 10, "5": 20}
    assert projected["speedup"] == pytest.approx(39 * 10 / (21 * 10 + 17.5 + 5 * 20))
    assert report["skipped_lines"] == 0


def test_every_step_of_ten_requests_is_as_counted_by_hand(
    trace: str, corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(capsys, "--input", trace, "--nodes", "4", "--corpus", corpus)
    assert report["steps"] == 1 + 2 + 2 + 1 + 1 + 5 + 5 + 5 + 2 + 1
    assert report["accepted_by_source"] == {
        "prediction": 4,
        "request": 4 + 1 + 1,
        "shared": 0,
        "corpus": 4,
        "recycled": 1,
        "head": 0,
    }
    assert report["accepted_tokens"] == 15 <= report["drafted_tokens"] <= 25 * 4


@pytest.mark.parametrize("mode", ["auto", "bfs", "prob"])
def test_online_the_eighth_request_knows_the_sixth_and_the_seventh_does_not(
    mode: str, trace: str, corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--nodes", "4", "--corpus", corpus, "--memory", "online", "--mode", mode]
    report = report_of(capsys, "--input", trace, *given)
    steps, accepted = (25, 15) if mode == "auto" else (27, 14)
    assert report["steps"] == steps - 4
    assert report["accepted_tokens"] == accepted + 4
    assert report["accepted_by_source"]["shared"] == 4
    # Prompts and outputs, and the corpus.
    assert report["memory_tokens"] == 159 + 39 + 37
    assert report["insert_tokens_per_second"] > 0


def test_every_draft_of_ten_requests_alone_is_as_counted_by_hand(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--nodes", "4", "--mode", "bfs", "--cost", "1:10,5:20"]
    report = report_of(capsys, "--input", trace, *given)
    assert (report["requests"], report["output_tokens"]) == (10, 39)
    assert report["steps"] == 1 + 2 + 2 + 2 + 2 + 5 + 5 + 5 + 6 + 1
    assert report["drafted_tokens"] == 4 + 0 + 4 + 4 + 3 + 0 + 0 + 0 + 0 + 4
    assert report["accepted_tokens"] == 4 + 0 + 1 + 4 + 0 + 0 + 0 + 0 + 0 + 1
    # Steps that drafted nothing (2 in request 2, 1 in 3, 4 and 5, 15 in 6 to 8, 6 in 9), 3 and 4.
    assert report["steps_by_drafted"] == [26, 0, 0, 1, 4]
    (projected,) = report["projected_speedup"]
    assert projected["speedup"] == pytest.approx(39 * 10 / (26 * 10 + 17.5 + 4 * 20))


def test_without_recycling_and_corpus_their_tokens_are_missed(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(capsys, "--input", trace, "--nodes", "4", "--no-recycle")
    assert report["steps"] == 25 + 1 + 4
    assert report["accepted_tokens"] == 15 - 1 - 4
    assert report["memory_tokens"] == 0
    assert report["bytes_per_token"] is None


def test_without_hints_nothing_is_drafted_where_nothing_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text(json.dumps({"prompt_ids": [1, 2, 3, 4], "output_ids": [5, 6, 7, 8]}))
    assert report_of(capsys, "--input", str(path))["drafted_tokens"] > 0
    assert report_of(capsys, "--input", str(path), "--no-hints")["drafted_tokens"] == 0


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
    for words in ("tokens per step", "accepted from", "expected acceptance", "what pays"):
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
        ('{"prompt_ids": [1]}', "line 2: output_ids is required"),
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
