"""Builds config.json and generation_config.json from the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spectrie.errors import ModelError
from spectrie.model.gguf.file import GgufFile

__all__ = ["ARCHITECTURES", "Architecture", "architecture_of", "generation_config", "model_config"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Names and layout of a GGUF architecture in Hugging Face's terms.

    Attributes:
        model_type: `model_type` of config.json.
        class_name: Entry of `architectures` in config.json.
        rope_interleaved: Whether the file's q and k rows are permuted for interleaved RoPE.
        fields: Further fields of config.json, absent from GGUF files.
    """

    model_type: str
    class_name: str
    rope_interleaved: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("llama", "LlamaForCausalLM", rope_interleaved=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM"),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM"),
    "smollm3": Architecture(
        "smollm3",
        "SmolLM3ForCausalLM",
        rope_interleaved=True,
        # llama.cpp has this number in its code.
        fields={"no_rope_layer_interval": 4},
    ),
}
"""By `general.architecture`. Files of Mistral models are `llama`."""

_KNOWN_KEYS = frozenset(
    """
    attention.head_count attention.head_count_kv attention.key_length
    attention.layer_norm_rms_epsilon attention.sliding_window attention.value_length block_count
    context_length embedding_length feed_forward_length rope.dimension_count rope.freq_base
    rope.scaling.attn_factor rope.scaling.factor rope.scaling.finetuned
    rope.scaling.original_context_length rope.scaling.type rope.scaling.yarn_attn_factor
    rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow rope.scaling.yarn_ext_factor
    tensor_data_layout vocab_size
    """.split()
)


def architecture_of(file: GgufFile) -> Architecture:
    """Returns the architecture of `file`.

    Raises:
        ModelError: It is not in `ARCHITECTURES`, or is a mixture of experts.
    """
    name = file.architecture
    if name not in ARCHITECTURES:
        raise ModelError(
            f"{file.path} has architecture {name!r}; supported: {', '.join(ARCHITECTURES)}"
        )
    experts = file.value(f"{name}.expert_count", 0)
    if experts:
        raise ModelError(
            f"{file.path} is a mixture of {experts} experts, which is not supported in GGUF; "
            "use the model's safetensors"
        )
    _refuse_unknown(file, name)
    return ARCHITECTURES[name]


def _refuse_unknown(file: GgufFile, name: str) -> None:
    """Refuses keys unknown to this build, which may change the arithmetic, unless 0, 1 or false."""
    unknown = [
        f"{key} ({value!r})"
        for key in file.keys(f"{name}.")
        if key.removeprefix(f"{name}.") not in _KNOWN_KEYS
        and (value := file.value(key))
        and value != 1.0
    ]
    if unknown:
        raise ModelError(
            f"{file.path} has metadata that is not supported and may change what the model "
            f"computes: {', '.join(unknown)}"
        )


def model_config(file: GgufFile, vocabulary_size: int, tied: bool, dtype: str) -> dict[str, Any]:
    """Returns the contents of config.json.

    Args:
        file: The GGUF file.
        vocabulary_size: Rows of the embedding.
        tied: Whether the output projection is the embedding (the file has no `output.weight`).
        dtype: Storage type of the weights, such as `float32`.

    Raises:
        ModelError: A required key is absent, or the RoPE scaling is not supported.
    """
    name = file.architecture
    architecture = architecture_of(file)
    hidden = _count(file, f"{name}.embedding_length")
    heads = _count(file, f"{name}.attention.head_count")
    head_dim = _count(file, f"{name}.attention.key_length", hidden // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if _count(file, f"{name}.{key}", head_dim) != head_dim:
            raise ModelError(
                f"{file.path}: {name}.{key} is {file.value(f'{name}.{key}')}; "
                f"expected that of the keys, {head_dim}"
            )
    tensors = {tensor.name for tensor in file.tensors()}
    window = file.value(f"{name}.attention.sliding_window") and _count(
        file, f"{name}.attention.sliding_window"
    )
    config: dict[str, Any] = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "attention_bias": "blk.0.attn_output.bias" in tensors,
        "attention_dropout": 0.0,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": _count(file, f"{name}.feed_forward_length"),
        "max_position_embeddings": _count(file, f"{name}.context_length"),
        "num_attention_heads": heads,
        "num_hidden_layers": _count(file, f"{name}.block_count"),
        "num_key_value_heads": _count(file, f"{name}.attention.head_count_kv", heads),
        # The file keeps the float32 nearest to the decimal of config.json.
        "rms_norm_eps": _short(file.required(f"{name}.attention.layer_norm_rms_epsilon")),
        "rope_scaling": _rope_scaling(file, head_dim),
        "rope_theta": _short(file.value(f"{name}.rope.freq_base", 10000.0)),
        "tie_word_embeddings": tied,
        "torch_dtype": dtype,
        "use_cache": True,
        "vocab_size": vocabulary_size,
    }
    if architecture.model_type == "llama":
        config["mlp_bias"] = "blk.0.ffn_gate.bias" in tensors
        if window:
            config |= {
                "architectures": ["MistralForCausalLM"],
                "model_type": "mistral",
                "sliding_window": window,
            }
    return config | dict(architecture.fields) | _token_ids(file)


def _count(file: GgufFile, key: str, default: int | None = None) -> int:
    value = file.value(key, default)
    if value is None:
        value = file.required(key)
    if isinstance(value, list) and len(set(value)) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelError(
            f"{file.path}: {key} is {value!r}; supported: one positive number for all layers"
        )
    return value


def generation_config(file: GgufFile) -> dict[str, Any]:
    """Returns the contents of generation_config.json: the special token ids of the file."""
    config = _token_ids(file)
    ends = [
        file.value(f"tokenizer.ggml.{kind}_token_id")
        for kind in ("eos", "eot", "eom")  # end of text, of turn, of message
    ]
    distinct = list(dict.fromkeys(int(token) for token in ends if token is not None))
    if len(distinct) > 1:
        config["eos_token_id"] = distinct
    return config


def _token_ids(file: GgufFile) -> dict[str, Any]:
    ids = {
        "bos_token_id": file.value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": file.value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": file.value("tokenizer.ggml.padding_token_id"),
    }
    return {key: None if token is None else int(token) for key, token in ids.items()}


def _short(value: float) -> float:
    return float(str(np.float32(value)))


def _rope_scaling(file: GgufFile, head_dim: int) -> dict[str, Any] | None:
    name = file.architecture
    for tensor in file.tensors():
        if tensor.name == "rope_freqs.weight":
            return _llama3_scaling(file, tensor.dequantised(), head_dim)
    kind = file.value(f"{name}.rope.scaling.type", "none")
    if kind == "none":
        return None
    factor = float(file.required(f"{name}.rope.scaling.factor"))
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return _yarn_scaling(file, factor)
    raise ModelError(
        f"{file.path} has RoPE scaling {kind!r}; supported: none, linear, yarn, llama3"
    )


def _yarn_scaling(file: GgufFile, factor: float) -> dict[str, Any]:
    prefix = f"{file.architecture}.rope.scaling."
    for key in ("attn_factor", "yarn_attn_factor", "yarn_ext_factor"):
        value = file.value(prefix + key, 1.0)
        # A negative extrapolation factor stands for the usual one.
        if value != 1.0 and not (key == "yarn_ext_factor" and value < 0):
            raise ModelError(f"{file.path}: {prefix}{key} is {value}; supported: 1.0")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": _count(file, prefix + "original_context_length"),
        "beta_fast": float(file.value(prefix + "yarn_beta_fast", 32.0)),
        "beta_slow": float(file.value(prefix + "yarn_beta_slow", 1.0)),
    }


def _llama3_scaling(
    file: GgufFile, factors: npt.NDArray[np.float32], head_dim: int
) -> dict[str, Any]:
    # The file keeps only the divisors of the frequencies. The published models share these
    # parameters, all but `factor`, which is the largest divisor; anything else is refused.
    low, high, original = 1.0, 4.0, 8192
    factor = float(factors.max())
    base = float(file.value(f"{file.architecture}.rope.freq_base", 10000.0))
    frequencies = base ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    turns = original * frequencies / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    expected = 1.0 / ((1 - smooth) / factor + smooth)
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-3):
        raise ModelError(f"{file.path} has RoPE frequency factors that match no supported scaling")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
