"""Ways in which one trained head can name tokens: a cut of the vocabulary, all of it, or candidates of low rank."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from spectrie.training.kinds.eagle3 import Eagle3
from spectrie.training.low_rank import CANDIDATES, LowRank
from spectrie.training.target import Target

__all__ = ["Form", "load_head", "ranked", "write_form"]

_CUT = ("d2t", "t2d")


@dataclass(frozen=True, slots=True)
class Form:
    """One way.

    Attributes:
        name: As the table has it.
        size: Tokens and width of the target's head.
        tokens: int64, those of a cut; None: all.
        low_rank: Finds those that are weighed; None: all are.
    """

    name: str
    size: tuple[int, int]
    tokens: torch.Tensor | None = None
    low_rank: LowRank | None = None

    @property
    def weights(self) -> int:
        """Numbers that are read to name the token of one row."""
        vocabulary, hidden = self.size
        if self.low_rank is not None:
            rank = len(self.low_rank.down)
            return rank * (hidden + vocabulary) + min(CANDIDATES, vocabulary) * hidden
        return (vocabulary if self.tokens is None else len(self.tokens)) * hidden

    def weighed(self, states: torch.Tensor) -> torch.Tensor:
        """Which tokens are weighed exactly at each row: [N, hidden] to bool [N, vocabulary]."""
        vocabulary, _ = self.size
        if self.low_rank is not None:
            mask = torch.zeros(len(states), vocabulary, dtype=torch.bool)
            return mask.scatter_(1, self.low_rank.found(states), value=True)
        named = torch.ones(vocabulary, dtype=torch.bool)
        if self.tokens is not None:
            named = torch.zeros_like(named)
            named[self.tokens] = True
        return named.expand(len(states), -1)


def load_head(folder: Path, target: Target) -> Eagle3:
    """Returns an EAGLE-3 head of a folder as it was at the end of its training.

    Args:
        folder: The head's; it was trained by `spectrie train-head`, with a cut.
        target: The model.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    taps = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    stored = load_file(folder / "model.safetensors")
    vocabulary = torch.arange(len(stored["d2t"])) + stored["d2t"]
    head = Eagle3(target, taps, vocabulary, warm=False)
    _, tensors = head.published()
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name not in _CUT:
                tensor.copy_(stored[name])
    return head


def ranked(first: torch.Tensor, answers: Iterable[int], vocabulary: int) -> torch.Tensor:
    """All tokens, int64: those of a cut first, the commonest of some answers first among them and among the others,
    and then the lowest.

    Args:
        first: int64, the cut.
        answers: Tokens of answers.
        vocabulary: Tokens of the target.
    """
    counts, own = Counter(answers), set(first.tolist())
    return torch.tensor(
        sorted(range(vocabulary), key=lambda token: (token not in own, -counts[token], token))
    )


def write_form(shipped: Path, form: Form, folder: Path) -> Path:
    """Writes a head that names tokens in another way, as a server loads it; returns its folder.

    Args:
        shipped: Folder of the head that it is made of.
        form: The way.
        folder: Where to write; made if it is missing.
    """
    vocabulary, _ = form.size
    values = json.loads((shipped / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(shipped / "model.safetensors")
    for name in _CUT:
        tensors.pop(name, None)
    values["draft_vocab_size"] = vocabulary
    if form.tokens is not None:
        chosen = form.tokens.sort().values
        values["draft_vocab_size"] = len(chosen)
        tensors["d2t"] = chosen - torch.arange(len(chosen))
    if form.low_rank is not None:
        for name in ("down", "basis"):
            factor: torch.Tensor = getattr(form.low_rank, name)
            tensors[f"low_rank.{name}.weight"] = factor.to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder
