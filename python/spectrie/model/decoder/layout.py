"""The tensors of a checkpoint that make up each part of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.parallel.split import Share, Split

__all__ = [
    "EMBEDDING",
    "FINAL_NORM",
    "HEAD",
    "DenseLayout",
    "LayerLayout",
    "MixtureLayout",
    "ProductLayout",
    "Projection",
    "layer_layout",
]

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class Projection:
    """One matrix of a checkpoint.

    Attributes:
        name: Its name without `.weight` or `.bias`.
        rows: Output features: this rank's share of all.
    """

    name: str
    rows: Share


@dataclass(frozen=True, slots=True)
class ProductLayout:
    """One matrix product.

    Attributes:
        parts: The projections, stacked in this order.
        in_features: Width of the input, before ranks share it.
        bias: Whether the projections have a bias.
        terms: Input features of which this rank gives the sums, where the parts are whole; None for all.
    """

    parts: tuple[Projection, ...]
    in_features: int
    bias: bool
    terms: Share | None = None

    @property
    def out_features(self) -> int:
        """Output features, before ranks share them."""
        return sum(part.rows.total for part in self.parts)


@dataclass(frozen=True, slots=True)
class DenseLayout:
    """A gated MLP."""

    gate_up: ProductLayout
    down: ProductLayout


@dataclass(frozen=True, slots=True)
class MixtureLayout:
    """The experts of a layer, and the product that scores them.

    Attributes:
        router: Product that scores the experts; every rank holds the whole of it.
        experts: Experts in the order of their numbers.
        num_chosen: Experts per row.
        normalised: Whether their weights are scaled to a sum of 1.
    """

    router: ProductLayout
    experts: tuple[DenseLayout, ...]
    num_chosen: int
    normalised: bool


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """One layer: its products, the names of its norms, and of its head norms if any."""

    attention_norm: str
    qkv: ProductLayout
    output: ProductLayout
    mlp_norm: str
    mlp: DenseLayout | MixtureLayout
    head_norms: tuple[str, str] | None


def layer_layout(
    config: ModelConfig, index: int, split: Split | None = None, *, shares_terms: bool = False
) -> LayerLayout:
    """Returns the tensors of layer `index` by Hugging Face's names.

    Args:
        config: The whole model.
        index: The layer.
        split: The part of the model; None for the whole.
        shares_terms: Whether ranks share the terms of output and down projections and add one another's
            sums, where 8 segments can be divided among them evenly, instead of sharing the outputs.
    """
    split = split or Split.of(config, 0, 1)
    prefix = f"model.layers.{index}"
    attention, hidden = f"{prefix}.self_attn", config.hidden_size
    queries = split.heads.times(config.head_dim)
    keys = split.kv_heads.times(config.head_dim)
    qkv = tuple(
        Projection(f"{attention}.{name}_proj", rows)
        for name, rows in zip("qkv", (queries, keys, keys), strict=True)
    )
    norms = (f"{attention}.q_norm.weight", f"{attention}.k_norm.weight")
    return LayerLayout(
        attention_norm=f"{prefix}.input_layernorm.weight",
        qkv=ProductLayout(qkv, hidden, config.qkv_bias),
        output=_into_stream(
            f"{attention}.o_proj", queries, config.output_bias, split, shares_terms
        ),
        mlp_norm=f"{prefix}.post_attention_layernorm.weight",
        mlp=_mlp(config, index, prefix, split, shares_terms),
        head_norms=norms if config.head_norm else None,
    )


def _into_stream(
    name: str, terms: Share, bias: bool, split: Split, shares_terms: bool
) -> ProductLayout:
    """The product of `terms` that the residual stream takes."""
    ranks, hidden = split.ranks, split.hidden.total
    if shares_terms and ranks > 1 and terms.is_even(ranks):
        from spectrie_kernels import SumOrder

        if SumOrder.of(hidden, terms.total, row_parallel=True).is_shared_by(ranks):
            whole = Share(0, hidden, hidden)
            return ProductLayout((Projection(name, whole),), terms.total, bias, terms)
    return ProductLayout((Projection(name, split.hidden),), terms.total, bias)


def _mlp(
    config: ModelConfig, index: int, prefix: str, split: Split, shares_terms: bool
) -> DenseLayout | MixtureLayout:
    def dense(
        base: str, names: tuple[str, str, str], inner: Share, bias: bool, shares_terms: bool = False
    ) -> DenseLayout:
        gate, up, down = (f"{base}.{name}" for name in names)
        gate_up = (Projection(gate, inner), Projection(up, inner))
        return DenseLayout(
            gate_up=ProductLayout(gate_up, config.hidden_size, bias),
            down=_into_stream(down, inner, bias, split, shares_terms),
        )

    mixture = config.mixture
    if mixture is None or index in mixture.dense_layers:
        projections = ("gate_proj", "up_proj", "down_proj")
        return dense(f"{prefix}.mlp", projections, split.inner, config.mlp_bias, shares_terms)
    names, count = mixture.names, mixture.num_experts
    router = Projection(f"{prefix}.{names.router}", Share(0, count, count))
    of_expert = (names.gate, names.up, names.down)
    return MixtureLayout(
        router=ProductLayout((router,), config.hidden_size, False),
        experts=tuple(
            dense(f"{prefix}.{names.experts}.{expert}", of_expert, split.expert, False)
            for expert in range(count)
        ),
        num_chosen=mixture.num_chosen,
        normalised=mixture.normalised,
    )
