# ---- the forward on a CPU (rust/python/src/cpu.rs) -----------------------------------------------
# `spectrie.model.decoder.cpu` passes tensors as (address, dtype, number of elements), and keeps them alive.

CPU_PAGE_SIZE: int
"""Slots of a page in the CPU key-value cache."""

MAX_DRAFTERS: int
"""Most drafters beside one model."""

MAX_PENDING_ENTRIES: int
"""Rows whose entries may wait for those of other forwards; a forward of as many computes its own."""

CPU_TOP_K: int
"""Likeliest tokens that a forward gives for each top row."""

@final
class CpuWeights:
    """A decoder's weights, packed by several threads; float32 or bfloat16."""

    def __new__(cls, *, bfloat16: bool, threads: int) -> CpuWeights: ...
    def add_layers(self, layers: Sequence[Any]) -> None:
        """Packs the next layers.

        Args:
            layers: Objects with `attention_norm` and `mlp_norm` (float32 [hidden]), `qkv`, `output` and
                `mlp`. An MLP has `gate_up` and `down`; a mixture `router`, `experts` (MLPs), `chosen`
                (experts of a row) and `normalised` (whether their weights sum to 1). Products have
                `parts` (stacked tensors), `bias` (float32 or None) and `in_features`.

        Raises:
            ValueError: Sizes that do not fit, an address that cannot be one, or no memory.
        """
    def set_ends(
        self, *, embedding: tuple[int, str, int] | None, final_norm: NDArray[np.float32], head: Any
    ) -> None:
        """Packs the head; without an `embedding` the whole head's rows are the token vectors.

        Raises:
            ValueError: As `add_layers`.
        """
    def set_whole_head(self, head: Any) -> None:
        """Packs the head of all tokens, which drafters read beside one rank's part of it.

        Args:
            head: A product, as of `add_layers`.

        Raises:
            ValueError: As `add_layers`.
        """

@final
class CpuDecoder:
    """A decoder with its weights and paged key-value cache.

    Args:
        weights: Taken over; empty afterwards.
        max_rows: Most rows of a plan.
        cosines: float32 [max_context, rotated / 2].
        sines: Likewise.
        layers: Per layer: rotate, window, query norm weights, key norm weights.
        part: Of one rank among several: first, number and total of its columns as `attended`,
            `hidden`, `gated`, `expert` and `vocabulary`, and `gather`, called in a forward with what
            to gather (0 to 4 in that order), the address of rows, and how many; it fills in the
            columns that are not this rank's. Heads are this rank's; the embedding is a table of
            its own, unless this rank has the whole head.

    Raises:
        ValueError: Sizes that do not fit, or no memory for the cache.
    """

    def __new__(
        cls,
        weights: CpuWeights,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        num_pages: int,
        max_context: int,
        max_rows: int,
        scale: float,
        norm_epsilon: float,
        cosines: NDArray[np.float32],
        sines: NDArray[np.float32],
        layers: list[tuple[bool, int | None, list[float] | None, list[float] | None]],
        threads: int,
        part: Any | None = None,
    ) -> CpuDecoder: ...
    @property
    def num_bytes(self) -> int:
        """Memory that weights and workspaces take, without cache and logits."""
    @property
    def forward_seconds(self) -> float:
        """Seconds that all forwards took, without waits for the GIL."""
    def set_threads(self, threads: int) -> None:
        """Shares a forward among this many threads."""
    def set_taps(self, layers: Sequence[int], *, final_norm: bool = False) -> None:
        """Makes every later forward keep what some layers give for each row; nothing by default.

        Args:
            layers: Layers whose outputs are kept, 0 = the first; side by side in this order.
            final_norm: Whether the output of the norm before the head is kept, behind them.

        Raises:
            ValueError: There is no such layer, or no memory.
        """
    def features(self) -> NDArray[Any]:
        """Returns what was kept of the last forward: float32 [rows, taps * hidden], of bfloat16 its bits
        as uint16.

        Raises:
            ValueError: Nothing is tapped.
        """
    def add_drafter(self, drafter: Any, attention: Any, *, max_rows: int, seats: int) -> int:
        """Puts one more drafter beside the decoder: every later forward writes its entries.

        Args:
            drafter: `spectrie.model.drafters.Drafter`.
            attention: Its `heads`, `kv_heads`, `head_dim`, `norm_epsilon`, `layers` (of each `rotary`,
                `window`, `looks_ahead`, `query_norm` and `key_norm`), and `cosines` and `sines`, float32
                [max_context and what rows take behind it, rotated / 2].
            max_rows: Draft rows of a step at most, all levels together.
            seats: Rows of the feature store for running requests, behind those of the pages.

        Returns:
            Its number; they count from 0.

        Raises:
            ValueError: Sizes that do not fit, no memory, or the decoder is one of several ranks.
        """
    def drop_drafter(self, drafter: int) -> None:
        """Takes a drafter away."""
    @property
    def drafts(self) -> bool:
        """Whether there is a drafter."""
    def drafter_bytes(self, drafter: int) -> int | None:
        """Memory that a drafter's weights and workspaces take; None without it."""
    def set_drafter_resting(self, drafter: int, resting: bool) -> None:
        """Sets whether forwards leave a drafter out, to be timed without it: they write none of its entries."""
    def draft(
        self, plan: Any
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """Answers the rows of one level, with the GIL released; see `spectrie.model.drafters.DraftPlan`.

        Returns:
            Ids [R, 8] and probabilities [R, 8] of the likeliest tokens, and log-probabilities of the
            tokens that the plan names.

        Raises:
            ValueError: The plan contradicts itself, or the drafter that it asks is not there.
        """
    def poison_drafter(self, value: float) -> None:
        """Writes a number to all stored features, keys and values of drafters; for tests."""
    def forward(
        self, plan: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """One forward, with the GIL released; see `spectrie.model.plan.PlanArrays`.

        Returns:
            Logits of the sample rows, on memory of the decoder that the next forward overwrites, and
            ids and probabilities of the likeliest tokens of the top rows.

        Raises:
            ValueError: The plan contradicts itself or leaves the cache or the vocabulary.
        """

@final
class CpuSteps:
    """The steps of an engine and a decoder of one rank, without Python.

    One thread calls `run`, `fail` and `close`, another one `next_output`.

    Args:
        max_behind: Outputs that `next_output` may be behind by, 1 or more; then steps wait for it.

    Raises:
        ValueError: The decoder is one of several ranks.
    """

    def __new__(cls, engine: Engine, decoder: CpuDecoder, *, max_behind: int) -> CpuSteps: ...
    def run(self, now_s: float, rest_s: float, rested: bool) -> tuple[int | None, Exception] | None:
        """Plans, computes and commits while the engine has work, and sleeps while it has none, with
        the GIL released throughout.

        Args:
            now_s: The time now, on the clock of the requests' deadlines.
            rest_s: Longest sleep.
            rested: Whether to return rather than sleep if there is no work at once.

        Returns:
            None after a sleep without a wake-up, or once stopped. Of a forward that failed: the number
            of its plan, which must be passed to `fail` before the next run, and why. Of a drafter that
            failed: None, and why; it was taken away, and the next run goes on without it.

        Raises:
            EngineError: A plan or a commit failed, which no caller can mend.
        """
    def fail(self, plan_id: int, message: str, now_s: float) -> None:
        """Ends every request of a plan whose forward failed, like `Engine.fail`.

        Raises:
            EngineError: When the plan is not the open one.
        """
    def wake(self) -> None:
        """Ends the current sleep, or else the next one; call it after a submit."""
    def stop(self) -> None:
        """Ends the current run after its step, and every later one at once."""
    def next_output(self) -> StepOutput | None:
        """Waits for the next output with the GIL released; None after the last one.

        The output of a step comes when the next one is planned, or by `close`; each comes once and in
        order.
        """
    def close(self) -> None:
        """Passes on the last output, once no run is left; no other one comes after it."""
    @property
    def steps(self) -> int:
        """Steps committed."""
    @property
    def busy(self) -> bool:
        """Whether the last plan had work; False once closed."""
    @property
    def gaps_ms(self) -> list[float]:
        """Milliseconds from the end of a forward to the start of the next, of the last 1,024 for which
        work was there; oldest first. A level of a drafter counts as a forward.
        """
    @property
    def gap_seconds(self) -> float:
        """Sum of all such gaps."""

def cpu_arithmetic(*, bfloat16: bool) -> str:
    """Name of the arithmetic of bfloat16, else of float32: equal names give equal bits."""
