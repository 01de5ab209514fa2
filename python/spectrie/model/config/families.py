"""What sets the supported architectures apart, where `config.json` does not say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FAMILIES", "ExpertNames", "Family", "MixtureTraits"]


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """Names of a mixture's tensors below a layer's prefix.

    Attributes:
        router: The product that scores the experts.
        experts: What the experts' numbers follow.
        gate: A projection of an expert, and so are those that follow.
        up: As gate.
        down: As gate.
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
        names: Of the tensors.
        count_fields: Fields of `config.json` with the number of experts: files have one or the other.
        width_field: Field of `config.json` with the width of an expert.
        normalised: Whether the chosen experts' weights always sum to 1; else `norm_topk_prob` says so.
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
    """Traits of an architecture, and the values of fields that its `config.json` may leave out.

    Attributes:
        qkv_bias: Whether queries, keys and values always have biases, whatever `attention_bias` says;
            the output projection then has none.
        head_norm: Whether queries and keys are normed per head.
        unrotated: Whether some layers do not rotate queries and keys.
        tied: Whether the head is the embedding by default.
        theta: Base of the rotation's frequencies by default.
        window: Whether layers attend to a sliding window: `never`, `always` where `sliding_window` is
            given, or `switched` on by `use_sliding_window`.
        mixture: Of families with mixtures of experts.
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
    "Qwen3ForCausalLM": Family(head_norm=True),
    "Qwen3MoeForCausalLM": Family(head_norm=True, mixture=_QWEN_EXPERTS),
    "MixtralForCausalLM": Family(theta=1_000_000.0, window="always", mixture=_MIXTRAL_EXPERTS),
    "SmolLM3ForCausalLM": Family(unrotated=True, tied=True, theta=2_000_000.0),
}
"""By class name, as `architectures` of `config.json` has it. Source: the configuration classes of
transformers 5."""
