"""Random tiny EAGLE-3 heads in their published form, and plain torch that says what they answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests import tiny_model
from tests.tiny_model import Shape

__all__ = [
    "CONFIG",
    "HIDDEN",
    "TAPS",
    "VOCABULARY",
    "Cache",
    "Reference",
    "head_tensors",
    "tiny_head_tensors",
    "write_head",
    "write_tiny_head",
]

HIDDEN = 48
VOCABULARY = 200
DRAFTED = 60
TAPS = [0, 2, 1]
HEADS, KV_HEADS, HEAD_DIM, INNER = 4, 2, 12, 64

Cache = list[list[tuple[torch.Tensor, torch.Tensor]]]
"""Keys and values of each layer."""

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "draft_vocab_size": DRAFTED,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5000.0,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": TAPS, "use_aux_hidden_state": True},
    "torch_dtype": "float32",
}


def head_tensors(layers: int = 1, seed: int = 5) -> dict[str, torch.Tensor]:
    """Returns tensors by the names of SpecForge; further layers by those of vLLM."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        scale: float = 1.5 / columns**0.5
        return torch.randn(rows, columns, generator=generator) * scale

    def norm() -> torch.Tensor:
        return 1 + 0.3 * torch.randn(HIDDEN, generator=generator)

    ids = torch.randperm(VOCABULARY, generator=generator)[:DRAFTED].sort().values
    mask = torch.zeros(VOCABULARY, dtype=torch.bool)
    mask[ids] = True
    tensors = {
        "fc.weight": matrix(HIDDEN, 3 * HIDDEN),
        "midlayer.hidden_norm.weight": norm(),
        "norm.weight": norm(),
        "lm_head.weight": matrix(DRAFTED, HIDDEN) * 3,
        "d2t": ids - torch.arange(DRAFTED),
        "t2d": mask,
    }
    for index in range(layers):
        prefix = "midlayer" if index == 0 else f"layers.{index}"
        inputs = 2 * HIDDEN if index == 0 else HIDDEN
        queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
        tensors |= {
            f"{prefix}.input_layernorm.weight": norm(),
            f"{prefix}.post_attention_layernorm.weight": norm(),
            f"{prefix}.self_attn.q_proj.weight": matrix(queries, inputs),
            f"{prefix}.self_attn.k_proj.weight": matrix(keys, inputs),
            f"{prefix}.self_attn.v_proj.weight": matrix(keys, inputs),
            f"{prefix}.self_attn.o_proj.weight": matrix(HIDDEN, queries),
            f"{prefix}.mlp.gate_proj.weight": matrix(INNER, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": matrix(INNER, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": matrix(HIDDEN, INNER),
        }
    return tensors


def write_head(
    folder: Path,
    tensors: dict[str, torch.Tensor] | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    origin: str | None = None,
    **changes: Any,
) -> Path:
    """Writes a head with changes of its configuration, of which None removes a field, and with an origin."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in (CONFIG | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = head_tensors() if tensors is None else tensors
    stored = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    metadata = {"format": "pt"} | ({} if origin is None else {"spectrie": origin})
    save_file(stored, folder / "model.safetensors", metadata=metadata)
    return folder


def tiny_head_tensors() -> dict[str, torch.Tensor]:
    """Returns a head for `tiny_model`: narrower than its target, with token vectors of its own."""
    tensors = head_tensors()
    del tensors["t2d"]
    generator = torch.Generator().manual_seed(6)
    tensors["fc.weight"] = torch.randn(HIDDEN, 2 * Shape().hidden, generator=generator)
    tensors["embed_tokens.weight"] = torch.randn(
        tiny_model.VOCABULARY_SIZE, HIDDEN, generator=generator
    )
    return tensors


def write_tiny_head(folder: Path, tensors: dict[str, torch.Tensor] | None = None) -> Path:
    """Writes a head for `tiny_model`, `tiny_head_tensors` by default, and returns its folder."""
    return write_head(
        folder,
        tiny_head_tensors() if tensors is None else tensors,
        vocab_size=tiny_model.VOCABULARY_SIZE,
        draft_vocab_size=DRAFTED,
        eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1]},
    )


@dataclass
class Reference:
    """An EAGLE-3 head, one row at a time, in float32.

    Attributes:
        tensors: As `head_tensors` names them.
        embedding: The target's token vectors, [vocabulary, hidden].
        wrong: A wrong form of the forward: `order`, `residual`, `fc_again` or `state_normed`; of a head with
            `mask_hidden` also `continued`, `guessed`, `raw_mask` or `in_place`.
    """

    tensors: dict[str, torch.Tensor]
    embedding: torch.Tensor
    config: dict[str, Any] = field(default_factory=lambda: CONFIG)
    wrong: str = ""

    def log_probabilities(
        self, tokens: list[int], features: torch.Tensor, guesses: list[int]
    ) -> torch.Tensor:
        """Returns log-probabilities of all of the target's tokens behind each guess, [levels, vocabulary].

        Args:
            tokens: The committed ones.
            features: Of each of them, [T, 3 * hidden].
            guesses: A path of drafts; the first is the last emitted token.
        """
        layers = range(self.config["num_hidden_layers"])
        cache: Cache = [[] for _ in layers]
        rows = []
        for position in range(1, len(tokens)):
            self._row(tokens[position], self._first(features[position - 1]), position, cache)
        state = self._first(features[-1])
        for level, token in enumerate(guesses):
            mask = self.tensors.get("mask_hidden")
            if level and mask is not None:
                # Rows of what stands for the unknown, each behind the ones before it.
                token = token if self.wrong == "guessed" else self.config["ptd_token_id"]
                if self.wrong == "raw_mask":
                    state = mask.flatten()[: len(state)]
                elif self.wrong != "continued":
                    state = self._first(mask.flatten())
            if level and self.wrong == "fc_again":
                state = self._first(torch.cat([state] * 3))
            position = len(tokens) + (level if self.wrong != "in_place" else 0)
            state = self._row(token, state, position, cache)
            normed = self._norm(state, "norm")
            logits = self.tensors["lm_head.weight"] @ normed
            if self.wrong == "state_normed":
                state = normed
            offsets = self.tensors["d2t"]
            every = torch.full((VOCABULARY,), float("-inf"))
            ids = offsets.abs() if self.wrong == "ids" else torch.arange(len(offsets)) + offsets
            every[ids] = logits.log_softmax(-1)
            rows.append(every)
        return torch.stack(rows)

    def _first(self, feature: torch.Tensor) -> torch.Tensor:
        if self.config.get("fc_norm"):
            parts = feature.chunk(3)
            feature = torch.cat([self._norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)])
        return self.tensors["fc.weight"] @ feature

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = torch.rsqrt(x.square().mean() + self.config["rms_norm_eps"])
        return x * scale * self.tensors[f"{name}.weight"]

    def _row(
        self,
        token: int,
        state: torch.Tensor,
        position: int,
        cache: Cache,
    ) -> torch.Tensor:
        normed = self._norm(state, "midlayer.hidden_norm")
        before = self.config.get("norm_before_residual", False) != (self.wrong == "residual")
        residual = normed if before else state
        vector = self._norm(self.embedding[token], "midlayer.input_layernorm")
        x = torch.cat([normed, vector] if self.wrong == "order" else [vector, normed])
        return self._layers(x, residual, position, cache)

    def _prefix(self, index: int) -> str:
        return "midlayer" if index == 0 else f"layers.{index}"

    def _layers(
        self, x: torch.Tensor, residual: torch.Tensor, position: int, cache: Cache
    ) -> torch.Tensor:
        """From what the first layer's attention takes to the residual stream behind the last."""
        for index, entries in enumerate(cache):
            prefix = self._prefix(index)
            if index:
                x = self._norm(residual, f"{prefix}.input_layernorm")
            residual = residual + self._attention(prefix, x, position, entries)
            normed = self._norm(residual, f"{prefix}.post_attention_layernorm")
            gate = self.tensors[f"{prefix}.mlp.gate_proj.weight"] @ normed
            up = self.tensors[f"{prefix}.mlp.up_proj.weight"] @ normed
            inner = torch.nn.functional.silu(gate) * up
            residual = residual + self.tensors[f"{prefix}.mlp.down_proj.weight"] @ inner
        return residual

    def _attention(
        self,
        prefix: str,
        x: torch.Tensor,
        position: int,
        entries: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        def heads(name: str) -> torch.Tensor:
            names = (f"{prefix}.self_attn.{name}_proj.{part}" for part in ("weight", "bias"))
            weight, bias = (self.tensors.get(name) for name in names)
            assert weight is not None
            return (weight @ x + (0 if bias is None else bias)).view(-1, self.config["head_dim"])

        query, key = self._rotated(heads("q"), position), self._rotated(heads("k"), position)
        entries.append((key, heads("v")))
        window = self.config.get("sliding_window") or len(entries)
        keys = torch.stack([key for key, _ in entries[-window:]])
        values = torch.stack([value for _, value in entries[-window:]])
        num_heads, head_dim = len(query), query.shape[1]
        group = num_heads // len(key)
        attended = []
        for head in range(num_heads):
            scores = keys[:, head // group] @ query[head] * head_dim**-0.5
            attended.append(scores.softmax(-1) @ values[:, head // group])
        return self.tensors[f"{prefix}.self_attn.o_proj.weight"] @ torch.cat(attended)

    def _rotated(self, heads: torch.Tensor, position: int) -> torch.Tensor:
        width = heads.shape[1]
        exponents = torch.arange(0, width, 2) / width
        angles = position / self.config["rope_theta"] ** exponents
        low, high = heads.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)
