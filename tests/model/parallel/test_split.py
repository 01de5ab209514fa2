"""Every output feature belongs to exactly one rank, and heads stay with their keys."""

from __future__ import annotations

import pytest

from spectrie.errors import ConfigError
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.parallel import Share, Split


def config(heads: int, kv_heads: int) -> ModelConfig:
    return ModelConfig.from_values(
        {
            "architectures": ["Qwen3MoeForCausalLM"],
            "hidden_size": 90,
            "head_dim": 8,
            "intermediate_size": 130,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 41,
            "num_hidden_layers": 1,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "vocab_size": 101,
            "max_position_embeddings": 64,
        }
    )


@pytest.mark.parametrize(
    ("heads", "kv_heads", "size"),
    [(9, 3, 2), (9, 3, 3), (8, 8, 5), (8, 2, 4), (8, 2, 8), (12, 2, 4), (16, 1, 4)],
)
def test_ranks_share_everything_out(heads: int, kv_heads: int, size: int) -> None:
    model = config(heads, kv_heads)
    splits = [Split.of(model, rank, size) for rank in range(size)]
    totals = {"heads": heads, "hidden": 90, "inner": 130, "expert": 41, "vocabulary": 101}
    for name, total in totals.items():
        shares = [getattr(split, name) for split in splits]
        columns = [index for share in shares for index in range(total)[share.columns]]
        assert columns == list(range(total)), name
    group = heads // kv_heads
    for split in splits:
        local = split.local(model)
        assert local.num_heads % local.num_kv_heads == 0
        for head in range(local.num_heads):
            # The key-value head that a query head has here is the one it has in the whole model.
            here = split.kv_heads.first + head // (local.num_heads // local.num_kv_heads)
            assert here == (split.heads.first + head) // group


@pytest.mark.parametrize(
    ("heads", "kv_heads", "size", "allowed"),
    [(9, 3, 4, "1 to 3 ranks, or 9"), (8, 2, 3, "1 to 2 ranks, or 4, or 8"), (4, 4, 8, "1 to 4")],
)
def test_what_cannot_be_shared_out_is_refused_with_what_can(
    heads: int, kv_heads: int, size: int, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=rf"tensor_parallel is {size}; .* among {allowed}"):
        Split.of(config(heads, kv_heads), 0, size)


def test_shares_differ_by_one_at_most_and_scale() -> None:
    assert [Share.of(10, rank, 3).count for rank in range(3)] == [3, 3, 4]
    assert Share(1, 2, 5).times(8) == Share(8, 16, 40)
