"""Wrong forms of trained heads accept less: a loader or a forward that took one of them would fail here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from spectrie.training.batches import Batch
from spectrie.training.kinds.base import Head
from spectrie.training.kinds.registry import KINDS
from spectrie.training.target import Target
from tests.training.chain.conftest import Chain, depth
from tests.training.chain.judged import agreement, batch_of, judge
from tests.training.chain.small_model import TARGET

pytestmark = pytest.mark.timeout(1800)
"""The first test of a run trains the target."""

Tensors = dict[str, torch.Tensor]
LAST = TARGET.layers - 1
SAME = 0.98
"""Share of the guesses; the module reads features that were rounded."""


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=depth(kind)) for kind in sorted(KINDS)])
def test_a_runner_guesses_as_the_trained_module_does(
    chain: Chain, tmp_path: Path, kind: str
) -> None:
    batch = batch_of(chain.answered, kind, tmp_path)
    same = agreement(chain.trained_module(kind), batch, chain.counts(chain.head(kind)).guesses)
    print(f"{kind}: {_listed(same)} of the guesses as the module's")
    assert min(same) > SAME


def swapped(*names: str) -> Callable[[Tensors, dict[str, Any]], None]:
    """Takes the token's vector for the state, and the other way round."""

    def change(tensors: Tensors, config: dict[str, Any]) -> None:
        for name in names:
            first, second = tensors[name].chunk(2, dim=1)
            tensors[name] = torch.cat([second, first], dim=1).contiguous()

    return change


def shifted(group: str, field: str, by: int) -> Callable[[Tensors, dict[str, Any]], None]:
    """Reads layers that are one off."""

    def change(tensors: Tensors, config: dict[str, Any]) -> None:
        config[group][field] = [layer + by for layer in config[group][field]]

    return change


def with_field(**fields: Any) -> Callable[[Tensors, dict[str, Any]], None]:
    """Has a form that `config.json` can say."""

    def change(tensors: Tensors, config: dict[str, Any]) -> None:
        config.update(fields)

    return change


def turned_round(dim: int) -> Callable[[Tensors, dict[str, Any]], None]:
    """Counts a dimension of DFLASH 2's kernels, `[sides, taps, columns]`, from its other end."""

    def change(tensors: Tensors, config: dict[str, Any]) -> None:
        taps = config["dflash_config"]["conv_kernel_size"]
        for name in tensors:
            if name.endswith("base_kernel"):
                tensors[name] = tensors[name].flip(dim).contiguous()
            elif name.endswith("kernel_projection.weight"):
                kernels = tensors[name].reshape(2, taps, -1, tensors[name].shape[1])
                tensors[name] = kernels.flip(dim).flatten(0, 2).contiguous()

    return change


def without(end: str) -> Callable[[Tensors, dict[str, Any]], None]:
    """Counts some tensors for nothing."""

    def change(tensors: Tensors, config: dict[str, Any]) -> None:
        for name in tensors:
            if name.endswith(end):
                tensors[name] = torch.zeros_like(tensors[name])

    return change


def codebooks_swapped(tensors: Tensors, config: dict[str, Any]) -> None:
    """Takes the token before for the one that is chosen."""
    before, chosen = (f"candidate_selector.{one}_codebook" for one in ("predecessor", "successor"))
    tensors[before], tensors[chosen] = tensors[chosen], tensors[before]


@dataclass(frozen=True, slots=True)
class WrongFile:
    """A stored head as another reader would take it; it is right less often than `share` of the right one."""

    kind: str
    change: Callable[[Tensors, dict[str, Any]], None]
    share: float = 0.95


_ALIKE = 0.98
"""Neighbours in a residual stream are alike. EAGLE-3's one layer behind are tried in `test_eagle3`, in a deeper model:
here they say more than the right ones, which makes up for what the head does not know of them."""
_EAGLE3 = ("eagle_config", "eagle_aux_hidden_state_layer_ids")
_DFLASH = ("dflash_config", "target_layer_ids")
_QKV = [f"self_attn.{part}_proj.weight" for part in "qkv"]
FILES = {
    "eagle3: order swapped": WrongFile("eagle3", swapped(*(f"midlayer.{one}" for one in _QKV))),
    "eagle3: layers one before": WrongFile("eagle3", shifted(*_EAGLE3, -1)),
    "eagle3: residual normed": WrongFile("eagle3", with_field(norm_before_residual=True)),
    "eagle3: another rotation": WrongFile("eagle3", with_field(rope_theta=30.0)),
    "peagle: order swapped": WrongFile("peagle", swapped(*(f"layers.0.{one}" for one in _QKV))),
    "peagle: layers one before": WrongFile("peagle", shifted(*_EAGLE3, -1), 0.98),
    "peagle: residual normed": WrongFile("peagle", with_field(norm_before_residual=True)),
    "peagle: nothing for what is not known": WrongFile("peagle", without("mask_hidden"), 0.98),
    "eagle2: order swapped": WrongFile("eagle2", swapped("fc.weight")),
    "mtp: order swapped": WrongFile("mtp", swapped("model.mtp_layers.0.input_proj.weight")),
    "dflash: layers one before": WrongFile("dflash", shifted(*_DFLASH, -1), _ALIKE),
    "dflash: layers one behind": WrongFile("dflash", shifted(*_DFLASH, 1), _ALIKE),
    "dflash2: taps from the first row on": WrongFile("dflash2", turned_round(1)),
    "dflash2: sides swapped": WrongFile("dflash2", turned_round(0)),
    "dflash2: kernels without the row": WrongFile("dflash2", without("kernel_projection.weight")),
    "dflash2: codebooks swapped": WrongFile("dflash2", codebooks_swapped),
    "dflash2: nothing chosen": WrongFile("dflash2", without("successor_codebook")),
    "dflash: block sees what is before alone": WrongFile(
        "dflash", with_field(layer_types=["sliding_attention"] * 2, sliding_window=4096), 0.95
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=depth(FILES[name].kind)) for name in sorted(FILES)]
)
def test_a_head_read_wrongly_accepts_less(chain: Chain, tmp_path: Path, name: str) -> None:
    wrong = FILES[name]
    right = chain.counts(chain.head(wrong.kind))
    head = chain.head(wrong.kind)
    tensors = load_file(head / "model.safetensors")
    config = json.loads((head / "config.json").read_text())
    wrong.change(tensors, config)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = chain.counts(tmp_path)
    print(
        f"{name}: {found.chain:.3f}, {found.alone:.3f} a step; right {right.chain:.3f}, {right.alone:.3f}"
    )
    if wrong.share < _ALIKE:
        assert found.chain < wrong.share * right.chain
        assert found.alone < right.alone
    # Where a form hardly matters, the rounding of another processor outweighs it in one of the two.
    assert found.chain + found.alone < right.chain + right.alone


def _normed_by_target(head: Any, target: Target) -> Callable[[torch.Tensor], torch.Tensor]:
    normed: Callable[[torch.Tensor], torch.Tensor] = lambda hidden: head.normed(  # noqa: E731
        hidden, target.final_norm
    )
    return normed


def carried_normed(head: Any, target: Target) -> None:
    """EAGLE-2: continues from what the target's last norm makes of a state."""
    head.handed_on = _normed_by_target(head, target)


def normed_before_head(head: Any, target: Target) -> None:
    """EAGLE-2: names tokens behind the target's last norm."""
    head.named_by = _normed_by_target(head, target)


def normed_before_attention(head: Any, target: Target) -> None:
    """EAGLE-2: a norm where decoder layers have one."""
    joined, weight = head.joined, target.layer(LAST)["input_layernorm.weight"]

    def wrong(vectors: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stream, inputs = joined(vectors, state)
        return stream, head.normed(inputs, weight)

    head.joined = wrong


def carried_behind_norm(head: Any, target: Target) -> None:
    """EAGLE-3: continues from the state behind its last norm."""
    head.handed_on = head.named_by


def fused_again(head: Any, target: Target) -> None:
    """EAGLE-3: applies `fc` to its own states too."""
    head.handed_on = lambda hidden: head.fc(hidden.repeat(1, len(head.taps)))


def carried_raw(head: Any, target: Target) -> None:
    """MTP: continues from the state before its last norm."""
    head.handed_on = lambda hidden: hidden


def anchor_in_context(head: Any, target: Target) -> None:
    """DFLASH: the context holds the feature of the block's first token."""
    ends = head.context_ends
    head.context_ends = lambda anchors: ends(anchors) + 1


def block_one_later(head: Any, target: Target) -> None:
    """DFLASH: the block begins one position behind its own."""
    positions = head.block_positions
    head.block_positions = lambda anchors: positions(anchors) + 1


def causal_block(head: Any, target: Target) -> None:
    """DFLASH: a row of a block sees those before it alone."""
    head.seen_in_block = lambda: torch.ones(head.block, head.block, dtype=torch.bool).tril()


def mask_not_fused(head: Any, target: Target) -> None:
    """P-EAGLE: takes the feature of what is not known for a state."""
    head.mask_state = lambda: head.mask_hidden[:, : target.config.hidden_size]


def all_in_one_place(head: Any, target: Target) -> None:
    """P-EAGLE: later rows stay at the position of the last token."""
    head.mask_positions = lambda positions, level: positions - level


def chosen_behind_one_token(head: Any, target: Target) -> None:
    """DFLASH 2: every place is chosen as if the same token were before it."""
    worth = head.worth
    head.worth = lambda states, before: worth(states, torch.zeros_like(before))


def chosen_without_the_state(head: Any, target: Target) -> None:
    """DFLASH 2: the selector reads two tokens and not the state."""
    head.projected = lambda states: torch.ones(len(states), head.predecessor.shape[1])


FORMS: dict[str, tuple[Callable[[Any, Target], None], ...]] = {
    "eagle2": (carried_normed, normed_before_head, normed_before_attention),
    "eagle3": (carried_behind_norm, fused_again),
    "mtp": (carried_raw,),
    "peagle": (mask_not_fused, all_in_one_place),
    "dflash": (anchor_in_context, block_one_later, causal_block),
    "dflash2": (chosen_behind_one_token, chosen_without_the_state),
}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(kind, change, marks=depth(kind))
        for kind, changes in FORMS.items()
        for change in changes
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_runner_guesses_otherwise_and_better_than_a_wrong_forward(
    chain: Chain, tmp_path: Path, kind: str, change: Callable[[Any, Target], None]
) -> None:
    wrong = chain.trained_module(kind)
    change(wrong, Target(chain.model))
    batch = batch_of(chain.answered, kind, tmp_path)
    _check_worse(chain, kind, (wrong, batch), batch)


def qwen3_next(head: Path, folder: Path, *, offset: float) -> Path:
    """The trained MTP layer by Qwen3-Next's names, whose norms store `weight - 1`."""
    own, layer = "model.mtp_layers.0.", "mtp.layers.0."
    named = {
        f"{own}token_layernorm.weight": "mtp.pre_fc_norm_embedding.weight",
        f"{own}hidden_layernorm.weight": "mtp.pre_fc_norm_hidden.weight",
        f"{own}final_layernorm.weight": "mtp.norm.weight",
        f"{own}input_proj.weight": "mtp.fc.weight",
    }
    tensors = load_file(head / "model.safetensors")
    # Its product takes the token's vector first.
    swapped(f"{own}input_proj.weight")(tensors, {})
    stored = {
        named.get(name, name.replace(own, layer)): one.float() - offset if one.dim() == 1 else one
        for name, one in tensors.items()
    }
    config = json.loads((head / "config.json").read_text()) | {"architectures": ["Qwen3NextMTP"]}
    folder.mkdir()
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_norms_that_are_stored_from_one_on_are_read_so(chain: Chain, tmp_path: Path) -> None:
    head = chain.head("mtp")
    right = chain.counts(head)
    same = chain.counts(qwen3_next(head, tmp_path / "same", offset=1.0))
    wrong = chain.counts(qwen3_next(head, tmp_path / "wrong", offset=0.0))
    print(f"mtp: {right.chain:.3f} as MiMo's, {same.chain:.3f} as Qwen3-Next's; {wrong.chain:.3f}")
    assert same.chain == pytest.approx(right.chain, rel=0.01)
    assert wrong.chain < 0.95 * right.chain


@pytest.mark.parametrize("kind", [pytest.param("eagle2", marks=depth("eagle2")), "mtp"])
def test_a_runner_guesses_otherwise_and_better_than_with_states_before_the_targets_last_norm(
    chain: Chain, tmp_path: Path, kind: str
) -> None:
    right = batch_of(chain.answered, kind, tmp_path / "right")
    raw = batch_of(chain.answered, kind, tmp_path / "raw", taps=[LAST], final_norm=False)
    _check_worse(chain, kind, (chain.trained_module(kind), raw), right)


def _check_worse(chain: Chain, kind: str, wrong: tuple[Head, Batch], right: Batch) -> None:
    """The runner does not guess so, and who does gives the answers' tokens less, at all levels together.

    Likelihoods say it of all rows, so chance decides less than in counts of what is accepted.
    """
    same = agreement(*wrong, chain.counts(chain.head(kind)).guesses)
    wrong_loss = judge(*wrong).weighted(1.0)
    right_loss = judge(chain.trained_module(kind), right).weighted(1.0)
    print(f"{kind}: {_listed(same)} of the guesses, loss {wrong_loss:.3f} against {right_loss:.3f}")
    assert min(same) < SAME - 0.03
    assert wrong_loss > right_loss + 0.03


def _listed(shares: tuple[float, ...]) -> str:
    return " / ".join(f"{share:.3f}" for share in shares)
