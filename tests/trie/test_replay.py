"""Replays and corpora through the compiled core: what is refused, and who else may run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectrie._core import CorpusBuilder, Replay, corpus_info

KEYS = {
    "requests",
    "output_tokens",
    "steps",
    "accepted_tokens",
    "drafted_tokens",
    "accepted_per_step",
    "tokens_per_step",
    "drafted_per_step",
    "accepted_per_drafted",
    "draft_us_p50",
    "draft_us_p99",
    "update_us_p50",
    "insert_tokens_per_second",
    "bytes_per_token",
    "memory_bytes",
    "memory_tokens",
    "evicted_tokens",
    "calibration",
    "calibration_overall",
    "accepted_by_source",
    "steps_by_drafted",
    "head_levels",
    "head_rows",
    "head_answers",
}


def test_report_has_every_key_before_and_after_a_request() -> None:
    replay = Replay(nodes=4, memory="online")
    assert replay.report().keys() == KEYS
    assert replay.report()["accepted_per_step"] is None
    replay.push([1, 2, 3, 4, 1, 2], [3, 4, 9])
    report = replay.report()
    assert report.keys() == KEYS
    assert [bin["from"] for bin in report["calibration"]] == [i / 10 for i in range(10)]
    assert report["calibration"][9]["to"] == report["calibration_overall"]["to"] == 1.0
    assert sum(report["steps_by_drafted"]) == report["steps"]


def test_topk_comes_as_lists_or_arrays() -> None:
    text = [1, 2, 3, 4] * 4
    ids = np.tile(np.arange(8, dtype=np.int32), (32, 1))
    probabilities = np.full((32, 8), 0.125, dtype=np.float32)
    arrays, lists = Replay(), Replay()
    arrays.push(text, text, topk=(ids, probabilities))
    lists.push(text, text, topk=(ids.tolist(), probabilities.tolist()))
    assert arrays.report()["steps"] == lists.report()["steps"]


def test_rows_that_cost_too_much_are_not_drafted() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8] * 4
    free, dear = Replay(costs=[1.0] * 17), Replay(costs=[float(rows) for rows in range(1, 18)])
    for replay in (free, dear):
        replay.push(text, text)
    assert free.report()["drafted_tokens"] > 10
    assert dear.report()["drafted_tokens"] == 0
    assert dear.report()["steps"] == len(text)


def test_without_hints_nothing_is_drafted_where_nothing_repeats() -> None:
    with_hints, without = Replay(), Replay(hints=False)
    for replay in (with_hints, without):
        replay.push([1, 2, 3, 4], [5, 6, 7, 8])
    assert with_hints.report()["drafted_tokens"] > 0
    assert without.report()["drafted_tokens"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 5000}, "nodes is 5000; allowed: 0 to 1024"),
        ({"mode": "fast"}, 'mode is "fast"; allowed: auto, bfs, prob'),
        ({"memory": "warm"}, 'memory is "warm"; allowed: cold, online'),
        ({"min_value": 2.0}, "min_value is 2; allowed: 0 to 1"),
        ({"head": "yes"}, 'head is "yes"; allowed: off, on, only'),
        ({"head_least_gain": 2.0}, "least_gain is 2; allowed: 0 to 1"),
        ({"costs": [1.0, -1.0]}, "cost of 2 rows is -1"),
        ({"corpora": ["/nowhere.corpus"]}, "cannot open /nowhere.corpus"),
    ],
)
def test_wrong_settings_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topk", "message"),
    [
        (([[1]], [[0.5]]), "topk has 1 entries; allowed: 2"),
        (([[1]], []), "1 rows of ids and 0 of probabilities"),
        (([[1, 2], []], [[0.5], []]), r"topk\[0\] has 2 ids and 1 probabilities"),
        (([[1], []], [[1.5], []]), "probability of topk is 1.5"),
    ],
)
def test_topk_that_does_not_fit_is_refused(topk: tuple[object, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay().push([1], [2], topk=topk)


def head_of(output: list[int], probability: float) -> list[list[list[list[float]]]]:
    """A head that says what comes, for three levels."""
    return [
        [[[token], [probability], [900], [0.001]] for token in output[index : index + 3]]
        for index in range(len(output))
    ]


def test_a_head_is_asked_where_its_answers_are_given_and_wanted() -> None:
    prompt, output = [1, 2, 3], [*range(100, 140)]
    replays = {head: Replay(head=head) for head in ("off", "on", "only")}
    bare = Replay()
    bare.push(prompt, output)
    for replay in replays.values():
        replay.push(prompt, output, head=head_of(output, 0.9))
    reports = {head: replay.report() for head, replay in replays.items()}
    assert reports["off"]["drafted_tokens"] == bare.report()["drafted_tokens"]
    assert reports["off"]["head_levels"] == 0
    for head in ("on", "only"):
        assert reports[head]["steps"] == 10
        assert reports[head]["accepted_by_source"]["head"] == 30
        assert reports[head]["head_answers"] == 30
    assert reports["only"]["drafted_tokens"] <= reports["on"]["drafted_tokens"]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ([], "head has answers at 0 places; allowed: 1"),
        ([[[[1, 2], [0.5], [], []]]], r"head\[0\] has 2 ids and 1 probabilities"),
        ([[[[1], [1.5], [], []]]], "probability of head is 1.5"),
    ],
)
def test_answers_of_a_head_that_do_not_fit_are_refused(head: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay().push([1], [2], head=head)


def test_names_are_what_a_head_would_be_asked_about() -> None:
    replay = Replay()
    names = replay.names([1, 2, 3, 4, 1, 2], [3, 4])
    assert len(names) == 2 and 3 in names[0] and 4 in names[1]
    assert replay.report()["steps"] == 0


def test_a_built_corpus_tells_what_it_holds(tmp_path: Path) -> None:
    builder = CorpusBuilder("code", "0123456789abcdef")
    builder.push([1, 2, 3])
    builder.push([4])
    assert builder.num_tokens == 3
    file = builder.finish(tmp_path / "code.corpus")
    read = corpus_info(tmp_path / "code.corpus")
    for found in (file, read):
        facts = (found.name, found.fingerprint, found.num_tokens, found.num_documents)
        assert facts == ("code", "0123456789abcdef", 3, 1)
        assert found.bytes == (tmp_path / "code.corpus").stat().st_size
    with pytest.raises(ValueError, match="written already"):
        builder.push([5, 6])


def test_names_and_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="corpus name"):
        CorpusBuilder("a/b", "")
    (tmp_path / "no.corpus").write_bytes(b"text")
    with pytest.raises(ValueError, match="cannot be used as a corpus"):
        corpus_info(tmp_path / "no.corpus")


def test_other_threads_run_while_a_long_request_is_replayed() -> None:
    replay = Replay()
    text = [(i * i) % 997 for i in range(40_000)]
    thread = threading.Thread(target=replay.push, args=(text, text))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
        thread.join(0.001)
    assert turns > 1
    assert replay.report()["output_tokens"] == 40_000
