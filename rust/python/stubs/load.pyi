@final
class Load:
    """How busy an engine is; steps, tokens and preemptions are totals since the start."""

    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def waiting_bytes(self) -> int:
        """Bytes of the token ids of requests that wait."""
    @property
    def pages_used(self) -> int:
        """Pages that requests hold."""
    @property
    def pages_cached(self) -> int:
        """Pages in the prefix cache that no request holds."""
    @property
    def pages_total(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def drafted_tokens(self) -> int: ...
    @property
    def accepted_tokens(self) -> int: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def generated_tokens(self) -> int: ...
    @property
    def preemptions(self) -> int: ...
    @property
    def prefix_query_tokens(self) -> int:
        """Prompt tokens looked up in the prefix cache, once per request."""
    @property
    def prefix_hit_tokens(self) -> int:
        """Prompt tokens found there."""
    @property
    def draft_calls(self) -> int:
        """Times that a request was asked for drafts."""
    @property
    def draft_seconds(self) -> float:
        """Seconds that drafting took between forwards."""
    @property
    def draft_times(self) -> tuple[list[int], float]:
        """The same, each time that requests were asked, by size, and their sum; bounds in seconds as in the
        metric `spectrie_draft_seconds`, one count more than bounds."""
    @property
    def step_times(self) -> tuple[list[int], float]:
        """Seconds of each step, from the beginning of its plan to the end of its commit, as above."""
    @property
    def verify_times(self) -> tuple[list[int], float]:
        """Seconds of the forward of each step that verified drafts, as above."""
    @property
    def tree_nodes(self) -> tuple[list[int], float]:
        """Draft nodes that a request sent in a step, where it sent any, as above."""
    @property
    def memory_lookups(self) -> int:
        """Questions to draft memory for drafts."""
    @property
    def memory_hits(self) -> int:
        """Those that its text answered."""
    @property
    def learn_seconds(self) -> float:
        """Seconds between forwards of keeping drafters and draft memory up to date, and of waiting
        for the background thread."""
    @property
    def choices_total(self) -> int:
        """Decode-only steps of mode auto whose decision to draft or not can be judged."""
    @property
    def choices_right(self) -> int:
        """Of these, the decisions that recent evidence shows to be correct.

        Drafts: steps with drafts and as many requests emitted as many tokens a millisecond as steps
        without. None although some were offered: the likeliest of such came true too seldom to pay
        for their rows.
        """
    @property
    def corpus_bytes(self) -> int:
        """Size of the files of the corpora; not part of `memory_bytes`."""
    @property
    def lost_corpus_blocks(self) -> int:
        """Blocks of 64 KiB of the corpora that were found damaged or cut off."""
    @property
    def memory_tokens(self) -> int:
        """Tokens of text in draft memory."""
    @property
    def inserted_tokens(self) -> int:
        """Tokens of text that were inserted in draft memory, those included that found no room."""
    @property
    def memory_namespaces(self) -> int:
        """Namespaces of draft memory."""
    @property
    def evicted_tokens(self) -> int:
        """Tokens that draft memory evicted to stay within its bytes."""
    @property
    def dropped_tokens(self) -> list[int]:
        """Tokens that draft memory dropped or did not take, by reason: room inside a namespace's own
        share, fairness to others, idle namespaces, forgotten, no room, damaged snapshots."""
    @property
    def snapshot_written_bytes(self) -> int:
        """Bytes written to snapshots of draft memory."""
    @property
    def expected_accepted(self) -> float:
        """Expected acceptances: the sum of the values of the draft nodes sent in mode auto."""
    @property
    def accepted_by_source(self) -> list[int]:
        """Draft nodes of mode auto that became output; index = source number."""
    @property
    def calibration(self) -> list[tuple[int, float, int]]:
        """Nodes of mode auto whose parent was reached, expected and actual accepted ones of them,
        by tenths of their probability given the parent."""
    @property
    def offered_steps(self) -> int:
        """Decode-only steps whose drafts the budget chose."""
    @property
    def offered_tokens(self) -> int: ...
    @property
    def step_ms_total(self) -> float:
        """Milliseconds of the offered steps, plan and commit included, and the upkeep of the steps
        held out."""
    @property
    def holdout_steps(self) -> int:
        """Decode-only steps of plain decoding, held out to measure what drafts gain."""
    @property
    def holdout_tokens(self) -> int: ...
    @property
    def holdout_ms_total(self) -> float: ...
    @property
    def net_gain(self) -> float | None:
        """Tokens per millisecond of the offered steps over those held out; None until enough steps
        were held out."""
    @property
    def net_gain_low(self) -> float | None:
        """The lower end of its 95 % interval."""
    @property
    def net_gain_high(self) -> float | None:
        """The upper end."""
    @property
    def head_levels(self) -> int:
        """Levels that drafters of the runner's were asked."""
    @property
    def head_rows(self) -> int:
        """Rows of those levels."""
    @property
    def head_gain(self) -> float | None:
        """Tokens per millisecond of the steps that may ask the first of them over those held out from that
        alone; None until enough were."""
    @property
    def head_gain_low(self) -> float | None:
        """The lower end of its 95 % interval."""
    @property
    def head_gain_high(self) -> float | None:
        """The upper end."""
    @property
    def drafters(self) -> list[tuple[int, int, tuple[float, float, float] | None]]:
        """Of each drafter, by its number: levels, rows, and its gain with the ends of its 95 % interval,
        None until that is known."""
    @property
    def longest_step_ms(self) -> float:
        """Milliseconds that the longest step may take, at the speed of the machine now: a whole chunk at
        the end of the context, beside rows of as many requests as may run, which read the whole
        cache."""

@final
class CorpusInfo:
    """Facts about a loaded corpus."""

    @property
    def name(self) -> str: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_documents(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Size of its file."""
    @property
    def readers(self) -> list[str] | None:
        """Namespaces that may draft from it; None = all."""
    @property
    def accepted_tokens(self) -> int:
        """Draft tokens from it that became output, since it was loaded."""
    @property
    def lost_blocks(self) -> int:
        """Blocks of 64 KiB of its file that were damaged or cut off; they draft nothing."""
    @property
    def first_loss(self) -> str | None:
        """The first of them: its bytes in the file, and what was found there."""

@final
class NamespaceInfo:
    """Facts about a namespace of draft memory."""

    @property
    def name(self) -> str: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def accepted_tokens(self) -> int:
        """Draft tokens from its text that became output."""

@final
class SnapshotInfo:
    """Contents of a snapshot of draft memory, and what saving or restoring it did; all 0 if there is
    none."""

    @property
    def num_namespaces(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Size of its files."""
    @property
    def written_bytes(self) -> int:
        """Bytes that this save wrote: 0 if nothing was new, and for a restore."""
    @property
    def damaged_runs(self) -> int:
        """Runs of up to 65,536 tokens that a restore found damaged and left out."""
    @property
    def damaged_tokens(self) -> int:
        """Tokens in them."""
    @property
    def first_damage(self) -> str | None:
        """The first damage that a restore found: the file, the place, and where it is kept."""
