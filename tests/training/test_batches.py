"""Which rows a level asks, and that nothing else counts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import torch

from spectrie.training.batches import batches, collate, shuffled
from spectrie.training.features import FeatureCache
from spectrie.training.texts.samples import Sample
from tests.training.conftest import Setting
from tests.training.plain import PlainFeatures


def cache_of(folder: Path, samples: list[Sample], width: int = 2, top: int = 2) -> FeatureCache:
    """Features that say which text and row they are of."""
    cache = FeatureCache(folder, samples, width=width, top=top)
    cache.fill(
        lambda texts: (
            PlainFeatures(
                torch.arange(len(text))[:, None].repeat(1, width) + 100.0 * number,
                torch.arange(len(text) * top, dtype=torch.int32).view(-1, top),
                torch.zeros(len(text), top),
            )
            for number, text in enumerate(texts)
        )
    )
    return cache


def test_only_answers_are_guessed_and_later_levels_begin_where_the_first_was_asked(
    tmp_path: Path,
) -> None:
    samples = [
        Sample([10, 11, 12, 13, 14, 15, 16], [(3, 6)], "a"),
        Sample([20, 21, 22, 23, 24], [(1, 2), (3, 5)], "b"),
    ]
    batch = collate(samples, cache_of(tmp_path, samples), [0, 1], 3)
    rows = [[(index // 7, index % 7) for index in level.rows.tolist()] for level in batch.levels]
    # Rows before answer tokens; the first token's own row has no feature, so it guesses nothing.
    assert rows[0] == [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3)]
    assert rows[1] == [(0, 3), (0, 4), (1, 3)]
    assert rows[2] == [(0, 4)]
    assert batch.levels[0].next_tokens.tolist() == [13, 14, 15, 23, 24]
    assert batch.levels[2].next_tokens.tolist() == [15]
    for level, before in zip(batch.levels[1:], batch.levels, strict=False):
        assert torch.equal(before.rows[level.parents], level.rows - 1)


def test_a_row_has_the_feature_of_the_row_before_and_the_answer_of_its_own(tmp_path: Path) -> None:
    samples = [Sample([1, 2, 3], [(1, 3)], "a"), Sample([4, 5, 6, 7], [(2, 4)], "b")]
    batch = collate(samples, cache_of(tmp_path, samples), [1], 1)
    assert batch.features[0, :, 0].tolist() == [0.0, 100.0, 101.0, 102.0]
    assert batch.levels[0].rows.tolist() == [1, 2]
    assert batch.levels[0].top_ids[:, 0].tolist() == [2, 4]
    assert batch.levels[0].top_probabilities.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_tokens_of_the_prompt_are_keys_but_no_targets(setting: Setting) -> None:
    head = setting.head()
    index = setting.held_out[0]
    samples = list(setting.samples)
    samples[index] = replace(samples[index], answers=[(30, 40)])

    def loss() -> float:
        batch = collate(samples, setting.cache, [index], 3)
        assert batch.levels[0].rows.tolist() == list(range(29, 39))
        with torch.no_grad():
            return float(head.losses(batch)[0])

    before = loss()
    tokens = list(samples[index].token_ids)
    samples[index] = replace(samples[index], token_ids=[*tokens[:50], *reversed(tokens[50:])])
    assert loss() == before
    samples[index] = replace(samples[index], token_ids=[*reversed(tokens[:20]), *tokens[20:]])
    assert loss() != before


def test_batches_hold_every_text_once_within_the_limit() -> None:
    lengths = [3, 50, 7, 7, 120, 1, 64, 64]
    for groups in (batches(lengths, 128), list(shuffled(lengths, 128, 1, 2))):
        assert sorted(index for group in groups for index in group) == list(range(8))
        for group in groups:
            assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= 128


def test_an_epoch_wastes_little_on_padding() -> None:
    chance = random.Random(0)
    lengths = [chance.randint(60, 400) for _ in range(2000)]
    groups = list(shuffled(lengths, 2048, 1, 0))
    assert len(groups) < 1.2 * sum(lengths) / 2048


def test_an_epoch_is_the_same_again_and_unlike_the_next() -> None:
    lengths = list(range(5, 60))
    first = list(shuffled(lengths, 128, 1, 0))
    assert first == list(shuffled(lengths, 128, 1, 0))
    assert first != list(shuffled(lengths, 128, 1, 1))
