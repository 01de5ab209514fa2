"""The chain: a target, then heads of all kinds, trained from nothing once for all tests of this folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
import torch

from spectrie._core import Tokenizer
from spectrie.cli import main
from spectrie.llm import LLM
from spectrie.training.export import export_head
from spectrie.training.kinds.base import Head
from spectrie.training.kinds.registry import KINDS
from spectrie.training.target import Target
from tests.training.chain.accepted import LEVELS, Answered, Counts, Text, counted
from tests.training.chain.small_model import DRAFT_MODEL, TARGET, VOCABULARY, source, write_model

_PROMPT_TOKENS = 32
_ANSWER_TOKENS = 64
_LEARNED_TEXTS = 480
_JUDGED_TEXTS = 24
_EPOCHS = {"dflash": 6, "dflash2": 2}
"""Passes over the data; others take three. Masks have more to learn, but where a selector reads the token before."""
_RATE = 0.004


_DEEP = frozenset({"eagle2", "peagle", "dflash", "dflash2"})
"""Each takes a minute, and is much like one of the others: their forwards have tests of their own."""


def depth(kind: str) -> list[pytest.MarkDecorator]:
    """The marks of a test that trains a head of this kind."""
    return [pytest.mark.deep] if kind in _DEEP else []


@dataclass
class Chain:
    """What was trained, in one folder; each part when it is asked for first."""

    folder: Path
    _counts: dict[Path, Counts] = field(default_factory=dict)

    @cached_property
    def model(self) -> Path:
        """The target."""
        return write_model(self.folder / "target", TARGET)

    @cached_property
    def data(self) -> Path:
        """Answers of the target to beginnings of the text that it learned, a file that `train-head` reads."""
        path = self.folder / "answers.jsonl"
        texts = self._answers(_pieces(self.model, is_unseen=False)[:_LEARNED_TEXTS])
        lines = ({"prompt_ids": text.prompt, "output_ids": text.answer} for text in texts)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    @cached_property
    def answered(self) -> Answered:
        """Answers to text that neither target nor heads have seen."""
        pieces = _pieces(self.model, is_unseen=True)[:_JUDGED_TEXTS]
        return Answered.of(self.model, self._answers(pieces))

    def _answers(self, prompts: list[list[int]]) -> list[Text]:
        with LLM(self.model, dtype="float32", threads=1, num_pages=256) as llm:
            found = llm.generate(
                prompt_token_ids=prompts,
                max_tokens=_ANSWER_TOKENS,
                temperature=0.0,
                ignore_eos=True,
            )
        return [
            Text(list(prompt), list(one.token_ids))
            for prompt, one in zip(prompts, found, strict=True)
        ]

    def head(self, kind: str) -> Path:
        """Folder of a head, trained by the command; or of the draft model, trained on the text."""
        output = self.folder / kind
        if output.exists():
            return output
        if kind == "draft_model":
            return write_model(output, DRAFT_MODEL)
        arguments = ["--kind", kind, "--data", str(self.data), "--levels", str(LEVELS)]
        arguments += [
            "--epochs",
            str(_EPOCHS.get(kind, 3)),
            "--learning-rate",
            str(_RATE),
            "--threads",
            "1",
        ]
        assert main(["train-head", str(self.model), "--output", str(output), *arguments]) == 0
        return output

    def untrained(self, kind: str) -> Path:
        """The same before its first step."""
        output = self.folder / f"untrained {kind}"
        if output.exists():
            return output
        if kind == "draft_model":
            return write_model(output, DRAFT_MODEL, is_trained=False)
        head = self.module(kind)
        export_head(
            head,
            output,
            dtype=torch.bfloat16,
            provenance={"model_hash": "of a small target", "namespaces": None},
        )
        return output

    def module(self, kind: str) -> Head:
        """A head as a module, before its first step."""
        torch.manual_seed(0)
        target, made = Target(self.model), KINDS[kind]
        taps = made.taps(target.config.num_layers)
        return made.make(target, taps, torch.arange(VOCABULARY), LEVELS)

    def trained_module(self, kind: str) -> Head:
        """The head as a module, with the weights that were stored."""
        head = self.module(kind)
        state = torch.load(self.head(kind).with_name(f"{kind}.work") / "checkpoint.pt")
        rounded = {name: value.bfloat16().float() for name, value in state["best"].items()}
        head.load_state_dict(rounded)
        return head

    def counts(self, drafter: Path) -> Counts:
        """What a drafter gets right along the answers."""
        if drafter not in self._counts:
            self._counts[drafter] = counted(self.answered, drafter)
        return self._counts[drafter]


def _pieces(model: Path, *, is_unseen: bool) -> list[list[int]]:
    """Beginnings of texts, spread evenly over the source files."""
    tokenizer = Tokenizer.from_folder(model)
    found = []
    for text in source(is_unseen=is_unseen):
        ids = tokenizer.encode(text)
        wanted = (_JUDGED_TEXTS if is_unseen else _LEARNED_TEXTS) // len(
            source(is_unseen=is_unseen)
        )
        step = (len(ids) - _PROMPT_TOKENS) // wanted
        found += [ids[at * step : at * step + _PROMPT_TOKENS] for at in range(wanted)]
    return found


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    torch.set_num_threads(1)
    return Chain(tmp_path_factory.mktemp("chain"))
