"""The runner: computes the logits of a plan and reports the arithmetic they depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrie.model import machine
from spectrie.model.decoder.cpu import CpuDecoder
from spectrie.model.drafters import Answers, DraftPlan
from spectrie.model.files.measurements import Measurements
from spectrie.model.plan import Forward, PlanArrays, StepResult
from spectrie.model.runner.costs import CostTimer
from spectrie.model.runner.drafting import DrafterInfo, Drafting
from spectrie.model.runner.info import ContextCost, RunnerInfo
from spectrie.model.runner.step_timer import StepTimer, launcher_of
from spectrie.model.step.wanted import Wanted

if TYPE_CHECKING:
    import torch

    from spectrie import _core
    from spectrie.model.launch.launcher import Launched, Pack

__all__ = ["Runner"]

_THREAD_SECONDS = 0.25


class Runner:
    """A model with its key-value cache. Calls must come from one thread at a time."""

    def __init__(
        self,
        decoder: Forward,
        info: RunnerInfo,
        measurements: Measurements,
        threads: int,
        close: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
        drafting: Sequence[Drafting] = (),
        why_no_drafter: str | None = None,
        drafted: Callable[[DraftPlan], None] = lambda plan: None,
    ) -> None:
        """Takes a decoder whose cache is empty.

        Args:
            decoder: Computes the forward.
            info: Facts about the model.
            measurements: Stores measured times.
            threads: Threads that share a forward.
            close: Ends the processes that the decoder has started.
            check: Raises the error of the next forward if it can be detected without one.
            drafting: Drafters beside the decoder.
            why_no_drafter: Why there is none, where none was named.
            drafted: Told of every level that was answered.
        """
        self._decoder = decoder
        self._launcher = launcher_of(decoder)
        self._measurements = measurements
        self.info = info
        self._threads = threads
        self._close = close
        self._check = check
        self._drafting = list(drafting)
        self._drafted = drafted
        self._drafters: list[DrafterInfo] | None = None
        self.why_no_drafter = why_no_drafter
        """Why there is no drafter, where none was named and one was looked for."""
        # Neither refers to this runner: a model that is dropped frees its device at once.
        self._timer = StepTimer(decoder)
        beside = self._drafting
        self._costs = CostTimer(
            info, measurements, self._timer, lambda: [one.digest for one in beside]
        )

    def close(self) -> None:
        """Ends the other ranks, if any. No call may be running or follow."""
        self._close()

    def check(self) -> None:
        """Checks, at no cost, that forwards are still possible.

        Raises:
            RankLost: Another rank has ended.
        """
        self._check()

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens; the width of the logits."""
        return self.info.vocabulary_size

    @property
    def eos_token_ids(self) -> list[int]:
        """Tokens that end an answer."""
        return self.info.eos_token_ids

    @cached_property
    def bigram_prefix(self) -> list[int]:
        """Ids of the shortest text that anything can follow, or []; reads the tokenizer once."""
        return self.info.bigram_prefix()

    @property
    def max_context(self) -> int:
        """Maximum prompt plus answer, in tokens."""
        return self.info.max_context

    @property
    def max_batch_rows(self) -> int:
        """Maximum rows of one step."""
        return self.info.max_batch_rows

    @property
    def num_pages(self) -> int:
        """Pages of the key-value cache."""
        return self.info.num_pages

    @property
    def page_size(self) -> int:
        """Slots of a page."""
        return self.info.page_size

    @property
    def dtype_name(self) -> str:
        """`float32`, `bfloat16` or `float16`."""
        return self.info.dtype_name

    @property
    def device_name(self) -> str:
        """`cpu`, or the name of the GPU."""
        return self.info.device_name

    @property
    def model_hash(self) -> str:
        """Identity of configuration and weights, 16 hex characters."""
        return self.info.model_hash

    @property
    def exact(self) -> bool:
        """Whether a row's logits are independent of the other rows, bit by bit."""
        return self.info.exact

    @property
    def why_fast(self) -> str | None:
        """Why rows are not independent where nobody asked for that by name."""
        return self.info.why_fast

    @property
    def can_speculate(self) -> bool:
        """Whether drafts may be verified, by exact arithmetic or not."""
        return self.info.can_speculate

    @property
    def native(self) -> _core.CpuDecoder | None:
        """The forward as one call that needs no Python; None on a GPU and on several ranks."""
        return self._decoder.native if isinstance(self._decoder, CpuDecoder) else None

    @property
    def threads(self) -> int:
        """Threads that share the work of a forward."""
        return self._threads

    @property
    def numeric_fingerprint(self) -> str:
        """Exact workers of equal fingerprint return equal tokens for equal requests and seeds."""
        return self.info.arithmetic

    def step(self, plan: PlanArrays) -> StepResult:
        """Computes the logits of the plan's sample rows and the likeliest tokens of its top rows.

        The logits are valid until the next step, which overwrites them on a CPU. Performs the plan's
        cache moves, then writes the keys and values of all rows to their slots.

        Args:
            plan: One step, at most `max_batch_rows` rows.

        Raises:
            ValueError: The plan is inconsistent, or exceeds the cache, the vocabulary or a limit.
            RankLost: Another rank ended or does not respond; no further step is possible.
        """
        self._check_rows(plan)
        return self._decoder.forward(plan)

    @property
    def drafters(self) -> list[DrafterInfo]:
        """The drafters beside the model, in the order in which they were named, with what they cost.

        The first call measures that, unless it is known from disk, and overwrites the cache's first pages:
        before serving.
        """
        if self._drafters is None:
            self._drafters = [
                one.describe(one.measure(self._measurements, self._threads, self.step))
                for one in self._drafting
            ]
        return list(self._drafters)

    @property
    def drafter(self) -> DrafterInfo | None:
        """The first of `drafters`; None if there is none."""
        return next(iter(self.drafters), None)

    @property
    def drafts(self) -> bool:
        """Whether there is a drafter beside the model."""
        return bool(self._drafting)

    def draft(self, plan: DraftPlan) -> Answers:
        """Answers the rows of one level of drafts.

        Does the plan's feature moves first. A first level begins a step of drafts, which the next `step`
        ends.

        Raises:
            ValueError: There is no drafter, or the plan is inconsistent or exceeds a limit.
            RankLost: As `step`.
        """
        if not self._drafting:
            raise ValueError("this runner has no drafter")
        for one in self._drafting:
            if one.number == plan.drafter:
                answers = one.draft(plan)
                self._drafted(plan)
                return answers
        raise ValueError(f"this runner has no drafter of number {plan.drafter}")

    def drop_drafter(self, drafter: int) -> None:
        """Goes on without a drafter, and gives its memory back.

        Args:
            drafter: Its number, as plans have it.
        """
        for index, one in enumerate(self._drafting):
            if one.number == drafter:
                one.close()
                del self._drafting[index]
                # What was known about it.
                if self._drafters is not None:
                    del self._drafters[index]
                return

    def drop_drafters(self, why: str) -> None:
        """Goes on without any drafter, and gives their memory back.

        Args:
            why: What `why_no_drafter` says from now on.
        """
        for one in list(self._drafting):
            self.drop_drafter(one.number)
        self.why_no_drafter = why

    @property
    def launches(self) -> bool:
        """Whether `launch` works: on one GPU, with compiled kernels."""
        return self._launcher is not None

    @property
    def device_shape(self) -> _core.DeviceShape | None:
        """What plans for `launch` are packed for; None where it does not work."""
        return None if self._launcher is None else self._launcher.shape

    @property
    def starts_early(self) -> bool:
        """Whether `launch` takes tokens that the step before draws."""
        return self._launcher is not None and self._launcher.starts_early

    def launch(
        self,
        plan: PlanArrays,
        wanted: Wanted,
        pack: Pack | None = None,
        behind: Launched | None = None,
        logit_samples: NDArray[np.int32] | None = None,
    ) -> Launched:
        """Like `step`, but returns once the device has its orders; see `Launcher.launch`.

        Raises:
            ValueError: As `step`, or the runner does not launch.
        """
        if self._launcher is None:
            raise ValueError("this runner computes its steps at once")
        drawn = None if behind is None else behind.drawn
        self._check_rows(plan, 0 if drawn is None else len(drawn))
        return self._launcher.launch(plan, wanted, pack, behind, logit_samples)

    def _check_rows(self, plan: PlanArrays, num_drawn: int = 0) -> None:
        """Refuses rows that the model cannot compute, or that stand for other tokens than `num_drawn`."""
        tokens = plan.row_token
        if num_drawn:
            tokens = np.where((tokens < -1) & (tokens >= -1 - num_drawn), 0, tokens)
        if len(tokens) > self.info.max_batch_rows:
            raise ValueError(f"plan has {len(tokens)} rows, at most {self.info.max_batch_rows}")
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.info.vocabulary_size:
            raise ValueError(
                f"row_token holds {tokens.min()}..{tokens.max()}; "
                f"allowed: 0..{self.info.vocabulary_size - 1}"
            )

    def forward(self, plan: PlanArrays) -> torch.Tensor:
        """Returns the logits of `step`: float32 [S, vocabulary], contiguous, on the device; a tensor of torch."""
        return self.step(plan).logits

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads that share a forward."""
        self._decoder.set_threads(threads)
        self._threads = threads

    def choose_threads(self, num_cores: int) -> None:
        """Measures and sets the fastest thread count for one row and for eight.

        Overwrites the cache's first pages: call it before serving. The result is kept as that of
        `CostTimer.forwards`.
        """
        key = f"threads among {num_cores}{self._costs.ranks} {self.info.arithmetic} on {machine.cpu_class()}"
        fastest = self._measurements.get(key, is_busy=machine.is_busy)
        if not isinstance(fastest, int) or not 1 <= fastest <= num_cores:
            competition = machine.Competition()
            counts = sorted({1, num_cores, *(1 << i for i in range(num_cores.bit_length()))})
            counts = [count for count in counts if count <= num_cores]
            times = {}
            for count in counts:
                self.set_threads(count)
                one, eight = (self._costs.time(n, _THREAD_SECONDS / 2) for n in (1, 8))
                times[count] = 2 * one + eight
            fastest = min(counts, key=lambda count: times[count])
            self._measurements.put(key, fastest, is_rough=competition.is_there())
        self.set_threads(fastest)

    def warm_up(self) -> None:
        """Computes a forward of every size that `measure_costs` times, on a GPU.

        There the first forward of a size compiles or reads its kernels, which no request shall wait for.
        Overwrites the cache's first pages: call it before serving.
        """
        if self.info.on_gpu:
            for num_rows in self._costs.sizes:
                self._timer.of_host(self._costs.plan(num_rows))

    def measure_costs(self) -> tuple[list[int], list[float]]:
        """Measures a forward by its number of rows; see `CostTimer.forwards`."""
        return self._costs.forwards(self._threads)

    def measure_context_cost(self) -> ContextCost:
        """Measures what cached tokens add to it; see `CostTimer.context`."""
        return self._costs.context(self._threads)
