"""The DFLASH module: which rows of which blocks count."""

from __future__ import annotations

from dataclasses import replace

import torch

from spectrie.training.batches import collate
from spectrie.training.kinds.dflash import Dflash
from tests.training.conftest import LEVELS, Setting


def head_of(setting: Setting) -> tuple[Setting, Dflash]:
    other = Setting.of(setting.target.folder, "dflash")
    head = other.head_of_kind()
    assert isinstance(head, Dflash)
    return other, head


def test_a_block_knows_the_text_before_its_token_and_nothing_behind(setting: Setting) -> None:
    setting, head = head_of(setting)
    batch = collate(setting.samples, setting.cache, setting.held_out[:3], LEVELS)
    rows = batch.levels[0].rows
    length = batch.tokens.shape[1]
    root = (rows % length == 20).nonzero().flatten()
    with torch.no_grad():
        before = head.states(batch, rows)[root]
        # The feature of token 20 is in row 21; so are later ones behind it.
        features = batch.features.clone()
        features[:, 21:] = torch.randn_like(features[:, 21:])
        tokens = batch.tokens.clone()
        tokens[:, 21:] = 7
        later = head.states(replace(batch, features=features, tokens=tokens), rows)[root]
        features[:, 20] = 0
        changed = head.states(replace(batch, features=features), rows)[root]
    torch.testing.assert_close(before, later)
    assert float((before - changed).abs().max()) > 1e-3


def test_some_blocks_stand_for_all_and_a_seed_chooses_them(setting: Setting) -> None:
    setting, head = head_of(setting)
    batch = collate(setting.samples, setting.cache, setting.held_out, LEVELS)
    with torch.no_grad():
        whole, _ = head.judged(batch)
        drawn = [head.losses(replace(batch, seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    for level in range(LEVELS):
        torch.testing.assert_close(drawn[0][level], whole[level], rtol=0.05, atol=0.0)
