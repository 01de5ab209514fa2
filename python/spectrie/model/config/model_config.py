"""The configuration of a decoder, read from Hugging Face's `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.families import FAMILIES, Family
from spectrie.model.config.fields import refuse_quantised, refuse_unknown
from spectrie.model.config.mixture import MixtureConfig
from spectrie.model.config.reader import Reader, read_object
from spectrie.model.config.rope import RopeConfig

__all__ = ["ModelConfig"]

# Written beside `config.json` by tools that do not write into it.
_QUANTISATION_FILES = {
    "hf_quant_config.json": "modelopt",
    "quant_config.json": "awq",
    "quantize_config.json": "gptq",
}

_MAX_LAYERS = 1 << 14
"""Above any model: what is kept for each layer must not take all memory for a damaged file."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and switches of one decoder.

    Attributes:
        architecture: The class name in `config.json`, one of `FAMILIES`.
        max_context: Positions that the model supports, including those of RoPE scaling.
        layer_windows: Per layer, keys a row sees, including its own; None for all.
        layer_rotary: Per layer, whether queries and keys are rotated.
        eos_token_ids: Tokens that end an answer, from `generation_config.json`, else `config.json`.
        bos_token_id: Token that begins a text; None if `config.json` names none in the vocabulary.
        mixture: The experts of layers that have them; None for families without experts.
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
    mixture: MixtureConfig | None

    @property
    def qkv_size(self) -> int:
        """Width of the fused projection to queries, keys and values."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @classmethod
    def from_folder(cls, folder: Path) -> ModelConfig:
        """Reads the configuration of a model folder.

        Raises:
            ModelError: `config.json` cannot be read, or the model is not supported.
        """
        path = folder / "config.json"
        values = read_object(path)
        for name, method in _QUANTISATION_FILES.items():
            if (folder / name).exists():
                refuse_quantised(
                    {"quantization_config": {"quant_method": method}}, str(folder / name)
                )
        generation = folder / "generation_config.json"
        extra = read_object(generation) if generation.exists() else {}
        return cls.from_values(values, extra, where=str(path))

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, Any],
        generation: Mapping[str, Any] | None = None,
        *,
        where: str = "config.json",
    ) -> ModelConfig:
        """Reads the configuration from Hugging Face's fields.

        Args:
            values: `config.json`.
            generation: `generation_config.json`; its end-of-text ids take precedence.
            where: The file to name in errors.

        Raises:
            ModelError: A value is missing, or the model is not supported.
        """
        architecture = _architecture(values, where)
        family = FAMILIES[architecture]
        refuse_quantised(values, where)
        refuse_unknown(values, where, family)
        reader = Reader(values, where)
        hidden_size = reader.count("hidden_size")
        num_heads = reader.count("num_attention_heads")
        num_layers = reader.count("num_hidden_layers", maximum=_MAX_LAYERS)
        head_dim = reader.count("head_dim", hidden_size // num_heads)
        activation = values.get("hidden_act") or "silu"
        if activation not in ("silu", "swish"):
            raise ModelError(f"{where}: hidden_act is {activation!r}, supported: silu")
        rope = RopeConfig.from_values(values, head_dim, theta=family.theta, where=where)
        bias = reader.switch("attention_bias")
        config = cls(
            architecture=architecture,
            vocabulary_size=reader.count("vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=reader.count("intermediate_size"),
            num_layers=num_layers,
            num_heads=num_heads,
            num_kv_heads=reader.count("num_key_value_heads", num_heads),
            head_dim=head_dim,
            norm_epsilon=reader.number("rms_norm_eps", 1e-6),
            max_context=max(reader.count("max_position_embeddings"), rope.stretched_context),
            rope=rope,
            tied_head=reader.switch("tie_word_embeddings", family.tied),
            qkv_bias=family.qkv_bias or bias,
            output_bias=not family.qkv_bias and bias,
            mlp_bias=reader.switch("mlp_bias"),
            head_norm=family.head_norm,
            layer_windows=_windows(reader, family, num_layers),
            layer_rotary=_rotary(reader, family, num_layers),
            eos_token_ids=_eos(reader, generation or {}, where),
            bos_token_id=_bos(values, reader.count("vocab_size")),
            mixture=MixtureConfig.read(reader, family, num_layers),
        )
        if config.num_heads % config.num_kv_heads:
            raise ModelError(
                f"{where}: num_key_value_heads is {config.num_kv_heads}, "
                f"expected a divisor of num_attention_heads, {config.num_heads}"
            )
        return config


def _architecture(values: Mapping[str, Any], where: str) -> str:
    names = values.get("architectures") or [values.get("model_type", "unknown")]
    if not isinstance(names, list):
        raise Reader(values, where).refuse("architectures", "a list of names")
    name = str(names[0])
    if name not in FAMILIES:
        raise ModelError(
            f"{where}: architecture {name} is not supported; supported: {', '.join(FAMILIES)}"
        )
    return name


def _windows(reader: Reader, family: Family, num_layers: int) -> tuple[int | None, ...]:
    everywhere = (None,) * num_layers
    if family.window == "never":
        return everywhere
    if family.window == "switched" and not reader.switch("use_sliding_window"):
        return everywhere
    window = reader.optional_count("sliding_window")
    if window is None:
        return everywhere
    kinds = reader.per_layer("layer_types", num_layers)
    if kinds is not None:
        for kind in kinds:
            if kind not in ("sliding_attention", "full_attention"):
                raise reader.refuse("layer_types", "sliding_attention or full_attention")
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    # Mixtures have it in all layers, whatever `max_window_layers` says.
    if family.window == "always" or family.mixture is not None:
        return (window,) * num_layers
    if family.unrotated:
        rotary = _rotary(reader, family, num_layers)
        return tuple(None if rotates else window for rotates in rotary)
    first = reader.count("max_window_layers", 28, minimum=0)
    return tuple(window if layer >= first else None for layer in range(num_layers))


def _rotary(reader: Reader, family: Family, num_layers: int) -> tuple[bool, ...]:
    if not family.unrotated:
        return (True,) * num_layers
    # In this list 1 means that the layer does rotate.
    marks = reader.per_layer("no_rope_layers", num_layers)
    if marks is not None:
        if any(mark not in (0, 1) for mark in marks):
            raise reader.refuse("no_rope_layers", "a list of zeros and ones")
        return tuple(bool(mark) for mark in marks)
    interval = reader.count("no_rope_layer_interval", 4)
    return tuple((layer + 1) % interval != 0 for layer in range(num_layers))


def _eos(reader: Reader, generation: Mapping[str, Any], where: str) -> tuple[int, ...]:
    if "eos_token_id" in generation:
        beside = str(Path(where).with_name("generation_config.json"))
        reader = Reader(generation, beside)
    return reader.token_ids("eos_token_id")


def _bos(values: Mapping[str, Any], vocabulary_size: int) -> int | None:
    token = values.get("bos_token_id")
    if isinstance(token, int) and not isinstance(token, bool) and 0 <= token < vocabulary_size:
        return token
    return None
