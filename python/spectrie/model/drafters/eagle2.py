"""EAGLE and EAGLE-2 heads by their published names.

A product of the token's vector and the target's last normed state makes the residual stream of a layer that
has no norm before its attention. What the layer leaves is the next level's state, and names tokens by the
target's head. Layouts: SafeAILab's EAGLE, SGLang, vLLM; all with or without `model.` before the names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.fields import DECODER_FIELDS, refuse_other_fields, refuse_quantised
from spectrie.model.decoder.packing import Layer
from spectrie.model.drafters.description import Drafter, FusedWeights, Target
from spectrie.model.drafters.head import MAX_LEVELS, HeadReader, read_layer
from spectrie.model.files.weights import Weights

__all__ = ["ARCHITECTURES", "read"]

ARCHITECTURES = frozenset({"LlamaForCausalLMEagle", "EagleLlamaForCausalLM", "EagleModel"})

_FIELDS = DECODER_FIELDS | frozenset(
    "bias draft_vocab_size method model qkv_bias target_hidden_size truncated_vocab_size".split()
)


def read(values: dict[str, Any], weights: Weights, target: Target, folder: Path) -> Drafter:
    """Returns the head of a folder; see `DrafterKind.read`."""
    where = str(folder / "config.json")
    # vLLM keeps the layer's fields apart.
    model = values.get("model") or {}
    if not isinstance(model, dict):
        raise ModelError(f"{where}: model is {model!r}, expected an object")
    values = {**model, **values}
    refuse_quantised(values, where)
    refuse_other_fields(values, where, _FIELDS)
    if values.get("method") not in (None, "eagle"):
        raise ModelError(f"{where}: method is {values['method']!r}, expected 'eagle'")
    reader = HeadReader(values, weights, target, folder)
    whole = target.config.vocabulary_size
    if reader.fields.count("truncated_vocab_size", whole) != whole:
        raise reader.fields.refuse("truncated_vocab_size", f"{whole}, the target's vocabulary")
    if reader.hidden != target.config.hidden_size:
        raise reader.fields.refuse("hidden_size", f"{target.config.hidden_size}, the target's")
    tensors, hidden = reader.tensors, reader.hidden
    # The published default is a bias, which some files lack.
    has_bias = reader.fields.switch("bias", tensors.find("fc.bias") is not None)
    return Drafter(
        kind="eagle2",
        weights=FusedWeights(
            vector_norm=None,
            state_norm=None,
            state_first=False,
            fc=tensors.product([(["fc"], hidden)], 2 * hidden, bias=has_bias),
            layers=[_layer(reader, index) for index in range(reader.num_layers)],
            output_norm=None,
            carries_normed=False,
            embedding=reader.embedding(),
        ),
        vocabulary=reader.vocabulary(),
        geometry=reader.geometry(),
        taps=1,
        max_levels=MAX_LEVELS,
        alive=reader.alive,
    )


def _layer(reader: HeadReader, index: int) -> Layer:
    prefix, norm = f"layers.{index}.", None
    if index:
        norm = reader.tensors.vector([f"{prefix}input_layernorm.weight"], reader.hidden)
    return read_layer(
        reader.tensors, [prefix], reader.sizes, inputs=reader.hidden, attention_norm=norm
    )
