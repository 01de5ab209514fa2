@final
class Engine:
    """Scheduler, KV pages, drafts, sampling and verification.

    Everything but `set_costs` and the calls that run steps may be called from any thread and never
    waits for a step.
    One thread runs the steps: `plan`, then the forward, then `commit_logits`, `commit_tokens` or
    `fail`. With a drafter, `draft_plan` and `draft_results` come before `plan`, until there is no level left.

    The configuration is a mapping of these names; those that are not required have a default:

        (every option of an engine)

    Raises:
        EngineError: One line for each name that is unknown or missing, and for each value of a
            wrong type or out of range.
    """

    def __new__(cls, config: Mapping[str, object]) -> Self: ...
    def submit(self, request: Request) -> None:
        """Submits a request; one that can never run ends with a refused output.

        Raises:
            EngineError: When `max_held` requests have not ended, or one of them has this handle.
        """
    def cancel(self, handle: int, keep_tokens: int | None = None, finished: bool = False) -> None:
        """Ends a request at the next plan with a cancelled output; no effect if it already ended.

        `keep_tokens` output tokens count (all when None) and, if it `finished` well, are learnt.
        """
    def scratch_pages(self, count: int) -> list[int]:
        """Up to `count` pages of the cache that hold nothing: they may be overwritten until the next
        plan, by a forward that no plan asked for. Kept prefixes are dropped where too few pages are free,
        and with a drafter what `feature_plan` would have kept.

        Raises:
            EngineError: The last plan was not committed.
        """
    def learn(self, namespace: str, token_ids: Sequence[int]) -> None:
        """Inserts text in a namespace's draft memory.

        Raises:
            EngineError: A token is outside the vocabulary.
        """
    def set_costs(
        self,
        rows: Sequence[int],
        milliseconds: Sequence[float],
        context_tokens: int = 0,
        ms_per_key: float = 0.0,
        ms_per_read: float = 0.0,
        tile_rows: int = 1,
        stair_rows: int = 0,
    ) -> None:
        """Sets the measured cost of a forward; later steps correct it.

        Args:
            rows: Rows of the forwards that were timed, ascending.
            milliseconds: What each took.
            context_tokens: Cached tokens that each of their rows read.
            ms_per_key: Milliseconds for each row and cached token that it reads.
            ms_per_read: Milliseconds for each cached token, once for all rows of a tile.
            tile_rows: Rows of a request that read its cached tokens together.
            stair_rows: Forwards of up to so many rows take as long as the next of `rows`; 0 where each
                row counts.

        Raises:
            EngineError: When the lists do not fit together, a price is negative, or tiles have no row.
        """
    def add_drafter(
        self,
        *,
        source: int,
        max_levels: int,
        max_rows: int,
        rows: Sequence[int],
        first_ms: Sequence[float],
        later_ms: Sequence[float],
        namespaces: Sequence[str] | None = None,
        needs_features: bool = True,
        fill_ms: Sequence[float] | None = None,
    ) -> int:
        """Drafts with answers of one more drafter of the runner's, from the first step on. A step asks about
        each request the one that is worth most there. Tokens do not depend on it.

        Args:
            source: What its tokens are credited to: the number of `head` or `draft_model`.
            max_levels: Levels that it answers in a step at most.
            max_rows: Rows that it answers in a step at most, all levels together.
            rows: Ascending numbers of rows that levels were timed at.
            first_ms: Milliseconds of a first level at each; later steps correct them.
            later_ms: Milliseconds of a later level at each.
            namespaces: Those whose requests may draft from it; None for all.
            needs_features: Whether it reads the model's features; without, plans name none.
            fill_ms: Milliseconds in which it makes keys of so many committed tokens, at each of `rows`; none
                if it reads features, whose keys are made by forwards.

        Returns:
            Its number; they count from 0.

        Raises:
            EngineError: A value is out of range, there are too many, or a step was planned before.
        """
    def set_drafter_upkeep(self, upkeep_ms: float, *, by_row: bool = True) -> None:
        """Prices what the drafter that was added last adds to every forward, asked or not: `upkeep_ms` to
        one of one row. Its gain is then told over steps without it; no effect without a drafter. Where that
        grows `by_row` for all drafters, plans may leave requests out while they sleep, and follow them from further
        on than their first token, which drafters on a GPU refuse.

        Raises:
            EngineError: It is below 0 or not finite.
        """
    def note_waited(self, waited_ms: float) -> None:
        """Notes that the forward in flight began `waited_ms` after its launch, because the device was answering for
        a drafter what nobody asked: the step is measured without that. Comes before its results.

        Raises:
            EngineError: The engine was stopped.
        """
    def draft_plan(self, now_s: float) -> DraftPlan | None:
        """What the drafter is asked next, before the plan; None when nothing is worth asking: then comes
        `plan`.

        Raises:
            EngineError: When the last level was not answered, or the last plan not committed.
        """
    def draft_results(
        self,
        ids: NDArray[np.int32],
        probabilities: NDArray[np.float32],
        scored: NDArray[np.float32],
        elapsed_ms: float,
    ) -> None:
        """Takes the answers to the last draft plan.

        Args:
            ids: The likeliest tokens of each row, descending, -1 where there is none, [R, 8].
            probabilities: Theirs, [R, 8].
            scored: Log-probabilities of the plan's `scored_token`; not finite where one is not known.
            elapsed_ms: Time that the drafter took.

        Raises:
            EngineError: They do not fit the plan, and the level waits for others; or no level waits.
        """
    def draft_failed(self) -> None:
        """Goes on without the drafter, which failed on the last draft plan. No request ends by that.

        Raises:
            EngineError: When no level waits for answers.
        """
    def feature_plan(self) -> DraftPlan | None:
        """What the drafter is to do before any forward that no plan asked for, which takes the features of
        the last one away: a level without rows, for its copies alone. None when there are none.

        Call `features_copied` then, and only then `scratch_pages`.

        Raises:
            EngineError: When the last level was not answered, or the last plan not committed.
        """
    def features_copied(self) -> None:
        """Notes that what `feature_plan` gave was done."""
    def plan(self, now_s: float) -> Plan | None:
        """The next forward; None when nothing is left to compute: wait for a submit.

        Refusals, cancellations and deadlines end requests here: their outputs come with the next
        commit, or at once from `take_outputs` (an idle engine has no commit). Deadlines of requests
        are on the clock of `now_s`.

        Raises:
            EngineError: When the last plan was not committed.
        """
    def plan_early(self, now_s: float) -> Plan | None:
        """The forward that may begin behind the open plan's before its results are known.

        Its rows' tokens are those that the open plan's forward gives; see `Plan.row_token`. It is packed
        before the open plan is committed, which goes by tokens. If the open plan fails, this one has ended
        too. Rows of requests that end meanwhile count for nothing.

        Returns:
            None where the next step must wait for the results: it may compute anything else, or
            speculate, or what it draws depends on which tokens came before.

        Raises:
            EngineError: When a step has panicked.
        """
    def pack(
        self,
        plan: Plan,
        shape: DeviceShape,
        part_rows: int,
        prompt_rows: int,
        address: int,
        capacity_words: int,
    ) -> PackedStep:
        """Writes the open plan as a device reads it: an array of int32, floats as their bits.

        First comes a table: where each section begins and how many words it has, first those of
        `PackedSection`, then those of `PackedWork` for each window of the shape. Sections begin at
        multiples of 8 words and have room for 8 at least. Releases the GIL, changes nothing, and may be
        called again.

        Args:
            part_rows: Rows, nodes times the group, of a tile of attention for requests of at most 64
                rows; no bit of a result depends on it.
            prompt_rows: The same of longer ones.
            address: Memory for `capacity_words` words of 4 bytes, aligned to 4, that nothing reads
                or writes until this returns.

        Raises:
            PackingError: There is too little room; nothing was written.
            EngineError: When the plan is not the open one, a tile has no room for a group, or the
                shape has another vocabulary than the engine; nothing was written.
            ValueError: The address cannot be one.
        """
    def take_outputs(self) -> StepOutput:
        """Outputs of requests that ended outside a step, each returned once."""
    def commit_logits(
        self,
        plan_id: int,
        logits_pointer: int,
        num_rows: int,
        row_stride: int,
        elapsed_ms: float,
        now_s: float,
        top_ids: NDArray[np.int32] | None = None,
        top_probabilities: NDArray[np.float32] | None = None,
    ) -> StepOutput:
        """Samples tokens from logits and advances the requests.

        Args:
            logits_pointer: Address of float32 rows in the order of `plan.sample_rows`, in CPU
                memory. The caller keeps them alive and unchanged until this returns.
            row_stride: Distance of two rows, in values.
            elapsed_ms: Duration of the forward.
            top_ids: The likeliest tokens after each of `plan.top_rows`, [T, 8]; -1 for none.
            top_probabilities: Theirs at temperature 1, [T, 8]. Without both, nothing is recycled.

        Raises:
            EngineError: When the plan is not the open one, or the rows do not fit it; it stays open.
        """
    def commit_tokens(
        self,
        plan_id: int,
        tokens: NDArray[np.int32],
        elapsed_ms: float,
        now_s: float,
        top_ids: NDArray[np.int32] | None = None,
        top_probabilities: NDArray[np.float32] | None = None,
        *,
        drawn: bool = False,
        logits: NDArray[np.float32] | None = None,
        compacted: bool = False,
    ) -> StepOutput:
        """Like `commit_logits`, with a token of each sampled row.

        A token of -1 says that no logit is finite, which fails the request.

        Args:
            tokens: The likeliest of each sampled row; with `drawn` those that
                `spectrie_kernels.draw` draws, -2 where the request's options leave none.
            drawn: Whether they were drawn; False takes plans of greedy requests only.
            logits: Those of `plan.logit_samples`, [L, vocabulary], contiguous, which `drawn` needs where
                there are any; the tokens of these rows are not read, but drawn from them.
            compacted: Whether the forward has brought rows of trees that its tokens accept to their places,
                but for `plan.logit_samples`; False lets the next plan order that.

        Raises:
            EngineError: As `commit_logits`, and without `drawn` when a sampled request is not plain
                greedy.
        """
    def fail(self, plan_id: int, message: str, now_s: float) -> StepOutput:
        """Ends every request of a plan whose forward failed; `message` goes to their callers.

        Raises:
            EngineError: When the plan is not the open one.
        """
    def load(self, *, memory: bool = True) -> Load:
        """State after the last call that ran the engine; requests since then count as waiting.

        Args:
            memory: Counts what draft memory holds, too, which takes longer the more namespaces it has.
        """
    def add_corpus(
        self, path: str | PathLike[str], readers: Sequence[str] | None = None
    ) -> CorpusInfo:
        """Lets namespaces (all when None) draft from a corpus file from their next step on.

        Raises:
            EngineError: Speculation is off, or the file cannot be read, is damaged, of another
                tokenizer, or its name is taken; nothing changed.
        """
    def remove_corpus(self, name: str) -> None:
        """Stops drafting from a corpus and keeps its file.

        Raises:
            EngineError: Speculation is off, or there is none of this name: those there are are
                named.
        """
    def set_bigrams(self, bigrams: Bigrams | None) -> None:
        """Lets every request draft from the model's bigrams, from its next
        step on; None ends that.

        Raises:
            EngineError: Speculation is off, or the table is of another vocabulary.
        """
    def corpora(self) -> list[CorpusInfo]:
        """The loaded corpora, in loading order."""
    def namespaces(self) -> list[NamespaceInfo]:
        """The namespaces that hold text or run requests, by name."""
    def save(self, folder: str | PathLike[str], fingerprint: str) -> SnapshotInfo:
        """Saves what is new in the namespaces' text; a crash leaves the old snapshot or the new one.

        Raises:
            EngineError: Speculation is off, or it cannot be written.
        """
    def restore(self, folder: str | PathLike[str], fingerprint: str) -> SnapshotInfo:
        """Restores what was saved in a folder, if anything was.

        Raises:
            EngineError: Speculation is off, or nothing of the snapshot can be used; memory stays as
                it was. Damage that costs a part is in the result.
        """
    def forget(self, namespace: str) -> bool:
        """Drops a namespace's text and cached prefixes; returns whether it had any text. Its name and
        text are gone from the snapshot too when this returns.

        Its running requests draft from their own text from their next step on, teach no more and
        share no more.

        Raises:
            EngineError: The snapshot cannot be erased from. The text is forgotten here, but a restart
                may bring it back: forget it again.
        """
