"""Layers for multi-token prediction (MTP), which some checkpoints hold behind the model's own.

A product of the token's normed vector and the normed state makes the residual stream of one more layer of the
model. The first state is the output of the model's last norm, and a level continues from the state after the
layer's own last norm. The row of the first token has its vector as every other: vLLM and SGLang set it to
zeros, but training does not (github.com/vllm-project/vllm/issues/33299).

The forms differ in names, in the order of vector and state, and in how norms are stored. A layer of a kind
that no drafter here computes is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.families import FAMILIES
from spectrie.model.config.fields import refuse_quantised, refuse_unknown
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.config.reader import Reader
from spectrie.model.config.rope import RopeConfig
from spectrie.model.decoder.packing import Vector
from spectrie.model.drafters.description import (
    AttentionLayer,
    Drafter,
    FusedWeights,
    Geometry,
    Target,
)
from spectrie.model.drafters.head import MAX_LEVELS, LayerSizes, read_embedding, read_layer
from spectrie.model.drafters.names import Tensors
from spectrie.model.drafters.vocabulary import read_vocabulary
from spectrie.model.files.arrays import Array
from spectrie.model.files.weights import Weights

__all__ = ["ARCHITECTURES", "layer_tensors", "read"]

ARCHITECTURES = frozenset(
    """
    DeepSeekMTPModel DeepseekV3ForCausalLM DeepseekV3ForCausalLMNextN Glm4MoeForCausalLM
    Glm4MoeForCausalLMNextN Glm4MoeMTPModel MiMoForCausalLM MiMoMTP MiMoMTPModel Qwen3NextForCausalLM
    Qwen3NextForCausalLMMTP Qwen3NextMTP
    """.split()
)


@dataclass(frozen=True, slots=True)
class _Form:
    """Names of one family, relative to the layer's prefix, and how it computes.

    Attributes:
        prefix: A pattern of the prefix of one layer; its group is the layer's number.
        layer: Prefix of the names that a layer of the model has.
        head: Name of its own LM head, if it has one.
        state_first: Whether `fc` takes the state before the vector.
        from_one: Whether norms are stored as what they differ from 1.
    """

    prefix: str
    vector_norm: str
    state_norm: str
    fc: str
    output_norm: str
    layer: str = ""
    head: str = "lm_head.weight"
    state_first: bool = False
    from_one: bool = False


_FORMS = (
    # MiMo
    _Form(
        r"model\.mtp_layers\.(\d+)\.",
        "token_layernorm",
        "hidden_layernorm",
        "input_proj",
        "final_layernorm",
        state_first=True,
    ),
    # DeepSeek, GLM
    _Form(
        r"model\.layers\.(\d+)\.",
        "enorm",
        "hnorm",
        "eh_proj",
        "shared_head.norm",
        head="shared_head.head.weight",
    ),
    # Qwen3-Next; the number is that of the layer behind the product
    _Form(
        r"mtp\.(?:layers\.(\d+)\.)?",
        "pre_fc_norm_embedding",
        "pre_fc_norm_hidden",
        "fc",
        "norm",
        layer="layers.0.",
        from_one=True,
    ),
)

_MISSING = (
    (r"self_attn\.(kv_a_proj_with_mqa|kv_b_proj|q_a_proj)\.", "multi-head latent attention"),
    (r"linear_attn\.", "linear attention"),
    (r"self_attn\.[qk]_norm\.", "norms of queries and keys"),
    (r"mlp\.(gate|experts|shared_expert\w*)\.", "a mixture of experts"),
)
"""Tensors behind a layer's prefix, and the kind of layer that has them."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One form's layers in a file.

    Attributes:
        prefix: Of the first layer's names.
        layers: Different layers.
        names: All tensors of all of them.
    """

    form: _Form
    prefix: str
    layers: int
    names: list[str]


def layer_tensors(weights: Weights, behind: int = 0) -> list[str]:
    """Returns the tensors of layers for multi-token prediction, whichever form they have.

    Args:
        weights: The file.
        behind: Layers of the model in it: those are none of them.
    """
    found = _find(weights)
    own = tuple(f"model.layers.{index}." for index in range(behind))
    return [name for name in found.names if not name.startswith(own)] if found else []


def _find(weights: Weights) -> _Found | None:
    names = weights.names()
    for form in _FORMS:
        marks = [re.fullmatch(f"({form.prefix}){re.escape(form.fc)}\\.weight", n) for n in names]
        prefixes = sorted((mark[1] for mark in marks if mark), key=lambda p: (len(p), p))
        if not prefixes:
            continue
        own = [name for name in names if name.startswith(tuple(prefixes))]
        numbers = {mark[1] for name in own if (mark := re.match(form.prefix, name))} - {None}
        return _Found(form, prefixes[0], len(numbers), own)
    return None


def read(values: dict[str, Any], weights: Weights, target: Target, folder: Path) -> Drafter:
    """Returns the layer of a folder, which may be the model's own; see `DrafterKind.read`."""
    where = str(folder / "config.json")
    found = _find(weights)
    if found is None:
        raise ModelError(
            f"{folder}: there is no layer for multi-token prediction: no tensor "
            "model.mtp_layers.0.input_proj, model.layers.N.eh_proj or mtp.fc"
        )
    _refuse_missing(found, weights, target.config, str(folder))
    refuse_quantised(values, where)
    _refuse_others(values, target.config, where)
    form, hidden = found.form, target.config.hidden_size
    alive: list[Array] = []
    tensors = Tensors(weights, alive, str(folder), prefixes=(found.prefix,))

    def norm(names: Sequence[str], width: int) -> Vector:
        stored = tensors.vector(names, width)
        return stored + 1 if form.from_one else stored

    fc = tensors.product([([form.fc], hidden)], 2 * hidden, bias=False)
    input_norm = norm([f"{form.layer}input_layernorm.weight"], hidden)
    layer = read_layer(
        tensors,
        [form.layer],
        LayerSizes.of_model(target.config),
        inputs=hidden,
        attention_norm=input_norm,
        norm=norm,
    )
    config = target.config
    return Drafter(
        kind="mtp",
        weights=FusedWeights(
            vector_norm=norm([f"{form.vector_norm}.weight"], hidden),
            state_norm=norm([f"{form.state_norm}.weight"], hidden),
            state_first=form.state_first,
            fc=fc,
            layers=[layer],
            output_norm=norm([f"{form.output_norm}.weight"], hidden),
            carries_normed=True,
            embedding=read_embedding(tensors, target, hidden, alive, where),
        ),
        vocabulary=read_vocabulary(tensors, target, hidden, None, alive, where, name=form.head),
        geometry=Geometry(
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            norm_epsilon=config.norm_epsilon,
            layers=[AttentionLayer()],
            rope=config.rope,
        ),
        taps=1,
        max_levels=MAX_LEVELS,
        alive=alive,
    )


def _refuse_missing(found: _Found, weights: Weights, config: ModelConfig, where: str) -> None:
    """Refuses layers of which a kind is missing here, by its name."""
    layer = re.escape(found.prefix + found.form.layer)
    missing = [
        kind
        for pattern, kind in _MISSING
        if any(re.match(layer + pattern, name) for name in found.names)
    ]
    query = f"{found.prefix}{found.form.layer}self_attn.q_proj.weight"
    gated = 2 * config.num_heads * config.head_dim
    if query in weights and weights.shape(query)[:1] == (gated,):
        missing.append("attention with an output gate")
    if any(config.layer_windows):
        missing.append("a sliding window")
    if found.layers > 1:
        missing.append(f"{found.layers} layers, each for another depth")
    if missing:
        raise ModelError(
            f"{where}: the layer for multi-token prediction under {found.prefix}* has "
            f"{', '.join(missing)}, which drafters here do not compute; choose drafter 'off'"
        )


def _refuse_others(values: dict[str, Any], config: ModelConfig, where: str) -> None:
    """Refuses a layer of a model of other sizes."""
    fields = Reader(values, where)
    for name, of_target in (
        ("vocab_size", config.vocabulary_size),
        ("hidden_size", config.hidden_size),
        ("intermediate_size", config.intermediate_size),
        ("num_attention_heads", config.num_heads),
        ("num_key_value_heads", config.num_kv_heads),
        ("head_dim", config.head_dim),
    ):
        if fields.count(name, of_target) != of_target:
            raise fields.refuse(name, f"{of_target}, the target's")
    family = FAMILIES[config.architecture]
    refuse_unknown(values, where, family)
    rope = RopeConfig.from_values(values, config.head_dim, theta=family.theta, where=where)
    if rope != config.rope:
        raise ModelError(f"{where}: positions are not rotated as the target's, {config.rope}")
