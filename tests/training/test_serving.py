"""A trained head, as a runner loads and asks it, guesses what it guessed in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from spectrie.model import load_runner
from spectrie.training.batches import collate
from spectrie.training.export import export_head
from tests.model.drafters.session import Request, draft_path, feed
from tests.training.conftest import LEVELS, SETTINGS, Setting

ROOTS = (5, 18, 33, 50)


def test_a_runner_gives_the_guesses_of_the_trained_module(
    any_kind: Setting, tmp_path: Path
) -> None:
    head = any_kind.head_of_kind()
    any_kind.trainer(head, replace(SETTINGS, epochs=2), tmp_path / "checkpoint.pt").run()
    export_head(
        head,
        tmp_path,
        dtype=torch.float32,
        provenance={"model_hash": "of a tiny target", "namespaces": None},
    )
    runner = load_runner(
        any_kind.target.folder, dtype="float32", num_pages=16, drafter=tmp_path, threads=1
    )
    assert runner.drafter is not None
    assert runner.drafter.kind == any_kind.kind
    chosen = any_kind.held_out[:12]
    batch = collate(any_kind.samples, any_kind.cache, chosen, LEVELS)
    with torch.no_grad():
        _, guesses = head.judged(batch)
    length = batch.tokens.shape[1]
    right = total = 0
    for text, index in enumerate(chosen):
        tokens = any_kind.samples[index].token_ids
        for root in ROOTS:
            request = Request(runner, range(4))
            feed(request, tokens[:root], 16)
            answers = draft_path(request, tokens[root : root + LEVELS])
            for level, answer in enumerate(answers):
                place = batch.levels[level].rows.tolist().index(text * length + root + level)
                right += int(answer.ids[0, 0] == guesses[level][place])
                total += 1
    # Cached features are rounded to bfloat16: a close race may end otherwise.
    assert right >= 0.97 * total
