"""The sizes of measured models."""

from __future__ import annotations

import pytest

from bench.gpu.models.shapes import MODELS, ModelShape


@pytest.mark.parametrize(
    ("model", "billions"),
    list(zip(MODELS, (0.135, 0.494, 1.54, 7.07, 7.50), strict=True)),
)
def test_a_model_reads_as_many_weights_as_it_has(model: ModelShape, billions: float) -> None:
    # Untied embeddings are not read as a whole: 7.6 and 8.0 less 0.5 each.
    assert model.weights / 1e9 == pytest.approx(billions, rel=0.01)


def test_products_of_a_layer_fit_one_another() -> None:
    for model in MODELS:
        qkv, output, gate_up, down, head = model.products
        assert qkv.in_features == gate_up.in_features == head.in_features == model.hidden
        assert output.out_features == down.out_features == model.hidden
        assert gate_up.out_features == 2 * down.in_features
        assert qkv.out_features - output.in_features == 2 * model.kv_heads * model.head_dim
        assert output.order.pairwise and down.order.pairwise and not qkv.order.pairwise
