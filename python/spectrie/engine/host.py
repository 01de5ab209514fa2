"""A loaded model with its engine and step loop."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from spectrie.engine.forecast import forecast
from spectrie.engine.grammars import Grammars
from spectrie.engine.lazy_tokenizer import LazyTokenizer
from spectrie.engine.limits import chunk_tokens, draft_threads, max_running
from spectrie.engine.loop import StepLoop
from spectrie.engine.options import ENGINE, MODEL, EngineOptions
from spectrie.engine.snapshots import Snapshots
from spectrie.errors import ConfigError
from spectrie.model import machine
from spectrie.types import Source

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.engine.idle_bigrams import IdleBigrams
    from spectrie.model import Runner

__all__ = ["EngineHost"]

log = logging.getLogger("spectrie.worker")


class EngineHost:
    """A loaded model, ready to accept requests.

    Args:
        folder: Model folder in the Hugging Face layout.
        options: Options of loading, scheduling and drafting.
        deliver: Receives the output of each step, in order and on one thread; must return at once.
        on_death: Receives the exception that ended the step loop, after the last output.
        progress: Receives one line per stage of loading.

    Raises:
        ModelError: The folder is not a model that this build supports.
        ConfigError: An option is out of range for the model or the machine, or a corpus cannot be
            used.
    """

    def __init__(
        self,
        folder: Path,
        *,
        options: EngineOptions,
        deliver: Callable[[_core.StepOutput], None],
        on_death: Callable[[BaseException], None],
        progress: Callable[[str], None] | None = None,
    ) -> None:
        from spectrie import _core

        try:
            _core.check_options(dataclasses.asdict(options))
        except _core.EngineError as error:
            raise ConfigError(str(error)) from error
        self.folder = folder
        self.options = options
        self.tokenizer_fingerprint = _tokenizer_fingerprint(folder)
        """Identity of the tokenizer, 16 hex characters; None if the model has none."""
        self.snapshots: Snapshots | None = None
        """Snapshots of draft memory; None if it is not kept on disk."""
        self._bigrams: IdleBigrams | None = None

        def prepare() -> tuple[_core.Engine, Runner]:
            prepared, loaded = _prepare(folder, options, self.tokenizer_fingerprint, progress)
            self._open_memory(prepared, loaded)
            self._open_bigrams(prepared, loaded)
            self.runner = loaded
            return prepared, loaded

        def idle() -> bool:
            # A lost rank is better found out now than by the next request.
            self.runner.check()
            return self._bigrams is not None and self._bigrams.step()

        self._loop = StepLoop(prepare, deliver, on_death, idle)
        try:
            self.engine, self.runner = self._loop.start()
        except _core.EngineError as error:
            raise ConfigError(str(error)) from error
        known = self.runner.drafters if self.runner.can_speculate else []
        self._drafters = [drafter.name for drafter in known]
        self.max_running = max_running(options, self.runner)
        self.speculation = speculation(options, self.runner)
        self.tokenizer = LazyTokenizer(folder)
        """The model's tokenizer, which finds stop texts."""
        self.grammars = Grammars(self.tokenizer.open, self.runner.eos_token_ids)
        """Compiles the constraints of answers."""

    def _open_memory(self, engine: _core.Engine, runner: Runner) -> None:
        """Loads the corpora and restores draft memory, unless speculation is off."""
        from spectrie.model.files.corpora import find_corpus

        options = self.options
        if speculation(options, runner) == "off":
            return
        for corpus in options.corpora:
            info = engine.add_corpus(str(find_corpus(corpus)))
            log.info("corpus %s: %d tokens", info.name, info.num_tokens)
        if options.state_dir is not None:
            self.snapshots = Snapshots(
                engine,
                Path(options.state_dir),
                self.tokenizer_fingerprint or runner.model_hash,
                options.snapshot_every_s,
            )
            self.snapshots.start()

    def _open_bigrams(self, engine: _core.Engine, runner: Runner) -> None:
        """Drafts from the model's bigrams and computes missing ones, unless speculation is off."""
        from spectrie.engine.idle_bigrams import IdleBigrams

        options = self.options
        drafts = runner.can_speculate and _may_draft(options)
        if drafts and options.bigrams == "auto":
            self._bigrams = IdleBigrams(engine, runner)

    @property
    def can_speculate(self) -> bool:
        """Whether drafts may be verified."""
        return self.runner.can_speculate

    @property
    def recycles(self) -> bool:
        """Whether drafts use the model's runner-up tokens (Token Recycling)."""
        return self.options.recycle != "off" and self.speculation != "off"

    @property
    def drafters(self) -> Sequence[str]:
        """Names of the drafters that the engine was given, in its order."""
        return self._drafters

    @property
    def steps(self) -> int:
        """Steps done since the start."""
        return self._loop.steps

    @property
    def busy(self) -> bool:
        """Whether the last plan had work."""
        return self._loop.busy

    @property
    def gaps_ms(self) -> Sequence[float]:
        """Milliseconds from the end of a forward to the start of the next, of the last 1,024.

        Empty on a GPU and with ranks.
        """
        return self._loop.gaps_ms

    def submit(self, request: _core.Request) -> None:
        """Queues a request; `deliver` receives its tokens and its end.

        Raises:
            EngineError: The inbox is full.
        """
        self.engine.submit(request)
        self._loop.wake()

    def cancel(self, handle: int, keep_tokens: int | None = None, finished: bool = False) -> None:
        """Stops a request within one step; unknown handles are ignored."""
        self.engine.cancel(handle, keep_tokens, finished)
        self._loop.wake()

    def learn(self, namespace: str, token_ids: list[int]) -> None:
        """Inserts a token sequence into the draft memory of `namespace`."""
        self.engine.learn(namespace, token_ids)
        self._loop.wake()

    def close(self) -> None:
        """Ends the step loop after the current step; saves draft memory and bigrams."""
        self._loop.stop()
        self.runner.close()
        if self._bigrams is not None:
            self._bigrams.close()
        if self.snapshots is not None:
            self.snapshots.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def speculation(options: EngineOptions, runner: Runner) -> str:
    """Returns the mode in use: the option, or `off` if drafts cannot be verified."""
    return options.speculation if runner.can_speculate else "off"


def _may_draft(options: EngineOptions) -> bool:
    """Returns whether a request may draft: in another mode it may ask for `auto`, but nothing overrules `off`."""
    return options.speculation != "off" and options.max_draft_tokens > 0


def overlaps(options: EngineOptions, runner: Runner) -> bool:
    """Returns whether insertion overlaps the forward: the option, or if the forward spares a core."""
    if options.overlap == "auto":
        return runner.device_name != "cpu" or runner.threads < machine.num_cores()
    return options.overlap == "on"


def _tokenizer_fingerprint(folder: Path) -> str | None:
    from spectrie import _core

    path = folder / "tokenizer.json"
    return _core.tokenizer_fingerprint(str(path)) if path.is_file() else None


def _prepare(
    folder: Path,
    options: EngineOptions,
    tokenizer_fingerprint: str | None,
    progress: Callable[[str], None] | None,
) -> tuple[_core.Engine, Runner]:
    from spectrie import _core
    from spectrie.model import load_runner

    choices = options.pick(MODEL)
    if not _may_draft(options):
        if any(name != "off" for name in options.drafter):
            log.info("no drafter: the engine drafts nothing")
        choices["drafter"] = "off"
    runner = load_runner(
        folder,
        **choices,
        max_batch_rows=options.max_batch_rows,
        progress=progress,
    )
    if not runner.exact:
        why = runner.why_fast
        reason = "" if why is None else f" (not exact, since {why})"
        log.warning("%s: %s%s", runner.device_name, machine.FAST_ON_GPU, reason)
    facts = {
        "vocabulary_size": runner.vocabulary_size,
        "eos_token_ids": list(runner.eos_token_ids),
        "num_pages": runner.num_pages,
        "page_size": runner.page_size,
        "max_context": runner.max_context,
        "max_running": max_running(options, runner),
        "max_batch_rows": runner.max_batch_rows,
        "chunk_tokens": chunk_tokens(options, runner),
        "speculation": speculation(options, runner),
        "overlap": overlaps(options, runner),
        "draft_threads": draft_threads(runner),
        "tokenizer_fingerprint": tokenizer_fingerprint,
    }
    engine = _core.Engine(options.pick(ENGINE) | facts)
    runner.warm_up()
    if runner.can_speculate:
        context = runner.measure_context_cost()
        engine.set_costs(*runner.measure_costs(), **dataclasses.asdict(context))
    _add_drafters(engine, options, runner)
    return engine, runner


def _add_drafters(engine: _core.Engine, options: EngineOptions, runner: Runner) -> None:
    """Makes the runner's drafters known to the engine, and says why there is none where one was looked for.

    Raises:
        ConfigError: More requests may run than a drafter that was named has room for, or nothing is drafted
            without one.
    """
    # Measured here, where nobody is served yet.
    drafters = runner.drafters
    num_running = max_running(options, runner)
    room = min((drafter.max_requests for drafter in drafters), default=num_running)
    if num_running > room:
        message = f"max_running is {num_running}; allowed with a drafter: up to {room}"
        if set(options.drafter) != {"auto"}:
            raise ConfigError(message)
        runner.drop_drafters(message)
        drafters = []
    if runner.why_no_drafter is not None:
        log.info("no drafter: %s", runner.why_no_drafter)
    mode = speculation(options, runner)
    if not drafters and mode in ("eagle2", "chain") and options.max_draft_tokens > 0:
        why = "" if runner.why_no_drafter is None else f" ({runner.why_no_drafter})"
        raise ConfigError(
            f"speculation is {mode}, which drafts from a drafter alone, and none is loaded{why}; allowed: auto, off,"
            " bfs, prob or tiers, or load one by --drafter auto or --drafter PATH"
        )
    for drafter in drafters if runner.can_speculate else []:
        costs = drafter.costs
        engine.add_drafter(
            source=Source.HEAD if drafter.needs_features else Source.DRAFT_MODEL,
            needs_features=drafter.needs_features,
            max_levels=drafter.max_levels,
            max_rows=drafter.max_rows,
            rows=costs.rows,
            first_ms=costs.first_ms,
            later_ms=costs.later_ms,
            namespaces=drafter.namespaces,
            fill_ms=costs.fill_ms,
        )
        # On a GPU all rows of a step go through the products of entries, whoever they are kept for. And entries that
        # depend on others would be others where some were never computed.
        by_row = runner.native is not None and drafter.entries_stand_alone
        engine.set_drafter_upkeep(costs.upkeep_ms, by_row=by_row)
        log.info("drafter %s: %s", drafter.name, costs)
        expected = forecast(drafter, *runner.measure_costs())
        if expected is not None:
            log.info("drafter %s: %s", drafter.name, expected)
