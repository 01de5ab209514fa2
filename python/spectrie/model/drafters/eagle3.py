"""EAGLE-3 heads by their published names.

The layer takes the token's normed vector and, behind it, the normed state; the first state is a product of
three outputs of the target's layers. Layouts: SafeAILab's EAGLE, SpecForge (`midlayer`), vLLM and
speculators (`layers.0`); all with or without `model.` before the names. A head with `mask_hidden` (P-EAGLE, as vLLM
reads it) answers all levels in one forward: behind the row of the last token lie rows of the token `ptd_token_id`, whose
feature is `mask_hidden`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.fields import DECODER_FIELDS, refuse_other_fields, refuse_quantised
from spectrie.model.decoder.packing import Layer, Product, Tensor, Vector, address
from spectrie.model.drafters.description import Drafter, Target
from spectrie.model.drafters.head import MAX_LEVELS, HeadReader, read_layer
from spectrie.model.files.weights import Weights

__all__ = ["ARCHITECTURES", "Eagle3Weights", "read"]

ARCHITECTURES = frozenset(
    """
    LlamaForCausalLMEagle3 Eagle3LlamaForCausalLM Eagle3Speculator Eagle3DraftModel PEagleDraftModel
    """.split()
)

_FIELDS = DECODER_FIELDS | frozenset(
    """
    bias draft_vocab_size eagle_aux_hidden_state_layer_ids eagle_config fc_norm has_no_defaults_at_init
    mask_token_id norm_before_residual norm_output num_aux_hidden_states parallel_drafting ptd_token_id
    qkv_bias speculators_config
    speculators_model_type speculators_version target_hidden_size transformer_layer_config
    """.split()
)
_EAGLE_FIELDS = frozenset({"eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state"})


@dataclass(frozen=True, slots=True)
class Parallel:
    """How all levels are computed at once.

    Attributes:
        block: Rows: the last token's, and one for each further level.
        mask_token: The token that stands for those that are to be guessed.
        mask_feature: The feature that stands for those that are not known.
    """

    block: int
    mask_token: int
    mask_feature: Tensor


@dataclass(frozen=True, slots=True)
class Eagle3Weights:
    """What the core packs.

    Attributes:
        tapped_layers: Layers of the target whose outputs make a feature; none for its last norm's.
        feature_norms: A norm for each part of the feature, or none.
        fc: Product from feature to state; None if the feature is the state.
        norm_before_residual: Whether the residual stream begins with the normed state.
        layers: The first takes vector and state; its attention norm is the vector's.
        output_norm: Norm before the head.
        embedding: Token vectors of its own.
        parallel: None if a level continues from the one before.
    """

    tapped_layers: list[int]
    feature_norms: list[Vector]
    fc: Product | None
    hidden_norm: Vector
    norm_before_residual: bool
    layers: list[Layer]
    output_norm: Vector | None
    embedding: Tensor | None
    parallel: Parallel | None


def read(values: dict[str, Any], weights: Weights, target: Target, folder: Path) -> Drafter:
    """Returns the head of a folder; see `DrafterKind.read`."""
    where = str(folder / "config.json")
    # Speculators keeps the layer's fields apart.
    values = {**(values.get("transformer_layer_config") or {}), **values}
    eagle = values.get("eagle_config") or {}
    if not isinstance(eagle, dict):
        raise ModelError(f"{where}: eagle_config is {eagle!r}, expected an object")
    refuse_quantised(values, where)
    refuse_other_fields(values, where, _FIELDS)
    refuse_other_fields(eagle, f"{where}: eagle_config", _EAGLE_FIELDS)
    return _Reader(values, eagle, weights, target, folder).drafter()


class _Reader(HeadReader):
    def __init__(
        self,
        values: dict[str, Any],
        eagle: dict[str, Any],
        weights: Weights,
        target: Target,
        folder: Path,
    ) -> None:
        super().__init__(values, weights, target, folder)
        self.eagle = eagle

    def drafter(self) -> Drafter:
        fields, tensors = self.fields, self.tensors
        layers = [self.layer(index) for index in range(self.num_layers)]
        fc, taps = self.fc()
        norms = self.feature_norms(len(taps))
        parallel = self.parallel(len(taps))
        output_norm = None
        if fields.switch("norm_output", default=True):
            output_norm = tensors.vector(["norm.weight"], self.hidden)
        weights = Eagle3Weights(
            tapped_layers=taps,
            feature_norms=norms,
            fc=fc,
            hidden_norm=tensors.vector(
                ["midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight"], self.hidden
            ),
            norm_before_residual=fields.switch("norm_before_residual"),
            layers=layers,
            output_norm=output_norm,
            embedding=self.embedding(),
            parallel=parallel,
        )
        return Drafter(
            kind="eagle3" if parallel is None else "peagle",
            weights=weights,
            vocabulary=self.vocabulary(),
            geometry=self.geometry()
            if parallel is None
            else replace(self.geometry(), positions_ahead=parallel.block),
            taps=max(1, len(taps)),
            max_levels=MAX_LEVELS,
            alive=self.alive,
        )

    def parallel(self, count: int) -> Parallel | None:
        """Returns what stands for what is not known; None for a head of one level behind the other."""
        name, is_named = "mask_hidden", self.fields.switch("parallel_drafting")
        if self.tensors.find(name) is None:
            if is_named or self.values.get("architectures") == ["PEagleDraftModel"]:
                raise ModelError(f"{self.where}: a head for parallel drafting has no tensor {name}")
            return None
        shape = self.tensors.shape(name)
        width = count * self.target.config.hidden_size
        if not count or shape[-1] != width or any(size != 1 for size in shape[:-1]):
            raise ModelError(
                f"{self.where}: {name} has shape {shape}, expected (1, 1, {width}), a feature"
            )
        tokens = {self.values.get(one) for one in ("ptd_token_id", "mask_token_id")} - {None}
        token = tokens.pop() if len(tokens) == 1 else None
        size = self.target.config.vocabulary_size
        if type(token) is not int or not 0 <= token < size:
            raise ModelError(
                f"{self.where}: ptd_token_id is {self.values.get('ptd_token_id')!r}, mask_token_id "
                f"{self.values.get('mask_token_id')!r}; expected one token from 0 to {size - 1}"
            )
        feature = self.tensors.take([name], shape).flatten()
        return Parallel(MAX_LEVELS, token, address(feature, self.alive))

    def layer(self, index: int) -> Layer:
        prefixes = ["midlayer.", "layers.0."] if index == 0 else [f"layers.{index}."]
        names = [f"{prefix}input_layernorm.weight" for prefix in prefixes]
        return read_layer(
            self.tensors,
            prefixes,
            self.sizes,
            inputs=2 * self.hidden if index == 0 else self.hidden,
            attention_norm=self.tensors.vector(names, self.hidden),
        )

    def fc(self) -> tuple[Product | None, list[int]]:
        """Returns the product from feature to state, and the tapped layers."""
        width = self.target.config.hidden_size
        if self.eagle.get("use_aux_hidden_state", True) is False:
            if self.tensors.find("fc.weight") is not None or self.hidden != width:
                raise ModelError(
                    f"{self.where}: use_aux_hidden_state is false, but there is an fc, or hidden_size "
                    f"{self.hidden} is not the target's {width}; expected neither"
                )
            return None, []
        out_features, in_features = self.tensors.shape("fc.weight")
        if out_features != self.hidden or in_features % width or not in_features:
            raise ModelError(
                f"{self.where}: fc.weight has shape ({out_features}, {in_features}), expected "
                f"({self.hidden}, k * {width}) for k layers of the target"
            )
        taps = self.tapped_layers(in_features // width)
        product = self.tensors.product(
            [(["fc"], self.hidden)], in_features, bias=self.fields.switch("bias")
        )
        return product, taps

    def tapped_layers(self, count: int) -> list[int]:
        """Returns the layers whose outputs make the feature, 0 = the first."""
        num_layers = self.target.config.num_layers
        name = "eagle_aux_hidden_state_layer_ids"
        # In `eagle_config` an id is that of the layer. Speculators counts the states between layers, of which
        # the first is the embedding; and newer files append the last, which the head does not read.
        ids = self.eagle.get(name)
        states = self.values.get(name)
        if ids is None and states is not None:
            if isinstance(states, list) and states[count:] == [num_layers]:
                states = states[:count]
            ids = [state - 1 for state in states] if _are_ids(states) else states
        if ids is None:
            ids = [1, num_layers // 2 - 1, num_layers - 4]
            if count != len(ids) or not 1 < ids[1] < ids[2]:
                raise ModelError(
                    f"{self.where}: {name} is missing, and a target of {num_layers} layers and an fc of "
                    f"{count} parts have no default; expected {count} layers in eagle_config"
                )
        if not _are_ids(ids) or len(ids) != count or not all(0 <= i < num_layers for i in ids):
            raise ModelError(
                f"{self.where}: {name} is {self.eagle.get(name, states)!r}, expected {count} layers "
                f"below {num_layers}, as many as fc.weight takes"
            )
        return list(ids)

    def feature_norms(self, count: int) -> list[Vector]:
        if not self.fields.switch("fc_norm"):
            return []
        width = self.target.config.hidden_size
        return [self.tensors.vector([f"fc_norm.{part}.weight"], width) for part in range(count)]


def _are_ids(ids: Any) -> bool:
    return isinstance(ids, list) and all(type(number) is int for number in ids)
