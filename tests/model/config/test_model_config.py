"""What `config.json` says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectrie.errors import ModelError
from spectrie.model.config.model_config import ModelConfig
from tests.model.sizes import SIZES

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA = SIZES | {"architectures": ["LlamaForCausalLM"], "eos_token_id": 7}


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


def test_what_a_file_may_leave_out_has_the_default_of_its_family() -> None:
    smol = config(architectures=["SmolLM3ForCausalLM"])
    assert (smol.tied_head, smol.rope.theta) == (True, 2_000_000.0)
    assert (config().tied_head, config().rope.theta) == (False, 10000.0)


def test_yarn_stretches_the_context() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}
    yarn = config(rope_scaling=scaling)
    assert yarn.max_context == 1024
    assert yarn.rope.magnitude == pytest.approx(1.1386, abs=1e-4)
    assert config(rope_scaling=scaling | {"attention_factor": 1.5}).rope.magnitude == 1.5


def test_original_context_may_have_a_decimal_point_and_is_whole() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}
    pointed = scaling | {"original_max_position_embeddings": 256.0}
    assert config(rope_scaling=pointed) == config(rope_scaling=scaling)
    assert isinstance(config(rope_scaling=pointed).rope.original_context, int)
    for wrong in (256.5, float("inf"), float("nan"), -256.0, True):
        with pytest.raises(ModelError, match="original_max_position_embeddings"):
            config(rope_scaling=scaling | {"original_max_position_embeddings": wrong})


@pytest.mark.parametrize(
    "harmless",
    [
        {"_name_or_path": "x", "transformers_version": "4.51.0", "use_cache": True},
        {"torch_dtype": "bfloat16", "pretraining_tp": 1, "initializer_range": 0.02},
        {"use_mrope": False, "final_logit_softcapping": None, "attention_chunk_size": None},
        {"logits_scaling": 1.0, "residual_multiplier": 1},
    ],
)
def test_fields_that_change_nothing_are_accepted(harmless: dict[str, Any]) -> None:
    assert config(**harmless) == config()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, r"GPT2LMHeadModel is not supported; .*Qwen3For"),
        ({"architectures": ["Gemma2ForCausalLM"]}, "Gemma2ForCausalLM is not supported"),
        ({"hidden_size": ...}, "hidden_size is missing"),
        ({"vocab_size": -5}, "vocab_size is -5, expected an integer of at least 1"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, expected a divisor of .* 4"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', supported: silu"),
        ({"rms_norm_eps": "tiny"}, "rms_norm_eps is 'tiny', expected a positive number"),
        ({"attention_bias": "no"}, "attention_bias is 'no', expected true or false"),
        ({"attention_multiplier": 0.015625}, r"attention_multiplier \(0\.015625\)"),
        ({"logits_scaling": 8.0}, r"logits_scaling \(8\.0\)"),
        ({"final_logit_softcapping": 30.0}, "may change what .*final_logit_softcapping"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"attention_chunk_size": 8192}, r"attention_chunk_size \(8192\)"),
        ({"query_pre_attn_scalar": 224, "zzz": [1]}, r"query_pre_attn_scalar \(224\), zzz"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope type 'longrope' is not supported"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope type 'dynamic'"),
        ({"rope_scaling": {"type": "linear", "mrope_section": [1]}}, "rope fields .*mrope_section"),
        ({"rope_scaling": {"type": "linear"}}, "rope factor is missing"),
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "high_freq_factor is 4.0, expected"),
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 8.0}}, "more than low_freq_factor, 8"),
        ({"rope_scaling": YARN, "rope_theta": 1}, "rope_theta is 1, expected more than 1"),
        ({"rope_parameters": {"full_attention": {}}}, "rope fields .*full_attention"),
    ],
)
def test_unsupported_models_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("described", "method"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors"),
        ({"load_in_4bit": True}, "bitsandbytes"),
        ({"bits": 3}, "an unnamed method"),
    ],
)
def test_quantised_checkpoints_are_refused_by_name(described: dict[str, Any], method: str) -> None:
    message = f"quantised with {method} are not supported; use the model's original .* or a GGUF"
    with pytest.raises(ModelError, match=message):
        config(quantization_config=described)


def test_a_quantised_checkpoint_that_says_so_in_a_file_of_its_own_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "quantize_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"quantize_config\.json: .* quantised with gptq"):
        ModelConfig.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["full_attention"]}, "expected an entry for each of the 4 layers"),
        ({"layer_types": ["chunked_attention"] * 4}, "expected sliding_attention or full_att"),
        ({"sliding_window": -1}, "sliding_window is -1, expected an integer of at least 1"),
    ],
)
def test_windows_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    qwen = {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 8, "use_sliding_window": True}
    with pytest.raises(ModelError, match=message):
        config(**(qwen | changes))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*config\.json: No such file"):
        ModelConfig.from_folder(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json is not JSON"):
        ModelConfig.from_folder(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelError, match="holds a list, expected a JSON object"):
        ModelConfig.from_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert ModelConfig.from_folder(tmp_path) == config()
    (tmp_path / "generation_config.json").write_text("[" * 100_000)
    with pytest.raises(ModelError, match=r"generation_config\.json is not JSON"):
        ModelConfig.from_folder(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, "3"]}')
    with pytest.raises(ModelError, match=r"generation_config\.json: eos_token_id is \[2, '3'\]"):
        ModelConfig.from_folder(tmp_path)
