"""config.json and generation_config.json from the metadata of a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spectrie.errors import ModelError
from spectrie.model.gguf_file import GgufFile

__all__ = ["ARCHITECTURES", "Architecture", "architecture_of", "generation_config", "model_config"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """How a GGUF architecture is called and laid out elsewhere.

    Attributes:
        model_type: `model_type` of config.json.
        class_name: Entry of `architectures` in config.json.
        rope_interleaved: Whether the file's q and k rows are permuted for interleaved RoPE.
        qkv_bias: Whether the q, k and v projections have biases.
    """

    model_type: str
    class_name: str
    rope_interleaved: bool = False
    qkv_bias: bool = False


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("llama", "LlamaForCausalLM", rope_interleaved=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", qkv_bias=True),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM"),
}


def architecture_of(file: GgufFile) -> Architecture:
    """Gives the architecture of `file`.

    Raises:
        ModelError: It is none of `ARCHITECTURES`, or a mixture of experts.
    """
    name = file.architecture
    if name not in ARCHITECTURES:
        raise ModelError(
            f"{file.path} has architecture {name!r}; supported are {', '.join(ARCHITECTURES)}"
        )
    experts = file.value(f"{name}.expert_count", 0)
    if experts:
        raise ModelError(
            f"{file.path} is a mixture of {experts} experts; only dense models are supported"
        )
    return ARCHITECTURES[name]


def model_config(file: GgufFile, vocabulary_size: int, tied: bool, dtype: str) -> dict[str, Any]:
    """Gives the contents of config.json.

    Args:
        file: The GGUF file.
        vocabulary_size: Rows of the embedding.
        tied: Whether the output projection is the embedding (the file has no `output.weight`).
        dtype: Storage of the weights, such as `float32`.

    Raises:
        ModelError: A needed key is absent, or the RoPE scaling is not supported.
    """
    name = file.architecture
    architecture = architecture_of(file)
    hidden = int(file.required(f"{name}.embedding_length"))
    heads = int(file.required(f"{name}.attention.head_count"))
    head_dim = int(file.value(f"{name}.attention.key_length", hidden // heads))
    window = file.value(f"{name}.attention.sliding_window")
    config: dict[str, Any] = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": int(file.required(f"{name}.feed_forward_length")),
        "max_position_embeddings": int(file.required(f"{name}.context_length")),
        "num_attention_heads": heads,
        "num_hidden_layers": int(file.required(f"{name}.block_count")),
        "num_key_value_heads": int(file.value(f"{name}.attention.head_count_kv", heads)),
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
        config["mlp_bias"] = False
        if window:
            config |= {
                "architectures": ["MistralForCausalLM"],
                "model_type": "mistral",
                "sliding_window": int(window),
            }
    return config | _token_ids(file)


def generation_config(file: GgufFile) -> dict[str, Any]:
    """Gives the contents of generation_config.json: the special token ids, all that the file knows."""
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
        original = int(file.required(f"{name}.rope.scaling.original_context_length"))
        return {
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
        }
    raise ModelError(
        f"{file.path} has RoPE scaling {kind!r}; supported are none, linear, yarn and llama3"
    )


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
        raise ModelError(f"{file.path} has RoPE frequency factors that no known scaling explains")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
