"""On the real model no answer depends on a head of its shape that was never trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.exactness.cases import share
from tests.exactness.comparison import differences
from tests.exactness.matrix import Combination, run
from tests.exactness.runners import AMPLE_PAGES, SCARCE_PAGES, Runners
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.heads import write_head

pytestmark = [pytest.mark.model, pytest.mark.timeout(1800)]

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 576, 1536, 9, 3, 64
DRAFTED = 2048
NUM_PARTS = 24
"""Parts of the cases, of which each way answers one."""

WAYS = [
    Combination("float32", "auto", concurrency=32, num_pages=AMPLE_PAGES),
    Combination("bfloat16", "auto", concurrency=4, num_pages=SCARCE_PAGES, overlap="on"),
]


def head_tensors() -> dict[str, torch.Tensor]:
    """Returns a random EAGLE-3 head that names the first tokens."""
    generator = torch.Generator().manual_seed(4)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        scale: float = 1.5 / columns**0.5
        return torch.randn(rows, columns, generator=generator) * scale

    layer = {
        "self_attn.q_proj": matrix(HEADS * HEAD_DIM, 2 * HIDDEN),
        "self_attn.k_proj": matrix(KV_HEADS * HEAD_DIM, 2 * HIDDEN),
        "self_attn.v_proj": matrix(KV_HEADS * HEAD_DIM, 2 * HIDDEN),
        "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
        "mlp.gate_proj": matrix(INNER, HIDDEN),
        "mlp.up_proj": matrix(INNER, HIDDEN),
        "mlp.down_proj": matrix(HIDDEN, INNER),
        **{
            f"{name}norm": torch.ones(HIDDEN)
            for name in ("hidden_", "input_layer", "post_attention_layer")
        },
    }
    return {
        "fc.weight": matrix(HIDDEN, 3 * HIDDEN),
        "norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": 3 * matrix(DRAFTED, HIDDEN),
        "d2t": torch.zeros(DRAFTED, dtype=torch.int64),
        **{f"midlayer.{name}.weight": tensor for name, tensor in layer.items()},
    }


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_head(
        tmp_path_factory.mktemp("head"),
        head_tensors(),
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        vocab_size=49152,
        draft_vocab_size=DRAFTED,
        eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 14, 26]},
    )


@pytest.mark.parametrize("part", range(len(WAYS)), ids=[str(way) for way in WAYS])
def test_answers_are_those_of_plain_decoding(
    part: int,
    model: Path,
    head: Path,
    runners: Runners,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way, chosen = WAYS[part], share(part, NUM_PARTS)
    expected = run(runners, Combination(way.dtype), chosen)
    # What is measured of it stays out of the user's cache.
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    make_levels_cheap(monkeypatch)
    with_head = Runners(model, head)
    got = run(with_head, way, chosen)
    with_head.close()
    assert differences(got, expected) == []
    assert got.head_levels > 5
    assert got.accepted_by_source
    assert (got.preemptions > 0) >= way.must_preempt(len(chosen))
