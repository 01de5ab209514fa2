"""Random tiny heads that join vector and state in one product, and plain torch that says what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from spectrie.model import load_runner
from spectrie.model.files.weights import Weights
from spectrie.model.runner.text_features import text_features
from tests.model.drafters.heads import CONFIG, HIDDEN, VOCABULARY, Cache, Reference

__all__ = ["EAGLE2", "FusedReference", "fused_tensors", "joined_answers"]

EAGLE2: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle"],
    "draft_vocab_size": None,
    "eagle_config": None,
}
"""Changes that make an EAGLE-2 head of the configuration of `heads`."""


def fused_tensors(
    config: dict[str, Any] = CONFIG, *, layers: int = 1, qkv_bias: bool = False, seed: int = 7
) -> dict[str, torch.Tensor]:
    """Returns `fc` with a bias, and layers by the names of EAGLE-2; further ones have a norm before them."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        # Nothing norms what the target's head takes: its logits should be of ordinary size.
        scale: float = 0.9 / columns**0.5
        return torch.randn(rows, columns, generator=generator) * scale

    def norm() -> torch.Tensor:
        return 1 + 0.3 * torch.randn(HIDDEN, generator=generator)

    width, inner = config["head_dim"], config["intermediate_size"]
    queries, keys = (config[f"num_{name}_heads"] * width for name in ("attention", "key_value"))
    tensors = {"fc.weight": matrix(HIDDEN, 2 * HIDDEN), "fc.bias": matrix(HIDDEN, 1)[:, 0] * 0.2}
    for index in range(layers):
        prefix = f"layers.{index}"
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            tensors[f"{prefix}.self_attn.{name}_proj.weight"] = matrix(rows, HIDDEN)
            if qkv_bias:
                tensors[f"{prefix}.self_attn.{name}_proj.bias"] = matrix(rows, 1)[:, 0] * 0.2
        tensors |= {
            f"{prefix}.self_attn.o_proj.weight": matrix(HIDDEN, queries),
            f"{prefix}.post_attention_layernorm.weight": norm(),
            f"{prefix}.mlp.gate_proj.weight": matrix(inner, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": matrix(inner, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": matrix(HIDDEN, inner),
        }
        if index:
            tensors[f"{prefix}.input_layernorm.weight"] = norm()
    return tensors


@dataclass
class FusedReference(Reference):
    """Such a head, one row at a time, in float32.

    Attributes:
        head: The target's LM head.
        norms: Which norms there are: `vector`, `state`, `layers.0.input_layernorm` and `output`, by these names
            in `tensors`.
        state_first: Whether the state comes before the vector.
        carries_normed: Whether a level continues from the state after the `output` norm.
        drops_first: Whether the vector of the first row is zeros, which is wrong.
    """

    head: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    norms: frozenset[str] = frozenset()
    state_first: bool = False
    carries_normed: bool = False
    drops_first: bool = False

    def log_probabilities(
        self, tokens: list[int], features: torch.Tensor, guesses: list[int]
    ) -> torch.Tensor:
        """See `Reference.log_probabilities`; features are as wide as a state."""
        cache: Cache = [[] for _ in range(self.config["num_hidden_layers"])]
        for position in range(1, len(tokens)):
            self._row(tokens[position], features[position - 1], position, cache)
        state, rows = features[-1], []
        for level, token in enumerate(guesses):
            stream = self._row(token, state, len(tokens) + level, cache)
            normed = self._maybe(stream, "output")
            rows.append((self.head @ normed).log_softmax(-1))
            state = normed if self.carries_normed else stream
        return torch.stack(rows)

    def _prefix(self, index: int) -> str:
        return f"layers.{index}"

    def _maybe(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self._norm(x, name) if name in self.norms else x

    def _row(self, token: int, state: torch.Tensor, position: int, cache: Cache) -> torch.Tensor:
        vector = self.embedding[token] * (0 if self.drops_first and position == 1 else 1)
        both = [self._maybe(vector, "vector"), self._maybe(state, "state")]
        x = torch.cat(both[::-1] if self.state_first else both)
        stream = self.tensors["fc.weight"] @ x + self.tensors.get("fc.bias", torch.zeros(HIDDEN))
        return self._layers(
            self._maybe(stream, "layers.0.input_layernorm"), stream, position, cache
        )


def joined_answers(
    target: Path,
    tensors: dict[str, torch.Tensor],
    dtype: str,
    tokens: list[int],
    guesses: list[int],
    *,
    raw_feature: bool = False,
    **form: Any,
) -> torch.Tensor:
    """Log-probabilities by plain torch, from the features of our own forward.

    Args:
        target: The model.
        tensors: As `fused_tensors` names them.
        dtype: Element type of both.
        tokens: The committed ones.
        guesses: A path of drafts.
        raw_feature: Takes the state before the target's last norm, which is wrong.
        form: Fields of `FusedReference`; `config` are changes.
    """
    runner = load_runner(target, dtype=dtype, num_pages=16, threads=2)
    layers = [2] if raw_feature else []
    (text,) = text_features(runner, [tokens], layers=layers, final_norm=not raw_feature, top=0)

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        # Norms and biases stay in single precision.
        return tensor.to(getattr(torch, dtype)).float() if tensor.dim() > 1 else tensor.float()

    weights = Weights(target)
    embedding, head = (
        rounded(weights.tensor(name, (VOCABULARY, HIDDEN)))
        for name in ("model.embed_tokens.weight", "lm_head.weight")
    )
    config = CONFIG | form.pop("config", {})
    own = {name: rounded(tensor) for name, tensor in tensors.items()}
    reference = FusedReference(own, embedding, config, head=head, **form)
    return reference.log_probabilities(tokens, text.features.float(), guesses)
