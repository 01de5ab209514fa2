"""What a head takes from its target: shape, embedding, LM head and one layer to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from spectrie.errors import ModelError
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.layout import EMBEDDING, FINAL_NORM, HEAD
from spectrie.model.files.weights import Weights

__all__ = ["Target"]

_ROPE = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor")


class Target:
    """Tensors of the target, float32, as the checkpoint names them.

    Attributes:
        folder: The model's folder.
        config: Its configuration.
        embedding: [vocabulary, hidden].
        head: [vocabulary, hidden]; the embedding, if it is tied.
        final_norm: [hidden].
        values: Its `config.json`.
        rope: Fields of it that say how positions are rotated.
    """

    def __init__(self, folder: Path) -> None:
        """Reads the ends of the model.

        Raises:
            ModelError: The model cannot be read, or no head can be trained for its layers.
        """
        self.folder = folder
        self.config = config = ModelConfig.from_folder(folder)
        for name, present in (
            ("a mixture of experts", config.mixture is not None),
            ("biases", config.qkv_bias or config.output_bias or config.mlp_bias),
            ("norms of query and key heads", config.head_norm),
            ("layers without rotation", not all(config.layer_rotary)),
        ):
            if present:
                raise ModelError(f"{folder}: heads are not trained for models with {name} yet")
        self._weights = Weights(folder)
        shape = (config.vocabulary_size, config.hidden_size)
        self.embedding = self._weights.tensor(EMBEDDING, shape).float()
        self.head = self.embedding
        if not config.tied_head:
            self.head = self._weights.tensor(HEAD, shape).float()
        self.values: dict[str, Any] = json.loads(
            (folder / "config.json").read_text(encoding="utf-8")
        )
        self.rope: dict[str, Any] = {
            name: self.values[name] for name in _ROPE if self.values.get(name) is not None
        }
        self.final_norm = self._weights.tensor(FINAL_NORM, (config.hidden_size,)).float()

    def layer(self, index: int) -> dict[str, torch.Tensor]:
        """Returns the weights of a layer by their names inside it, such as `mlp.up_proj.weight`.

        Raises:
            ModelError: One is missing or has another shape.
        """
        config = self.config
        hidden, inner = config.hidden_size, config.intermediate_size
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        prefix = f"model.layers.{index}."
        return {
            f"{name}.weight": self._weights.tensor(f"{prefix}{name}.weight", shape).float()
            for name, shape in shapes.items()
        }
