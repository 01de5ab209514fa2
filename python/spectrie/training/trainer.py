"""The training loop: steps, looks at held-out text, checkpoints."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spectrie.printing.progress import Progress
from spectrie.training.batches import Batch, batches, collate, shuffled
from spectrie.training.checkpoint import load_state, save_state
from spectrie.training.evaluation import HeldOut, evaluate, found_share, second_moment
from spectrie.training.features import FeatureCache
from spectrie.training.kinds.base import Head
from spectrie.training.low_rank import fit_low_rank
from spectrie.training.settings import TrainSettings
from spectrie.training.texts.samples import Sample

__all__ = ["Look", "Trainer"]

_SAVE_EVERY_S = 20.0
_FIRST_COPIED_RATE = 0.1
_FITTED_STATES = 1 << 16
"""What factors of low rank are fitted to: states of trained samples, at all levels."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the held-out samples.

    Attributes:
        step: Steps done before it.
        held_out: Results.
    """

    step: int
    held_out: HeldOut


class Trainer:
    """Trains a head; continues from its last checkpoint, to the same bytes as without a break.

    Bytes are equal on one machine with one number of threads.
    """

    def __init__(
        self,
        head: Head,
        samples: Sequence[Sample],
        cache: FeatureCache,
        *,
        held_out: Sequence[int],
        settings: TrainSettings,
        checkpoint: Path,
    ) -> None:
        """Prepares a training, or continues the one of the checkpoint.

        Args:
            head: As it is before the first step.
            samples: All samples; those without an answer are left out.
            cache: Their features, complete.
            held_out: Indices of samples that are only looked at.
            settings: How to train.
            checkpoint: File of the training's state.

        Raises:
            ConfigError: The checkpoint is damaged.
        """
        self.head = head
        self._samples, self._cache, self._settings = samples, cache, settings
        self._checkpoint = checkpoint
        kept = set(held_out)
        lengths = [len(sample.token_ids) for sample in samples]
        used = [index for index, sample in enumerate(samples) if sample.num_answer_tokens]
        self._trained = [index for index in used if index not in kept]
        self._looked = [index for index in used if index in kept]
        self._lengths = lengths
        order = [list(self._epoch(epoch)) for epoch in range(settings.epochs)]
        self._steps = [group for epoch in order for group in epoch]
        self._look_at = self._look_steps([len(epoch) for epoch in order])
        self._report: Callable[[str], None] = _say_nothing
        self.step = 0
        self.looks: list[Look] = []
        self._best: dict[str, torch.Tensor] | None = None
        self._optimizer = self._make_optimizer()
        self._key = self._training_key()
        self._saved = time.monotonic()
        self._restore()

    @property
    def total_steps(self) -> int:
        """Steps of a training that does not end early."""
        return len(self._steps)

    def _epoch(self, epoch: int) -> Iterator[list[int]]:
        lengths = [self._lengths[index] for index in self._trained]
        settings = self._settings
        for group in shuffled(lengths, settings.batch_tokens, settings.seed, epoch):
            yield [self._trained[place] for place in group]

    def _make_optimizer(self) -> torch.optim.AdamW:
        decay = self._settings.weight_decay
        groups = []
        for parameters, copied in ((self.head.fresh(), False), (self.head.copied(), True)):
            for matrices in (True, False):
                chosen = [one for one in parameters if (one.dim() > 1) == matrices]
                if chosen:
                    rate = decay if matrices else 0.0
                    groups.append({"params": chosen, "weight_decay": rate, "copied": copied})
        return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95))

    def _training_key(self) -> str:
        digest = hashlib.sha256(repr(sorted(asdict(self._settings).items())).encode())
        answers = [sample.answers for sample in self._samples]
        vocabulary = self.head.vocabulary.tolist()
        facts = (self._cache.key, answers, self._looked, self.head.taps, vocabulary)
        digest.update(repr(facts).encode())
        if self.head.common is not None:
            digest.update(f"all beside {self.head.common.tolist()}".encode())
        for name, value in self.head.state_dict().items():
            digest.update(name.encode() + value.numpy().tobytes())
        return digest.hexdigest()

    def _restore(self) -> None:
        state = load_state(self._checkpoint, self._key)
        if state is None:
            return
        self.head.load_state_dict(state["head"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self._best = state["best"]
        self.looks = [
            Look(step, HeldOut(*(tuple(values) for values in results)))
            for step, results in state["looks"]
        ]

    def save(self) -> None:
        """Writes the checkpoint."""
        looks = [
            (look.step, [list(values) for values in asdict(look.held_out).values()])
            for look in self.looks
        ]
        state: dict[str, Any] = {
            "key": self._key,
            "head": self.head.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "best": self._best,
            "looks": looks,
        }
        save_state(self._checkpoint, state)
        self._saved = time.monotonic()

    def run(self, report: Callable[[str], None] | None = None) -> HeldOut:
        """Trains to the end; leaves the head with the weights that were best, and returns their results.

        Args:
            report: Receives a line after each look.
        """
        self._report = report or _say_nothing
        with Progress("training", self.total_steps) as progress:
            while self.step < self.total_steps and not self._is_stale():
                loss = self.advance(1)
                if time.monotonic() - self._saved > _SAVE_EVERY_S:
                    self.save()
                progress.show(self.step, f"loss {loss:.3f}, held-out {self.looks[-1].held_out}")
        self.save()
        if self._best is not None:
            self.head.load_state_dict(self._best)
        return min((look.held_out for look in self.looks), key=self._loss_of)

    def fit(self, head: torch.Tensor, rank: int) -> tuple[HeldOut, float]:
        """Gives the trained head factors of low rank, fitted to its states of trained samples.

        Args:
            head: The target's, [vocabulary, hidden].
            rank: Their rank.

        Returns:
            The results with them, and the share of the held-out answers' tokens that are among those found.
        """
        trained = (self._batch(group) for group in self._epoch(0))
        with self._precision():
            moment = second_moment(self.head, trained, _FITTED_STATES)
        self.head.low_rank = found = fit_low_rank(head, moment, rank)
        with self._precision():
            result = evaluate(self.head, self._held_out())
            return result, found_share(self.head, found, self._held_out())

    def advance(self, steps: int) -> float:
        """Does the next steps, without a checkpoint; returns the loss of the last."""
        if not self.looks:
            self._look()
        loss = math.nan
        for group in self._steps[self.step : self.step + steps]:
            loss = self._train(self._batch(group))
            self.step += 1
            if self.step in self._look_at:
                self._look()
        return loss

    def _look_steps(self, epochs: Sequence[int]) -> set[int]:
        """Steps after which the held-out samples are looked at, the last one included."""
        parts = self._settings.evaluations
        found, done = {sum(epochs)}, 0
        for length in epochs:
            found |= {done + length * part // parts for part in range(1, parts + 1)}
            done += length
        return found - {0}

    def _batch(self, group: Sequence[int]) -> Batch:
        levels = self._settings.levels
        # Equal steps choose equally, also behind a kill.
        return collate(self._samples, self._cache, group, levels, seed=self.step)

    def _train(self, batch: Batch) -> float:
        settings = self._settings
        with self._precision():
            losses = self.head.losses(batch)
        rows = max(len(batch.levels[0].rows), 1)
        total = torch.stack(
            [loss * settings.level_weight**level for level, loss in enumerate(losses)]
        ).sum()
        self._optimizer.zero_grad(set_to_none=True)
        (total / rows).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.head.parameters(), settings.gradient_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(group["copied"])
        self._optimizer.step()
        return float(total.detach()) / rows

    def _precision(self) -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=self._settings.bfloat16)

    def _rate(self, copied: bool) -> float:
        settings, total = self._settings, max(self.total_steps, 1)
        done = (self.step + 1) / total
        rate = settings.learning_rate * min(1.0, done / max(settings.warm_up, 1e-9))
        if copied:
            rise = min(1.0, done / max(settings.copied_warm_up, 1e-9))
            rate *= _FIRST_COPIED_RATE + (1 - _FIRST_COPIED_RATE) * rise
        return rate * (0.5 + 0.5 * math.cos(math.pi * min(done, 1.0)))

    def _look(self) -> None:
        with self._precision():
            found = evaluate(self.head, self._held_out())
        best = min((self._loss_of(look.held_out) for look in self.looks), default=math.inf)
        if self._loss_of(found) < best:
            self._best = {name: value.clone() for name, value in self.head.state_dict().items()}
        self.looks.append(Look(self.step, found))
        self._report(
            f"step {self.step} of {self.total_steps}: held-out loss {self._loss_of(found):.3f}, "
            f"right by level {found}"
        )

    def _held_out(self) -> Iterator[Batch]:
        lengths = [self._lengths[index] for index in self._looked]
        groups = batches(lengths, self._settings.batch_tokens)
        return (self._batch([self._looked[place] for place in group]) for group in groups)

    def _loss_of(self, held_out: HeldOut) -> float:
        return held_out.weighted(self._settings.level_weight)

    def _is_stale(self) -> bool:
        losses = [self._loss_of(look.held_out) for look in self.looks]
        since = len(losses) - 1 - losses.index(min(losses)) if losses else 0
        return since >= self._settings.patience


def _say_nothing(line: str) -> None:
    """Takes a line of a training that nobody watches."""
