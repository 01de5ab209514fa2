"""The sizes of the models whose kernels and steps are measured."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie_kernels import SumOrder

__all__ = ["MODELS", "TINY", "ModelShape", "ProductShape"]


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A weight of a model.

    Attributes:
        name: Which of a layer's products, or `head`.
        out_features: Its outputs.
        in_features: The terms of each.
        row_parallel: Whether ranks may share its terms; its sums go to the residual stream.
        bias: Whether it has a bias.
    """

    name: str
    out_features: int
    in_features: int
    row_parallel: bool = False
    bias: bool = False

    @property
    def order(self) -> SumOrder:
        """The order in which its terms are added."""
        return SumOrder.of(self.out_features, self.in_features, row_parallel=self.row_parallel)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder's sizes.

    Attributes:
        name: What results call it.
        layers: Decoder layers.
        hidden: Width of the residual stream.
        inner: Width of the gated product.
        heads: Query heads.
        kv_heads: Key-value heads.
        head_dim: Size of a head.
        vocabulary: Tokens.
        tied: Whether the head is the embedding.
        qkv_bias: Whether query, key and value have a bias.
    """

    name: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    qkv_bias: bool

    @property
    def products(self) -> tuple[ProductShape, ...]:
        """The weights of one layer, and the head."""
        attended = self.heads * self.head_dim
        qkv = attended + 2 * self.kv_heads * self.head_dim
        return (
            ProductShape("qkv", qkv, self.hidden, bias=self.qkv_bias),
            ProductShape("output", self.hidden, attended, row_parallel=True),
            ProductShape("gate_up", 2 * self.inner, self.hidden),
            ProductShape("down", self.hidden, self.inner, row_parallel=True),
            ProductShape("head", self.vocabulary, self.hidden),
        )

    @property
    def weights(self) -> int:
        """Numbers that a step of one row reads: all weights but the embedding's other rows."""
        *layer, head = (one.out_features * one.in_features for one in self.products)
        return self.layers * sum(layer) + head


MODELS = (
    ModelShape("SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49_152, True, False),
    ModelShape("Qwen2.5-0.5B", 24, 896, 4864, 14, 2, 64, 151_936, True, True),
    ModelShape("Qwen2.5-1.5B", 28, 1536, 8960, 12, 2, 128, 151_936, True, True),
    ModelShape("Qwen2.5-7B", 28, 3584, 18_944, 28, 4, 128, 152_064, False, True),
    ModelShape("8B", 32, 4096, 14_336, 32, 8, 128, 128_256, False, False),
)
"""Those of the measurements, the smallest first; 8B is that of Llama 3."""
TINY = ModelShape("tiny", 2, 64, 128, 4, 2, 16, 352, True, False)
"""What the interpreter computes in time."""
