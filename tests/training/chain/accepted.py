"""What a drafter gets right along answers of its target, counted: from the forward and the levels that serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.draft.heads.contenders import BlockTree
from bench.draft.recording.answers import record_answers
from bench.draft.recording.head_file import HeadAnswers
from bench.draft.rivals.base import Setup
from bench.draft.trace import Request
from bench.draft.walk import replay
from spectrie import _core
from spectrie.model import load_runner
from spectrie.model.runner.text_features import text_features
from spectrie.training.evaluation import HeldOut

__all__ = ["Answered", "Counts", "Text", "counted"]

LEVELS = 3
_PAGES = 64
_TOP = 8
_NODES = 16


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt and what the target answers greedily."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True, slots=True)
class Answered:
    """Texts of a target, with its likeliest tokens behind each of their tokens, as a server keeps them."""

    model: Path
    texts: list[Text]
    topk: list[tuple[list[list[int]], list[list[float]]]]

    @classmethod
    def of(cls, model: Path, texts: Sequence[Text]) -> Answered:
        runner = load_runner(model, num_pages=_PAGES, dtype="float32", threads=1)
        whole = [[*text.prompt, *text.answer] for text in texts]
        topk = [
            (found.top_ids.tolist(), found.top_log_probabilities.exp().tolist())
            for found in text_features(runner, whole, layers=[0], top=_TOP)
        ]
        runner.close()
        return cls(model, list(texts), topk)

    def replay(self, head: str, answers: Sequence[HeadAnswers] | None = None) -> float:
        """Accepted tokens per step, of 16 nodes at most. Levels cost nothing.

        Args:
            head: "off" drafts from text and the target's likeliest tokens, "only" from `answers`, "on" from all.
            answers: A drafter's, of each text.
        """
        replay = _core.Replay(head=head, head_levels=LEVELS, head_rows=8, head_least_gain=0.001)
        for index, text in enumerate(self.texts):
            given = None if answers is None else answers[index]
            replay.push(text.prompt, text.answer, topk=self.topk[index], head=given)
        accepted: float = replay.report()["accepted_per_step"]
        return accepted


@dataclass(frozen=True, slots=True)
class Counts:
    """What a drafter was worth.

    Attributes:
        alone: Accepted tokens per step, drafting from it alone.
        mixed: The same, drafting from text and the target's likeliest tokens too.
        block_tree: The same of DDTree at as many nodes, which takes answers to depend on the depth alone.
        right: Shares of its likeliest guesses that were right, by level.
        guesses: Its likeliest guess of each level up to the first wrong one, at each place of the answers in order.
    """

    alone: float
    mixed: float
    block_tree: float
    right: HeldOut
    guesses: tuple[tuple[int, ...], ...]

    @property
    def chain(self) -> float:
        """Tokens that a chain of the levels gets right, on average."""
        return self.right.chain_length


def counted(answered: Answered, drafter: Path) -> Counts:
    """Loads a drafter beside the target and asks it along all texts."""
    runner = load_runner(
        answered.model, num_pages=_PAGES, dtype="float32", threads=1, drafter=drafter
    )
    sources = _core.Replay()
    found = []
    for text, topk in zip(answered.texts, answered.topk, strict=True):
        names = sources.names(text.prompt, text.answer, topk)
        found.append(record_answers(runner, text.prompt, text.answer, names))
    runner.close()
    right, guesses = _right(answered.texts, found)
    return Counts(
        alone=answered.replay("only", found),
        mixed=answered.replay("on", found),
        block_tree=_block_tree(answered.texts, found),
        right=right,
        guesses=guesses,
    )


def _block_tree(texts: Sequence[Text], found: Sequence[HeadAnswers]) -> float:
    setup = Setup(nodes=_NODES)
    requests = [Request(text.prompt, text.answer) for text in texts]
    tree = BlockTree(setup, found, levels=LEVELS)
    accepted: float = replay(tree, requests, setup).report()["accepted_per_step"]
    return accepted


def _right(
    texts: Sequence[Text], found: Sequence[HeadAnswers]
) -> tuple[HeldOut, tuple[tuple[int, ...], ...]]:
    asked, right, guesses = [0] * LEVELS, [0] * LEVELS, []
    for text, answers in zip(texts, found, strict=True):
        for first, levels in enumerate(answers):
            guessed = []
            for level, (likeliest, *_) in enumerate(levels[:LEVELS]):
                asked[level] += 1
                guessed.append(likeliest[0])
                if likeliest[0] != text.answer[first + level]:
                    break
                right[level] += 1
            guesses.append(tuple(guessed))
    shares = tuple(one / max(all_, 1) for one, all_ in zip(right, asked, strict=True))
    return HeldOut((), shares, tuple(asked)), tuple(guesses)
