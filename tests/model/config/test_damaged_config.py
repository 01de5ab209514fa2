"""A damaged `config.json` is refused by file and field, whatever a field holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrie.errors import ModelError
from spectrie.model.config.families import FAMILIES
from spectrie.model.config.fields import DECODER_FIELDS
from spectrie.model.config.model_config import ModelConfig
from tests.model.sizes import SIZES

FILE = "/models/odd/config.json"

EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "num_local_experts": 4,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [1],
}

ROPES: list[dict[str, Any]] = [
    {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    {"type": "linear", "factor": 2.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.5,
        "truncate": True,
    },
    {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5},
]

NAMED_AS = {
    "architectures": "architecture",
    "quantization_config": "quantised",
    "rope_scaling": "rope",
    "rope_parameters": "rope",
}

NO_NUMBER: list[Any] = [
    "64", "", "x", [], [[]], ["64"], {}, {"a": [1]}, float("nan"), float("inf"), -float("inf")
]  # fmt: skip
NUMBERS: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 64, -7, 0.5, 1.5, -0.5, 1e-30, 1e30, 2**31, 2**63, 10**400
]  # fmt: skip


def whole(family: str, rope: dict[str, Any]) -> dict[str, Any]:
    values = SIZES | {"architectures": [family], "eos_token_id": [7], "bos_token_id": 1}
    values |= {"rope_parameters": rope, "use_sliding_window": True, "sliding_window": 8}
    values |= {"layer_types": ["full_attention"] * 4, "no_rope_layers": [1, 0, 1, 0]}
    values |= {"max_window_layers": 2, "no_rope_layer_interval": 4, "rms_norm_eps": 1e-5}
    mixture = FAMILIES[family].mixture
    fields = mixture.fields if mixture else frozenset()
    return values | {name: value for name, value in EXPERTS.items() if name in fields}


def read(values: dict[str, Any], generation: dict[str, Any] | None = None) -> ModelConfig:
    config = ModelConfig.from_values(values, generation, where=FILE)
    # What is computed of them later must not fail either.
    assert len(config.rope.frequencies()) == config.rope.rotated // 2
    assert len(config.layer_windows) == len(config.layer_rotary) == config.num_layers
    return config


FIELDS = sorted(DECODER_FIELDS | EXPERTS.keys())
ROPE_FIELDS = sorted({name for rope in ROPES for name in rope})


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(FIELDS),
    value=st.sampled_from(NO_NUMBER + NUMBERS),
    rope=st.sampled_from(ROPES),
)
def test_a_damaged_field_is_refused_by_its_name_or_harmless(
    family: str, name: str, value: Any, rope: dict[str, Any]
) -> None:
    try:
        read(whole(family, rope) | {name: value})
    except ModelError as error:
        assert str(error).startswith(f"{FILE}: ")
        # A number can be wrong beside another field, and then either is named.
        if not any(value is number for number in NUMBERS):
            assert NAMED_AS.get(name, name) in str(error)
            assert "expected" in str(error) or "support" in str(error)


@settings(max_examples=300, deadline=None)
@given(
    spelling=st.sampled_from(["rope_scaling", "rope_parameters"]),
    rope=st.sampled_from(ROPES),
    name=st.sampled_from(ROPE_FIELDS),
    value=st.sampled_from(NO_NUMBER + NUMBERS),
)
def test_a_damaged_field_of_a_rope_rule_is_refused_by_its_name_or_harmless(
    spelling: str, rope: dict[str, Any], name: str, value: Any
) -> None:
    values = whole("LlamaForCausalLM", {}) | {spelling: rope | {name: value}}
    try:
        read(values)
    except ModelError as error:
        assert str(error).startswith(f"{FILE}: ")
        if not any(value is number for number in NUMBERS):
            assert name in str(error) or "rope type" in str(error)


@settings(max_examples=200, deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from(FIELDS), st.sampled_from(NO_NUMBER + NUMBERS), min_size=2, max_size=5
    ),
    family=st.sampled_from(sorted(FAMILIES)),
)
def test_several_damaged_fields_never_fail_otherwise(changes: dict[str, Any], family: str) -> None:
    try:
        read(whole(family, ROPES[0]) | changes)
    except ModelError as error:
        assert str(error).startswith(f"{FILE}: ")


@pytest.mark.parametrize("value", ["7", -1, True, [7, None], {"a": 1}, 2**31])
def test_end_of_text_ids_that_are_none_are_refused_by_their_file(value: Any) -> None:
    values = whole("LlamaForCausalLM", {})
    with pytest.raises(ModelError, match=r"odd/config\.json: eos_token_id is .* a token id"):
        read(values | {"eos_token_id": value})
    with pytest.raises(ModelError, match=r"odd/generation_config\.json: eos_token_id is"):
        read(values, {"eos_token_id": value})
