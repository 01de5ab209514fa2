"""The EAGLE-3 module: its numbers, and that a trained one accepts more than its wrong forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from spectrie.training.batches import Batch, collate
from spectrie.training.evaluation import HeldOut, evaluate
from spectrie.training.features import FeatureCache
from spectrie.training.kinds.eagle3 import Eagle3, default_taps
from tests.training.conftest import TOP, Setting, Trained
from tests.training.plain import PlainTarget
from tests.training.plain_eagle3 import chain


def look(setting: Setting, head: Eagle3, batch: Batch | None = None) -> HeldOut:
    if batch is None:
        batch = collate(setting.samples, setting.cache, setting.held_out, 3)
    return evaluate(head, [batch])


def test_every_level_equals_a_plain_forward(setting: Setting, trained: Trained) -> None:
    head = trained.head
    index = setting.held_out[0]
    batch = collate(setting.samples, setting.cache, [index, setting.held_out[1]], 3)
    _, tensors = head.published()
    features = setting.cache.read(index).features
    with torch.no_grad():
        logits = [head.logits(hidden) for hidden in head.hidden_states(batch)]
        for root in (3, 17, 40):
            plain = chain(
                setting.target, tensors, setting.samples[index].token_ids, features, root, 3
            )
            for level, expected in enumerate(plain):
                place = batch.levels[level].rows.tolist().index(root + level)
                torch.testing.assert_close(logits[level][place], expected, rtol=1e-4, atol=1e-4)


def test_training_lowers_the_loss_on_held_out_text_at_every_level(trained: Trained) -> None:
    looks = [look.held_out for look in trained.trainer.looks]
    for before, after in zip(looks[0].losses, looks[-1].losses, strict=True):
        assert after < before


def test_a_trained_head_is_right_more_often_than_an_untrained_one(
    setting: Setting, trained: Trained
) -> None:
    untrained = look(setting, setting.head())
    result = look(setting, trained.head)
    print(untrained, result)
    assert result.chain_length > untrained.chain_length + 0.3
    assert result.top_1[1] > untrained.top_1[1]


@contextmanager
def changed(parameter: torch.Tensor, value: torch.Tensor) -> Iterator[None]:
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter.copy_(value)
        yield
        parameter.copy_(kept)


@contextmanager
def order_swapped(head: Eagle3) -> Iterator[None]:
    hidden = head.norm.shape[0]
    products = [head.q_proj, head.k_proj, head.v_proj]
    kept = [one.weight.detach().clone() for one in products]
    with torch.no_grad():
        for one in products:
            one.weight.copy_(one.weight.roll(hidden, 1))
        yield
        for one, weight in zip(products, kept, strict=True):
            one.weight.copy_(weight)


@contextmanager
def offsets_taken_for_ids(head: Eagle3) -> Iterator[None]:
    ids = head.vocabulary
    head.vocabulary = ids - torch.arange(len(ids))
    yield
    head.vocabulary = ids


@contextmanager
def fused_at_later_levels(head: Eagle3) -> Iterator[None]:
    forward = head.handed_on

    def again(hidden: torch.Tensor) -> torch.Tensor:
        fused: torch.Tensor = head.fc(hidden.repeat(1, len(head.taps)))
        return fused

    head.handed_on = again  # type: ignore[method-assign]
    yield
    head.handed_on = forward  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "wrong",
    [order_swapped, offsets_taken_for_ids, fused_at_later_levels],
    ids=lambda one: one.__name__,
)
def test_a_wrong_form_accepts_less(
    setting: Setting, trained: Trained, wrong: Callable[[Eagle3], Iterator[None]]
) -> None:
    right = look(setting, trained.head).chain_length
    with wrong(trained.head):  # type: ignore[attr-defined]
        found = look(setting, trained.head).chain_length
    print(wrong.__name__, right, found)
    assert found < 0.9 * right


@pytest.mark.parametrize("shift", [-1, 1])
def test_features_of_neighbouring_layers_accept_less(
    setting: Setting, trained: Trained, shift: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    right = look(setting, trained.head).chain_length
    chosen = [setting.samples[index] for index in setting.held_out]
    cache = FeatureCache(
        tmp_path_factory.mktemp("shifted"), chosen, width=setting.cache.width, top=TOP
    )
    cache.fill(PlainTarget(setting.target, [tap + shift for tap in setting.taps], TOP))
    found = look(setting, trained.head, collate(chosen, cache, range(len(chosen)), 3)).chain_length
    print(shift, right, found)
    # Neighbours in a residual stream are alike, so this error is the smallest of all.
    assert found < 0.98 * right


def test_the_published_layers_are_tapped() -> None:
    assert default_taps(30) == (1, 14, 26)
    assert default_taps(32) == (1, 15, 28)
    assert default_taps(2) == (0, 1)


def test_published_tensors_have_the_published_names_and_shapes(setting: Setting) -> None:
    values, tensors = setting.head().published()
    hidden, inner, queries, keys = 64, 160, 64, 32
    layer = {
        "self_attn.q_proj": (queries, 2 * hidden),
        "self_attn.k_proj": (keys, 2 * hidden),
        "self_attn.v_proj": (keys, 2 * hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "hidden_norm": (hidden,),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    expected = {f"midlayer.{name}.weight": shape for name, shape in layer.items()}
    expected |= {"fc.weight": (hidden, 3 * hidden), "norm.weight": (hidden,)}
    expected |= {"d2t": (256,), "t2d": (352,)}
    assert {name: tuple(value.shape) for name, value in tensors.items()} == expected
    ids = torch.arange(256) + tensors["d2t"]
    assert torch.equal(ids, setting.vocabulary)
    assert torch.equal(tensors["t2d"].nonzero().flatten(), setting.vocabulary)
    assert values["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 3, 4]
    assert values["draft_vocab_size"] == 256
