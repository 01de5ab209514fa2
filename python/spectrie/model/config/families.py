"""Differences between the supported architectures that `config.json` does not state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FAMILIES", "ExpertNames", "Family", "MixtureTraits"]


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """Names of a mixture's tensors, relative to a layer's prefix.

    Attributes:
        router: The projection that scores the experts.
        experts: Prefix of an expert's number.
        gate: Gate projection of an expert.
        up: Up projection of an expert.
        down: Down projection of an expert.
    """

    router: str
    experts: str
    gate: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class MixtureTraits:
    """How a family describes its mixtures of experts.

    Attributes:
        names: Names of the tensors.
        count_fields: Fields of `config.json` with the number of experts; a file has one of them.
        width_field: Field of `config.json` with the width of an expert.
        normalised: Whether the chosen experts' weights always sum to 1; else `norm_topk_prob` decides.
        some_dense: Whether `decoder_sparse_step` and `mlp_only_layers` leave some layers dense.
    """

    names: ExpertNames
    count_fields: tuple[str, str]
    width_field: str
    normalised: bool
    some_dense: bool

    @property
    def fields(self) -> frozenset[str]:
        """Fields of `config.json` that only mixtures have."""
        fields = {*self.count_fields, "num_experts_per_tok", self.width_field}
        if not self.normalised:
            fields.add("norm_topk_prob")
        if self.some_dense:
            fields |= {"decoder_sparse_step", "mlp_only_layers"}
        return frozenset(fields)


@dataclass(frozen=True, slots=True)
class Family:
    """Traits of an architecture, and defaults of fields that its `config.json` may omit.

    Attributes:
        qkv_bias: Whether queries, keys and values always have biases, whatever `attention_bias` says;
            the output projection then has none.
        head_norm: Whether queries and keys are normed per head.
        unrotated: Whether some layers omit the rotation of queries and keys.
        tied: Whether the head is the embedding by default.
        theta: Base of the rotation's frequencies by default.
        window: Whether layers attend to a sliding window: `never`, `always` if `sliding_window` is
            given, or `switched` on by `use_sliding_window`.
        mixture: The mixture of experts; None for families without one.
    """

    qkv_bias: bool = False
    head_norm: bool = False
    unrotated: bool = False
    tied: bool = False
    theta: float = 10000.0
    window: Literal["never", "always", "switched"] = "switched"
    mixture: MixtureTraits | None = None


_QWEN_EXPERTS = MixtureTraits(
    ExpertNames("mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj"),
    count_fields=("num_experts", "num_local_experts"),
    width_field="moe_intermediate_size",
    normalised=False,
    some_dense=True,
)
_MIXTRAL_EXPERTS = MixtureTraits(
    ExpertNames("block_sparse_moe.gate", "block_sparse_moe.experts", "w1", "w3", "w2"),
    count_fields=("num_local_experts", "num_experts"),
    width_field="intermediate_size",
    normalised=True,
    some_dense=False,
)

FAMILIES = {
    "LlamaForCausalLM": Family(window="never"),
    "MistralForCausalLM": Family(window="always"),
    "Qwen2ForCausalLM": Family(qkv_bias=True),
    "MiMoForCausalLM": Family(qkv_bias=True),
    "Qwen3ForCausalLM": Family(head_norm=True),
    "Qwen3MoeForCausalLM": Family(head_norm=True, mixture=_QWEN_EXPERTS),
    "MixtralForCausalLM": Family(theta=1_000_000.0, window="always", mixture=_MIXTRAL_EXPERTS),
    "SmolLM3ForCausalLM": Family(unrotated=True, tied=True, theta=2_000_000.0),
}
"""Families by class name, as listed in `architectures` of `config.json`. Source: the configuration
classes of transformers 5."""
