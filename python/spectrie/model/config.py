"""What a decoder needs to know about a model, read from Hugging Face's `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.rope import RopeConfig

__all__ = ["SUPPORTED_ARCHITECTURES", "ModelConfig"]

SUPPORTED_ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "SmolLM3ForCausalLM",
)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of one decoder.

    Attributes:
        architecture: The class name in `config.json`, one of `SUPPORTED_ARCHITECTURES`.
        max_context: Positions that the model was made for.
        layer_windows: Per layer, keys a row sees, itself included; None = all.
        layer_rotary: Per layer, whether queries and keys are rotated.
        eos_token_ids: Tokens that end an answer, from `generation_config.json`, else `config.json`.
        bos_token_id: Token that begins a text; None when `config.json` names none of the vocabulary.
    """

    architecture: str
    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_epsilon: float
    max_context: int
    rope: RopeConfig
    tied_head: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    head_norm: bool
    layer_windows: tuple[int | None, ...]
    layer_rotary: tuple[bool, ...]
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None

    @property
    def qkv_size(self) -> int:
        """Width of the fused projection to queries, keys and values."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @classmethod
    def from_folder(cls, folder: Path) -> ModelConfig:
        """The configuration of a model folder.

        Raises:
            ModelError: no readable `config.json`, or a model that is not supported.
        """
        path = folder / "config.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise ModelError(f"{path} is not JSON: {error}") from error
        generation = folder / "generation_config.json"
        try:
            extra = json.loads(generation.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            extra = {}
        return cls.from_values(values, extra, where=str(path))

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, Any],
        generation: Mapping[str, Any] | None = None,
        *,
        where: str = "config.json",
    ) -> ModelConfig:
        """The configuration in the words of Hugging Face.

        Args:
            values: `config.json`.
            generation: `generation_config.json`; its end-of-text ids win.
            where: The file to name in errors.

        Raises:
            ModelError: a missing value, or a model that is not supported.
        """
        architecture = _architecture(values, where)
        reader = _Reader(values, where)
        hidden_size = reader.count("hidden_size")
        num_heads = reader.count("num_attention_heads")
        num_layers = reader.count("num_hidden_layers")
        head_dim = reader.count("head_dim", hidden_size // num_heads)
        activation = values.get("hidden_act", "silu")
        if activation not in ("silu", "swish"):
            raise ModelError(f"{where}: hidden_act is {activation!r}, supported: silu")
        config = cls(
            architecture=architecture,
            vocabulary_size=reader.count("vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=reader.count("intermediate_size"),
            num_layers=num_layers,
            num_heads=num_heads,
            num_kv_heads=reader.count("num_key_value_heads", num_heads),
            head_dim=head_dim,
            norm_epsilon=float(values.get("rms_norm_eps", 1e-6)),
            max_context=reader.count("max_position_embeddings"),
            rope=RopeConfig.from_values(values, head_dim, where=where),
            tied_head=bool(values.get("tie_word_embeddings", False)),
            qkv_bias=architecture == "Qwen2ForCausalLM" or bool(values.get("attention_bias")),
            output_bias=architecture != "Qwen2ForCausalLM" and bool(values.get("attention_bias")),
            mlp_bias=bool(values.get("mlp_bias")),
            head_norm=architecture == "Qwen3ForCausalLM",
            layer_windows=_windows(values, architecture, num_layers),
            layer_rotary=_rotary(values, architecture, num_layers),
            eos_token_ids=_eos(values, generation or {}),
            bos_token_id=_bos(values),
        )
        if config.num_heads % config.num_kv_heads:
            raise ModelError(
                f"{where}: num_key_value_heads is {config.num_kv_heads}, "
                f"expected a divisor of num_attention_heads, {config.num_heads}"
            )
        return config


class _Reader:
    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where

    def count(self, name: str, default: int | None = None) -> int:
        value = self._values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self._where}: {name} is missing")
        if not isinstance(value, int) or value < 1:
            raise ModelError(f"{self._where}: {name} is {value!r}, expected a positive integer")
        return value


def _architecture(values: Mapping[str, Any], where: str) -> str:
    names = values.get("architectures") or [values.get("model_type", "unknown")]
    name = str(names[0])
    if name not in SUPPORTED_ARCHITECTURES:
        supported = ", ".join(SUPPORTED_ARCHITECTURES)
        raise ModelError(f"{where}: architecture {name} is not supported; supported: {supported}")
    quantised = values.get("quantization_config")
    if quantised:
        method = dict(quantised).get("quant_method", "unknown")
        raise ModelError(
            f"{where}: checkpoints quantised with {method} are not supported; "
            "use one in float32, bfloat16 or float16, or a GGUF file"
        )
    return name


def _windows(
    values: Mapping[str, Any], architecture: str, num_layers: int
) -> tuple[int | None, ...]:
    window = values.get("sliding_window")
    if architecture == "LlamaForCausalLM" or window is None:
        return (None,) * num_layers
    if architecture == "MistralForCausalLM":
        return (int(window),) * num_layers
    if not values.get("use_sliding_window", False):
        return (None,) * num_layers
    types = values.get("layer_types")
    if types is not None:
        return tuple(int(window) if kind == "sliding_attention" else None for kind in types)
    first = int(values.get("max_window_layers", num_layers))
    return tuple(int(window) if layer >= first else None for layer in range(num_layers))


def _rotary(values: Mapping[str, Any], architecture: str, num_layers: int) -> tuple[bool, ...]:
    if architecture != "SmolLM3ForCausalLM":
        return (True,) * num_layers
    # In this list 1 means that the layer does rotate.
    marks = values.get("no_rope_layers")
    if marks:
        return tuple(bool(mark) for mark in marks)
    interval = int(values.get("no_rope_layer_interval", 4))
    return tuple((layer + 1) % interval != 0 for layer in range(num_layers))


def _eos(values: Mapping[str, Any], generation: Mapping[str, Any]) -> tuple[int, ...]:
    ids = generation.get("eos_token_id", values.get("eos_token_id"))
    if ids is None:
        return ()
    return tuple(int(token) for token in (ids if isinstance(ids, list) else [ids]))


def _bos(values: Mapping[str, Any]) -> int | None:
    token = values.get("bos_token_id")
    if isinstance(token, int) and 0 <= token < int(values["vocab_size"]):
        return token
    return None
