"""What requests go through beside a drafter, by hand: the same calls of any runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.files.tensors import as_tensor
from spectrie.model.plan import StepPlan
from tests.model.drafters.dflash import DFLASH, DFLASH2, TAPS, block_tensors
from tests.model.drafters.fused import EAGLE2, fused_tensors
from tests.model.drafters.heads import CONFIG, HIDDEN, VOCABULARY, head_tensors, write_head
from tests.model.drafters.models import with_tokenizer, write_smaller
from tests.model.drafters.mtp_layers import write_alone
from tests.model.drafters.peagle import PEAGLE, peagle_tensors
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.drafters.test_load import target_of
from tests.model.stepping import tokens

__all__ = ["GUESSES", "KINDS", "SCORED", "TOKENS", "accepted", "played", "tree", "written"]

TOKENS = tokens(293, VOCABULARY, seed=3)
_RANK = 24
GUESSES = [5, 77, 130, 8]
SCORED = [5, 9, 199]

_FC_NORMS = {f"fc_norm.{part}.weight": torch.linspace(0.5, 1.5 + part, HIDDEN) for part in range(3)}
_FORMS: dict[str, dict[str, Any]] = {
    "eagle3": {},
    "eagle3_norms": {"norm_before_residual": True, "fc_norm": True},
    "eagle3_window": {"sliding_window": 7},
    "eagle3_of_target": {},
    "eagle3_low_rank": {"draft_vocab_size": None},
    "eagle3_deep": {"num_hidden_layers": 3},
    "eagle3_deep_window": {"num_hidden_layers": 2, "sliding_window": 7},
}
_HEADS = {"num_attention_heads": 6, "num_key_value_heads": 2}
"""The model's: its attention in a step suits the head. Other heads of several layers have their own."""
_BLOCKS: dict[str, dict[str, Any]] = {
    "dflash": DFLASH,
    # Nothing looks ahead; a vector stands for what is not known; logits are shaped.
    "dflash_causal": DFLASH
    | {
        "is_causal": True,
        "sliding_window": 5,
        "dflash_config": {
            "target_layer_ids": TAPS,
            "input_embedding_scale": 1.5,
            "output_multiplier": 0.7,
            "final_logit_softcapping": 2.0,
        },
    },
    "dflash2": DFLASH2,
    "dflash2_few": DFLASH2 | {"dflash_config": DFLASH2["dflash_config"] | {"selector_top_k": 3}},
    "dflash_ahead": DFLASH
    | {"layer_types": ["full_attention"] * 2, "use_sliding_window": None, "sliding_window": None},
}
_PEAGLE: dict[str, dict[str, Any]] = {
    "peagle": PEAGLE,
    "peagle_window": PEAGLE | {"num_hidden_layers": 2, "sliding_window": 7, "fc_norm": True},
}
KINDS = [
    *_FORMS,
    *_BLOCKS,
    *_PEAGLE,
    "eagle2",
    "eagle2_deep",
    "mtp",
    "model_itself",
    "model_window",
]


def written(kind: str, tiny: Path, folder: Path) -> tuple[Path, Path]:
    """Writes a drafter of a kind for a tiny model; returns the model's folder and its own."""
    if kind in _FORMS:
        return tiny, write_head(folder / "head", _eagle3(kind, tiny), **_FORMS[kind])
    if kind in _BLOCKS:
        return tiny, write_head(folder / "head", _blocks(kind), **_BLOCKS[kind])
    if kind in _PEAGLE:
        form = _PEAGLE[kind]
        tensors = peagle_tensors(form["num_hidden_layers"])
        tensors |= _FC_NORMS if form.get("fc_norm") else {}
        return tiny, write_head(folder / "head", tensors, **form)
    if kind == "eagle2":
        return tiny, write_head(folder / "head", fused_tensors(), **EAGLE2)
    if kind == "eagle2_deep":
        tensors = fused_tensors(CONFIG | _HEADS, layers=2)
        deep = EAGLE2 | _HEADS | {"num_hidden_layers": 2}
        return tiny, write_head(folder / "head", tensors, **deep)
    if kind == "mtp":
        write_alone(folder / "layer", tiny)
        return tiny, folder / "layer"
    if kind == "model_itself":
        return tiny, tiny
    smaller = write_smaller(folder / "draft", "smollm3_window")
    return with_tokenizer(tiny, folder / "target"), smaller


def _eagle3(kind: str, tiny: Path) -> dict[str, torch.Tensor]:
    tensors = head_tensors(_FORMS[kind].get("num_hidden_layers", 1))
    if kind == "eagle3_norms":
        tensors |= _FC_NORMS
    if kind == "eagle3_low_rank":
        for name in ("lm_head.weight", "d2t", "t2d"):
            del tensors[name]
        tensors |= _low_rank(tiny)
    if kind == "eagle3_of_target":
        # Its head is a cut of the target's, which weighs the other tokens.
        del tensors["lm_head.weight"]
    return tensors


def _blocks(kind: str) -> dict[str, torch.Tensor]:
    tensors = block_tensors(selected=VOCABULARY if kind.startswith("dflash2") else 0)
    if kind == "dflash_causal":
        tensors["mask_embedding"] = torch.linspace(-1, 1, HIDDEN)
    return tensors


def _low_rank(tiny: Path) -> dict[str, torch.Tensor]:
    """A head that comes near the model's, of a rank that leaves something to be weighed again."""
    rows = as_tensor(target_of(tiny).head).float()
    u, s, v = torch.linalg.svd(rows, full_matrices=False)
    return {
        "efficient_lm_head_down_proj.weight": (s[:_RANK, None] * v[:_RANK]).contiguous(),
        "efficient_lm_head.weight": u[:, :_RANK].contiguous(),
    }


def played(runner: Runner) -> list[Answers]:
    """All answers of some scenes: chunks of any size, hits, copies, trees and rows in company."""
    found = []
    for scene in (_alone, _behind_a_hit, _in_company, _behind_a_tree, _moved_by_a_level, _wide):
        found += scene(runner)
    return found


def _alone(runner: Runner) -> list[Answers]:
    found = []
    for first, size in ((0, 7), (10, 256), (20, 1)):
        request = Request(runner, range(first, first + 10), seat=size)
        feed(request, TOKENS[:45], size)
        found += draft_path(request, GUESSES, SCORED)
    return found


def _behind_a_hit(runner: Runner) -> list[Answers]:
    first = Request(runner, range(4))
    feed(first, TOKENS[:40], 13)
    second = Request(runner, [0, 1, 20, 21], seat=1)
    second.hit(2, first)
    second.moves = first.moves
    feed(second, TOKENS[32:50], 8)
    return draft_path(second, GUESSES, SCORED)


def _in_company(runner: Runner) -> list[Answers]:
    """Rows of three requests, two of a level from the same parent, out of order; one text of several units."""
    lengths = [20, 200, 1]
    requests = [
        Request(runner, range(20 * index, 20 * index + 16), seat=index) for index in range(3)
    ]
    chunks = [one.chunk(TOKENS[:count]) for one, count in zip(requests, lengths, strict=True)]
    runner.step(StepPlan.joined(chunks))
    moves, row = [], 0
    for one, count in zip(requests, lengths, strict=True):
        one.commit(row, count)
        moves += one.moves
        row += count
    asked = [one.asked() for one in requests]
    at = [one.kv_len for one in requests]
    first = LevelPlan.of(
        asked,
        [(5, at[1], 1, -1), (6, at[0], 0, -1), (7, at[1], 1, -1), (8, at[2], 2, -1)],
        moves=moves,
        scored=[SCORED, [], [3], SCORED],
        fills=[one.fill() for one in requests],
    )
    second = LevelPlan.of(
        asked,
        [(9, at[1] + 1, 1, 2), (10, at[1] + 1, 1, 2), (11, at[2] + 1, 2, 3)],
        level=2,
        row_index=4,
        scored=[[1], [2], []],
    )
    third = LevelPlan.of(
        asked,
        [(12, at[1] + 2, 1, 5), (13, at[0] + 1, 0, 1)],
        level=3,
        row_index=7,
        scored=[SCORED, SCORED],
    )
    return [runner.draft(level) for level in (first, second, third)]


def _behind_a_tree(runner: Runner) -> list[Answers]:
    """A tree of which nodes 0, 2 and 4 are accepted; the next forward moves them."""
    ids = TOKENS[:45]
    request = Request(runner, range(8))
    feed(request, ids[:30], 30)
    draft_path(request, [1, 2, 3])
    runner.step(tree(request, ids))
    request.kv_len, request.text = 33, ids
    request.moves = [(2, request.pages[1]), (4, request.store)]
    rest = StepPlan.single(
        ids[33:],
        kv_len=33,
        pages=request.pages[:3],
        moves=_slots(request),
        feature=request.store,
        feature_moves=request.moves,
    )
    runner.step(rest)
    request.commit(0, len(ids) - 33)
    return draft_path(request, GUESSES, SCORED)


def _moved_by_a_level(runner: Runner) -> list[Answers]:
    ids = TOKENS[:33]
    request = Request(runner, range(8))
    feed(request, ids[:30], 30)
    runner.step(tree(request, ids))
    request.kv_len, request.text = 33, ids
    level = LevelPlan.of(
        [request.asked()],
        [(GUESSES[0], 33, 0, -1)],
        scored=[SCORED],
        slots=_slots(request),
        moves=[(2, request.pages[1]), (4, request.store)],
        fills=[request.fill()],
    )
    return [runner.draft(level)]


def _wide(runner: Runner) -> list[Answers]:
    """More rows of a level than are computed together."""
    request = Request(runner, range(8))
    feed(request, TOKENS[:30], 30)
    rows = [(index % VOCABULARY, 30, 0, -1) for index in range(150)]
    first = LevelPlan.of(
        [request.asked()], rows, moves=request.moves, fills=[request.fill()], scored=[[7]] * 150
    )
    later = LevelPlan.of(
        [request.asked()],
        [(index % VOCABULARY, 31, 0, 149 - index) for index in range(140)],
        level=2,
        row_index=150,
    )
    return [runner.draft(level) for level in (first, later)]


def accepted(runner: Runner, ids: list[int]) -> Request:
    """A request of 30 tokens and a tree whose nodes 0, 2 and 4 carry the next three."""
    request = Request(runner, range(8))
    feed(request, ids[:30], 30)
    return request


def tree(request: Request, ids: list[int]) -> StepPlan:
    """The tree of the tokens 30 to 32, with a wrong node behind each of them."""
    plan = StepPlan.single(
        [ids[30], (ids[31] + 1) % VOCABULARY, ids[31], (ids[32] + 1) % VOCABULARY, ids[32]],
        kv_len=30,
        pages=request.pages[:3],
        parents=[-1, 0, 0, 2, 2],
        feature=request.store,
        feature_moves=request.moves,
    )
    request.moves = []
    return plan


def _slots(request: Request) -> list[tuple[int, int]]:
    return [
        (request.pages[a // 16] * 16 + a % 16, request.pages[b // 16] * 16 + b % 16)
        for a, b in ((32, 31), (34, 32))
    ]
