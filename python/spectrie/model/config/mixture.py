"""Mixtures of experts: their layers and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie.model.config.families import ExpertNames, Family
from spectrie.model.config.reader import Reader

__all__ = ["MixtureConfig"]


@dataclass(frozen=True, slots=True)
class MixtureConfig:
    """The experts of a layer.

    Attributes:
        num_experts: Experts of a layer.
        num_chosen: Experts per token: the likeliest by the router's softmax.
        intermediate_size: Width of each expert.
        normalised: Whether the chosen experts' weights are scaled to a sum of 1.
        dense_layers: Layers with an ordinary MLP instead.
        names: Names of their tensors.
    """

    num_experts: int
    num_chosen: int
    intermediate_size: int
    normalised: bool
    dense_layers: frozenset[int]
    names: ExpertNames

    @classmethod
    def read(cls, reader: Reader, family: Family, num_layers: int) -> MixtureConfig | None:
        """Returns the mixture that `config.json` describes; None for families without one.

        Raises:
            ModelError: A value is missing or impossible.
        """
        traits = family.mixture
        if traits is None:
            return None
        first, second = traits.count_fields
        field = first if reader.optional_count(second) is None else second
        num_experts = reader.count(field)
        num_chosen = reader.count("num_experts_per_tok")
        if num_chosen > num_experts:
            raise reader.refuse("num_experts_per_tok", f"at most {num_experts}, which is {field}")
        dense: frozenset[int] = frozenset()
        if traits.some_dense:
            step = reader.count("decoder_sparse_step", 1)
            dense = reader.layers("mlp_only_layers", num_layers)
            dense |= {layer for layer in range(num_layers) if (layer + 1) % step}
        return cls(
            num_experts=num_experts,
            num_chosen=num_chosen,
            intermediate_size=reader.count(traits.width_field),
            normalised=traits.normalised or reader.switch("norm_topk_prob"),
            dense_layers=dense,
            names=traits.names,
        )
