"""What `config.json` says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectrie.errors import ModelError
from spectrie.model.config import ModelConfig

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 256,
    "eos_token_id": 7,
}


def config(**changes: Any) -> ModelConfig:
    values = {name: value for name, value in (LLAMA | changes).items() if value is not ...}
    return ModelConfig.from_values(values)


def test_defaults_follow_from_the_sizes() -> None:
    plain = config(num_key_value_heads=None, head_dim=None)
    assert plain.head_dim == 16
    assert plain.num_kv_heads == 4
    assert plain.qkv_size == 192
    assert plain.layer_windows == (None,) * 4
    assert plain.layer_rotary == (True,) * 4
    assert not plain.tied_head


def test_end_of_text_ids_of_the_generation_config_win() -> None:
    assert ModelConfig.from_values(LLAMA, {"eos_token_id": [3, 4]}).eos_token_ids == (3, 4)
    assert config().eos_token_ids == (7,)
    assert config(eos_token_id=...).eos_token_ids == ()


def test_both_spellings_of_rope_mean_the_same() -> None:
    scaling = {"rope_type": "linear", "factor": 3.0}
    old = config(rope_theta=500.0, rope_scaling=scaling)
    new = config(rope_parameters=scaling | {"rope_theta": 500.0})
    assert old.rope == new.rope
    assert (old.rope.theta, old.rope.kind, old.rope.factor) == (500.0, "linear", 3.0)


def test_windows_and_unrotated_layers_of_the_families() -> None:
    mistral = config(architectures=["MistralForCausalLM"], sliding_window=8)
    assert mistral.layer_windows == (8,) * 4
    qwen = {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 8, "max_window_layers": 3}
    assert config(**qwen, use_sliding_window=True).layer_windows == (None, None, None, 8)
    assert config(**qwen).layer_windows == (None,) * 4
    smol = config(architectures=["SmolLM3ForCausalLM"], no_rope_layer_interval=2)
    assert smol.layer_rotary == (True, False, True, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, r"GPT2LMHeadModel is not supported; .*Qwen3For"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised with awq are not supported"),
        ({"hidden_size": ...}, "hidden_size is missing"),
        ({"vocab_size": -5}, "vocab_size is -5, expected a positive integer"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, expected a divisor of .* 4"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', supported: silu"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope type 'yarn' is not supported"),
    ],
)
def test_unsupported_models_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        config(**changes)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*config\.json: No such file"):
        ModelConfig.from_folder(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json is not JSON"):
        ModelConfig.from_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert ModelConfig.from_folder(tmp_path) == config()
