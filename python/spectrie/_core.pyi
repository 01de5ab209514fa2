# Generated from rust/python/stubs and rust/types by `make generate`: do not edit.
"""The compiled core: engine, text, router and CPU operators. One section per room."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from os import PathLike
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

__version__: str

# ---- enums (rust/types) --------------------------------------------------------------------------

class FinishKind(IntEnum):
    """Why a choice ended."""

    EOS = 1
    STOP_TOKEN = 2
    LENGTH = 3
    CANCELLED = 4
    DEADLINE = 5
    REFUSED = 6
    FAILED = 7
    COMPLETE = 9

class Source(IntEnum):
    """Where a token came from."""

    MODEL = 1
    PREDICTION = 2
    REQUEST = 3
    SHARED = 4
    CORPUS = 5
    RECYCLED = 6
    GRAMMAR = 7
    HEAD = 8
    DRAFT_MODEL = 9

class SpeculationMode(IntEnum):
    """How draft trees are grown."""

    AUTO = 1
    OFF = 2
    BFS = 3
    PROB = 4
    TIERS = 5
    EAGLE2 = 6
    CHAIN = 7

class PackedSection(IntEnum):
    """Sections of a packed step; rust/types/src/packed_section.rs says their shapes."""

    ROW_TOKEN = 0
    ROW_POSITION = 1
    ROW_SLOT = 2
    SAMPLE_ROWS = 3
    TOP_ROWS = 4
    MOVES = 5
    PAGE_IDS = 6
    PATH_SLOTS = 7
    SEED = 8
    POSITION = 9
    REQUEST = 10
    TEMPERATURE = 11
    TOP_K = 12
    TOP_P = 13
    MIN_P = 14
    TYPICAL_P = 15
    REPETITION = 16
    FREQUENCY = 17
    PRESENCE = 18
    BIAS_START = 19
    BIAS_TOKEN = 20
    BIAS_VALUE = 21
    SEEN_START = 22
    SEEN_TOKEN = 23
    SEEN_COUNT = 24
    PATH_START = 25
    PATH_TOKEN = 26
    MASKED_START = 27
    MASKED_TOKEN = 28
    ALLOWED_ROW = 29
    ALLOWED = 30
    ROW_PARENT = 31
    WALKS = 32

class PackedWork(IntEnum):
    """Lists of attention's work for one window, after those sections."""

    PART_ITEMS = 0
    COMBINED = 1
    PROMPT_ITEMS = 2

# ---- engine (rust/python/src/engine.rs) ----------------------------------------------------------

class EngineError(Exception):
    """The engine refused a call; the message names what was given and what is allowed."""

@final
class Grammar:
    """A compiled constraint on an answer; requests may share one."""

@final
class GrammarCompiler:
    """Compiles constraints for one tokenizer and keeps 64 MiB of them; shared between threads.

    Making one takes 0.3 s for 49,152 tokens.

    Args:
        tokenizer: The model's.
        eos_token_ids: Tokens that may end an answer where its grammar accepts it.

    Raises:
        EngineError: An end token that the tokenizer does not know.
    """

    def __new__(cls, tokenizer: Tokenizer, eos_token_ids: Sequence[int]) -> Self: ...
    def compile(
        self, kind: str, text: str | Sequence[str] | None = None, timeout_s: float | None = None
    ) -> Grammar:
        """Compiles one constraint, in milliseconds or seldom seconds; releases the GIL.

        At most four are compiled at once, on threads that give way to forwards; others wait in line.

        Args:
            kind: `json_schema`, `json_object` (no text), `regex`, `grammar` (Lark) or `choice`
                (several texts).
            text: At most 64 KiB.
            timeout_s: Longest time, waiting included. None: no limit.

        Raises:
            EngineError: It is over a limit, cannot be compiled, or no text meets it.
            TimeoutError: `timeout_s` passed.
        """
    def cached(self, kind: str, text: str | Sequence[str] | None = None) -> Grammar | None:
        """The constraint if it was compiled lately; waits for nobody.

        Raises:
            EngineError: There is no constraint of this kind with so many texts.
        """

@final
class Plan:
    """The rows of one forward: R rows, Q requests, S sampled rows, T top rows, M moves; int32 unless
    said.

    Row `j` of request `q` has logical index `kv_len + j` and lives in slot
    `page_ids[page_indptr[q] + index // page_size] * page_size + index % page_size`.
    """

    @property
    def plan_id(self) -> int:
        """To be given back with the results."""
    @property
    def is_greedy(self) -> bool:
        """Whether `commit_tokens` will do: every sampled row needs only its largest logit."""
    @property
    def is_drawable(self) -> bool:
        """Whether `commit_tokens` with `drawn` saves any logits: not all sampled rows need theirs."""
    @property
    def logit_samples(self) -> NDArray[np.int32]:
        """Indices into `sample_rows` of those whose log-probabilities are wanted, ascending, [L]: they need
        their logits, the others only a token."""
    @property
    def request_handle(self) -> NDArray[np.uint64]:
        """Handle of each request, uint64 [Q]."""
    @property
    def row_token(self) -> NDArray[np.int32]:
        """[R]; of `plan_early`, -2 - i for the token that sample row i of the plan before it gives."""
    @property
    def row_position(self) -> NDArray[np.int32]:
        """Position for rotary embedding, [R]."""
    @property
    def row_slot(self) -> NDArray[np.int32]:
        """Slot that takes the row's key and value, [R]."""
    @property
    def row_owner(self) -> NDArray[np.int32]:
        """Index of the row's request, [R]."""
    @property
    def row_parent(self) -> NDArray[np.int32]:
        """Index of the parent within the request, -1 for its first row, [R]."""
    @property
    def row_ancestors(self) -> NDArray[np.int64]:
        """Bit j = a tree row may see row j of its request, itself included; 0 in chunks, int64 [R]."""
    @property
    def request_row_start(self) -> NDArray[np.int32]:
        """[Q]."""
    @property
    def request_row_count(self) -> NDArray[np.int32]:
        """[Q]."""
    @property
    def request_kv_len(self) -> NDArray[np.int32]:
        """Tokens already in the cache, [Q]."""
    @property
    def request_kind(self) -> NDArray[np.int32]:
        """0 = chunk of a prompt (causal), 1 = tree, [Q]."""
    @property
    def page_indptr(self) -> NDArray[np.int32]:
        """[Q + 1]."""
    @property
    def page_ids(self) -> NDArray[np.int32]:
        """Pages that cover `kv_len + row_count` slots of each request."""
    @property
    def sample_rows(self) -> NDArray[np.int32]:
        """Rows whose logits are needed, ascending, [S]; S is 0 while only prompts are computed."""
    @property
    def sample_indptr(self) -> NDArray[np.int32]:
        """[Q + 1]."""
    @property
    def top_rows(self) -> NDArray[np.int32]:
        """Rows whose likeliest tokens are wanted, ascending, [T]: none, or `sample_rows` and maybe
        others."""
    @property
    def kv_move_src(self) -> NDArray[np.int32]:
        """Slots to copy from, in order, before the forward, [M]."""
    @property
    def kv_move_dst(self) -> NDArray[np.int32]:
        """Slots to copy to, [M]."""
    @property
    def request_feature(self) -> NDArray[np.int32]:
        """Row of the feature store that the first row of each request follows; -1 where that is not known, -2 where
        drafters keep nothing of the request's rows, [Q]. Empty without a drafter."""
    @property
    def request_first(self) -> NDArray[np.int32]:
        """Position of the first token of each request of which drafters keep something, [Q]; 0 but for those that
        they follow from further on. Empty without a drafter."""
    @property
    def feature_moves(self) -> NDArray[np.int32]:
        """Features to copy before the forward, from a row of the last forward to one of the store, [M, 2]."""
    @property
    def feature_copies(self) -> NDArray[np.int32]:
        """Features to copy between rows of the store, in order, after those, [M, 2]."""

@final
class DraftPlan:
    """What a drafter is asked in one level of a step: R rows, Q requests, M moves; int32 unless said.

    A row is a token after a known path: it sees the drafter's keys of the request's committed tokens, those
    of its ancestors among the rows of this step, and its own.
    """

    @property
    def drafter(self) -> int:
        """Which drafter is asked, by its number; its copies are for all of them."""
    @property
    def level(self) -> int:
        """Counts from 1."""
    @property
    def row_index(self) -> int:
        """Number of the first row among all rows of this step."""
    @property
    def row_token(self) -> NDArray[np.int32]:
        """[R]."""
    @property
    def row_position(self) -> NDArray[np.int32]:
        """Position for rotary embedding, [R]."""
    @property
    def row_request(self) -> NDArray[np.int32]:
        """Index of the row's request below, ascending, [R]."""
    @property
    def row_parent(self) -> NDArray[np.int32]:
        """Number of the parent among all rows of this step; -1 in the first level, [R]."""
    @property
    def request_kv_len(self) -> NDArray[np.int32]:
        """Tokens in the cache, [Q]."""
    @property
    def request_feature(self) -> NDArray[np.int32]:
        """Row of the feature store with the feature of the last of them, -1 for a drafter that reads none,
        [Q]."""
    @property
    def request_first(self) -> NDArray[np.int32]:
        """Position of the first of them that the rows see, [Q]: the drafter lacks keys of those before it."""
    @property
    def page_indptr(self) -> NDArray[np.int32]:
        """[Q + 1]."""
    @property
    def page_ids(self) -> NDArray[np.int32]:
        """Pages that hold the tokens in the cache."""
    @property
    def scored_indptr(self) -> NDArray[np.int32]:
        """[R + 1]."""
    @property
    def scored_token(self) -> NDArray[np.int32]:
        """Tokens whose log-probability after each row is wanted, at most 8 a row."""
    @property
    def request_fill_start(self) -> NDArray[np.int32]:
        """Position of the first token of each request that the drafter makes keys of before the rows, [Q]."""
    @property
    def fill_indptr(self) -> NDArray[np.int32]:
        """Where each request's such tokens start in `fill_token`, [Q + 1]."""
    @property
    def fill_token(self) -> NDArray[np.int32]:
        """Those tokens; none for a drafter that reads features. A request may have some and no row."""
    @property
    def kv_move_src(self) -> NDArray[np.int32]:
        """Slots to copy from before anything else, in order, [M]; the forward that follows does not."""
    @property
    def kv_move_dst(self) -> NDArray[np.int32]:
        """Slots to copy to, [M]."""
    @property
    def feature_moves(self) -> NDArray[np.int32]:
        """As of a `Plan`, [M, 2]."""
    @property
    def feature_copies(self) -> NDArray[np.int32]:
        """As of a `Plan`, [M, 2]."""

class PackingError(EngineError):
    """The memory given for a packed step is too short; nothing was written."""

    needed_words: int

@final
class DeviceShape:
    """What a packed step depends on beside its plan.

    Args:
        group: Query heads of a key-value head, on this rank.
        kv_heads: Key-value heads of the whole model, before ranks share them.
        windows: Of the model's layers: keys that a row sees, its own included; None for all. One that
            comes again counts once.
        vocabulary: Tokens of the vocabulary, the engine's.

    Raises:
        ValueError: A number is not positive, or there is no window.
    """

    def __new__(
        cls, group: int, kv_heads: int, windows: Sequence[int | None], vocabulary: int
    ) -> Self: ...
    @property
    def group(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def windows(self) -> list[int | None]:
        """Distinct ones, in the order they were given: that of the packed work."""
    @property
    def vocabulary(self) -> int: ...

@final
class PackedStep:
    """A step that `Engine.pack` wrote: its size, and where its sections are."""

    @property
    def words(self) -> int:
        """Words used, 4 bytes each."""
    @property
    def rows(self) -> int: ...
    @property
    def samples(self) -> int:
        """Sampled rows."""
    @property
    def tops(self) -> int:
        """Rows whose likeliest tokens are wanted."""
    @property
    def moves(self) -> int: ...
    @property
    def has_prompts(self) -> bool:
        """Whether any request has more than 64 rows."""
    @property
    def is_drawn(self) -> bool:
        """Whether it says how tokens are drawn, so that `commit_tokens` with `drawn` will do.

        If not, the sections from `seed` to `allowed` are empty and the plan needs its logits: it is not
        drawable, or the vocabulary has more than 2^20 tokens.
        """
    @property
    def cuts(self) -> int:
        """Cuts that any row uses: 1 top-k, 2 top-p, 4 typical, added."""
    @property
    def has_lists(self) -> bool:
        """Whether any row has a bias, a seen, a path's or a masked token."""
    @property
    def most_splits(self) -> int:
        """A power of two that no row's number of splits exceeds, of any window."""
    def section(self, section: int) -> tuple[int, int]:
        """Where a section of `PackedSection` begins, and how many words it has.

        Raises:
            IndexError: There is no such section.
        """
    def work(self, window_index: int, list: int) -> tuple[int, int]:
        """The same of a list of `PackedWork`, for a window of the shape by its index.

        Raises:
            IndexError: There is no such window or list.
        """

@final
class Finish:
    """Why and how a request ended."""

    @property
    def kind(self) -> FinishKind: ...
    @property
    def message(self) -> str | None: ...
    @property
    def keep_tokens(self) -> int | None:
        """Output tokens that count, those of earlier attempts included; all when None."""
    @property
    def stats(self) -> bytes:
        """Counts and durations: a serialized `spectrie.worker.v1.RequestStats`."""

@final
class StepOutput:
    """What requests emitted; each handle appears at most once."""

    @property
    def handles(self) -> list[int]: ...
    @property
    def token_indptr(self) -> list[int]:
        """Tokens of the i-th handle are `token_ids[token_indptr[i] : token_indptr[i + 1]]`."""
    @property
    def token_ids(self) -> list[int]: ...
    @property
    def sources(self) -> list[Source]:
        """The source of each token."""
    @property
    def finishes(self) -> list[Finish | None]:
        """Set for each handle that ended."""
    def logprobs(self, index: int) -> list[TokenLogprobs] | None:
        """Log-probabilities of each token of the `index`-th handle; None unless requested.

        Raises:
            IndexError: There are fewer handles.
        """
    def prompt_logprobs(self, index: int) -> list[TokenLogprobs | None] | None:
        """The same for its prompt's tokens, None for the first; once, with its first token.

        Raises:
            IndexError: There are fewer handles.
        """

@final
class TokenLogprobs:
    """Natural logarithms of the model's probabilities of one token and of the likeliest ones, at
    temperature 1, before bias, penalties and masks."""

    @property
    def token_id(self) -> int: ...
    @property
    def logprob(self) -> float: ...
    @property
    def top_ids(self) -> list[int]:
        """Likeliest first, ties by the lowest id."""
    @property
    def top_logprobs(self) -> list[float]:
        """One per entry of `top_ids`."""

def choice_seed(seed: int, choice: int) -> int:
    """The seed of one choice of a request: the request's own for choice 0, else a hash of both."""

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

@final
class Engine:
    """Scheduler, KV pages, drafts, sampling and verification.

    Everything but `set_costs` and the calls that run steps may be called from any thread and never
    waits for a step.
    One thread runs the steps: `plan`, then the forward, then `commit_logits`, `commit_tokens` or
    `fail`. With a drafter, `draft_plan` and `draft_results` come before `plan`, until there is no level left.

    The configuration is a mapping of these names; those that are not required have a default:

        vocabulary_size: Number of token ids: each is below this. 1 or more. Required.
        eos_token_ids: Tokens that end an answer unless a request ignores them. Required.
        num_pages: Pages of the cache. 1 or more pages. Required.
        page_size: Slots of a page. 1 to 65536 tokens.
        max_context: Maximum length of prompt plus answer. 1 or more tokens. Required.
        max_running: Maximum requests that hold pages at once; at most `max_batch_rows`. 1 or more
            requests. Required.
        tokenizer_fingerprint: Fingerprint of the model's tokenizer; corpora and snapshots of others
            are refused. `None` takes any corpus.
        overlap: Whether a background thread does work that the next plan does not need, and admits
            requests, while a forward runs.
        draft_threads: Maximum threads that draft for different requests between two forwards, where
            there is enough to do. Results do not depend on it. 1 to 64 threads.
        max_held: Maximum requests held, running and waiting; `submit` refuses more. 1 or more
            requests.
        waiting_bytes: Maximum memory of prompts that wait, 4 bytes a token; further requests are
            refused. One request may always wait. In bytes.
        max_batch_rows: Maximum rows of one step. 1 or more rows.
        lookahead_tokens: Tokens by which each running request is expected to grow before others
            end; a request is admitted while all have room for them. 0 or more tokens.
        holdout_every: One step in this many drafts nothing, to measure the net gain of drafts; 0 =
            none. 0 or more steps.
        chunk_tokens: Maximum prompt tokens computed in one step, over all requests. 1 or more
            tokens.
        max_step_ms: Maximum time of a step that computes prompts while other requests generate. The
            prompts' share of the step shrinks to keep it, by the measured costs, down to one page.
            Above 0 milliseconds.
        max_slowdown: How many times as long tenants ahead of their share may make the steps of
            others, on average. Limits their long prompts, long contexts and drafts. More serves
            these sooner. Where those ahead are less than a sixth of all tenants, they may add less
            in proportion. Above 1.
        age_s: Waiting time that raises a request by one priority level among those of its tenant.
            Above 0 seconds.
        speculation: How draft trees are grown, unless a request says otherwise. `auto`: calibrated
            scores, and as many tokens as the measured cost of a step justifies; `off`: no drafts;
            `bfs` and `prob`: fixed trees, newest or likeliest continuation first; `tiers`:
            calibrated scores, and 0, 1, 3 or 7 tokens by how many were accepted lately; `eagle2`
            and `chain`: fixed trees of a drafter alone, EAGLE-2's or a chain.
        max_draft_tokens: Maximum draft tokens per request and step. 0 to 63 tokens.
        drafting_cost_ms: Assumed time of asking a request for drafts; measured if not set. With a
            set time, what is drafted does not depend on the clock, and drafting does not stop where
            it is measured to be slower than none. For replays and tests. 0 or more milliseconds.
            None: measured.
        memory_bytes: Draft memory of each worker; 0 keeps none. In bytes.
        corpus_memory_bytes: Memory of each worker for corpora: what does not fit is read from disk
            again. In bytes.
        max_namespaces: Maximum namespaces in draft memory; a new one replaces the one idle longest.
            1 or more namespaces.
        recycle: After which rows the model's runner-up tokens become drafts. `decode`: every
            sampled row; `all`: rows of prompts too, which makes prefill slower.
        min_match: Minimum length of a match, in modes bfs and prob. 1 to 64 tokens.
        max_match: Maximum length of a match, in modes bfs and prob. 1 to 64 tokens.
        min_breadth: Minimum children of a draft node, in modes bfs and prob. 1 to 63.
        max_breadth: Maximum children of a draft node, in modes bfs and prob. 1 to 63.
        head_steps: Levels that a drafter is asked in each step, in modes eagle2 and chain. 1 to 63
            levels.
        head_top_k: Nodes of a level that a drafter is asked about, and tokens taken of each answer,
            in mode eagle2. 1 to 8 tokens.
        max_depth: Maximum depth of a draft tree. 1 to 63 tokens.

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

# ---- options (rust/python/src/options.rs) --------------------------------------------------------

@final
class OptionRow:
    """One line of a table of options: name, values, default, help and where it applies."""

    @property
    def table(self) -> str:
        """The table: server, model, engine, host, sampling or request."""
    @property
    def field(self) -> str:
        """Its name in code: a field of the table's struct, a keyword."""
    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
    @property
    def kind(self) -> str:
        """What values its flag takes: integer, number, duration, size, choice, flag, address, text,
        texts or token_ids."""
    @property
    def names(self) -> list[str]:
        """The names of a choice, or how the value of a text is shown."""
    @property
    def forms(self) -> list[str]:
        """What an address may be beside TCP: unix, off."""
    @property
    def minimum(self) -> float | None:
        """The minimum; None without one."""
    @property
    def maximum(self) -> float | None:
        """The maximum; None without one."""
    @property
    def is_open(self) -> bool:
        """Whether `minimum` itself is not allowed."""
    @property
    def default(self) -> bool | int | float | str | tuple[str, ...] | None:
        """The default value; None if it follows from something else."""
    @property
    def default_text(self) -> str:
        """The default as help shows it."""
    @property
    def unit(self) -> str:
        """The unit of a number, such as tokens; empty without one."""
    @property
    def group(self) -> str:
        """The heading that it is shown under."""
    @property
    def key(self) -> str | None:
        """Its name in a configuration file, from which flag and variable derive; None: no flag."""
    @property
    def commands(self) -> list[str]:
        """The commands that know it."""
    @property
    def is_keyword(self) -> bool:
        """Whether `spectrie.LLM` takes it."""

def check_options(values: Mapping[str, object]) -> None:
    """Checks options of an engine in this process, by the names of `EngineOptions`.

    Raises:
        EngineError: One line for each name that is unknown and each value that is not allowed.
    """

def option_rows() -> list[OptionRow]:
    """Every table, one row after another, in the order in which they are shown."""

# ---- requests (rust/python/src/request) ----------------------------------------------------------

@final
class Request:
    """One choice of a request, begun or resumed, as the engine takes it.

    Args:
        start: A `spectrie.worker.v1.Start`, serialized.
        handle: The caller's name for it; unique among requests that have not ended.
        now_s: Now, in seconds on the clock of `Engine.plan`.
        now_unix_s: Now, in seconds of Unix time: with `now_s` it moves the message's deadline to
            that clock.
        speculate: Whether anything may be drafted, whatever the message asks for.
        grammar: What `constraint_of(start)` compiles to; None without a constraint.
        tokenizer: The model's, to end the answer at the message's stop texts; None leaves them to
            the caller.

    Raises:
        ValueError: `start` is not such a message, or has an empty stop text. Values out of range make the request end with a
            refused output.
    """

    def __new__(
        cls,
        start: bytes,
        *,
        handle: int,
        now_s: float = 0.0,
        now_unix_s: float = 0.0,
        speculate: bool = True,
        grammar: Grammar | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> Self: ...
    @property
    def handle(self) -> int:
        """The caller's name for it."""

def constraint_of(start: bytes) -> tuple[str, str | list[str] | None] | None:
    """What the answer to a serialized `Start` is held to, as `GrammarCompiler.compile` takes it.

    Raises:
        ValueError: It is not a `Start`, or its constraint is of a kind that this version does not know.
    """

@final
class GenerationConfig:
    """A model's own sampling numbers.

    Args:
        content: Content of its generation_config.json.

    Raises:
        ModelError: `content` is not a JSON object, or a member is not a finite number.
    """

    def __new__(cls, content: bytes) -> Self: ...
    @property
    def unused(self) -> list[tuple[str, float]]:
        """Members that no request may ask for, with their numbers; they are left out."""

@final
class RequestResolver:
    """Converts the options of `LLM` to requests of the engine, as the server does.

    Args:
        tokenizer: The model's.
        model: Its name in messages.
        vocabulary_size: Token ids are below this.
        max_context: Longest prompt plus answer, in tokens.
        compile: Compiles a constraint: `(kind, text or texts, seconds that it may take)`.
        speculate: Whether anything may be drafted.
        has_drafter: Whether a drafter is beside the model; without one, requests that draft from it alone are refused.
        generation_config: The model's own numbers; None without the file.
    """

    def __new__(
        cls,
        tokenizer: Tokenizer,
        *,
        model: str,
        vocabulary_size: int,
        max_context: int,
        compile: Callable[[str, str | list[str] | None, float | None], Grammar],
        speculate: bool = True,
        has_drafter: bool = False,
        generation_config: GenerationConfig | None = None,
    ) -> Self: ...
    def resolve(
        self,
        prompt: object,
        prompt_token_ids: object,
        messages: object,
        options: Mapping[str, object],
        n: object = None,
    ) -> list[Choice]:
        """Checks a request and gives each of its choices.

        Args:
            prompt: Text; exactly one of the three prompts is given, the others are None.
            prompt_token_ids: Token ids.
            messages: A chat.
            options: As `GenerateOptions`; names that it does not have are not looked at.
            n: Answers to give, 1 to 8; None is 1.

        Raises:
            InvalidArgument: With every field that is not allowed.
            ModelError: A chat, and the model has no chat template.
            DeadlineExceeded: The constraint was not compiled within `timeout`.
        """

@final
class Choice:
    """One answer to a request, from its order to its last token; shared between threads."""

    @property
    def index(self) -> int:
        """Which of the `n` answers this is."""
    @property
    def seed(self) -> int:
        """Seed of the request, given or random."""
    @property
    def request_id(self) -> str:
        """Name of the request, given or generated."""
    @property
    def timeout_s(self) -> float | None:
        """Seconds for the whole answer; None without a limit."""
    @property
    def text(self) -> str:
        """All text that is final."""
    @property
    def token_ids(self) -> list[int]:
        """All tokens that count."""
    @property
    def sources(self) -> list[int]:
        """The number of each token's source; empty unless requested."""
    @property
    def logprobs(self) -> list[TokenLogprobs] | None:
        """Log-probabilities of each token; None unless requested."""
    @property
    def prompt_logprobs(self) -> list[TokenLogprobs | None] | None:
        """Log-probabilities of the prompt's tokens, None for the first."""
    def request(self, handle: int, now_s: float) -> Request:
        """What the engine takes; the time for the answer begins at `now_s`."""
    def take(self, output: StepOutput, index: int) -> AnswerPiece:
        """Takes what a step gave the request at `index` of `output.handles`.

        Raises:
            Cancelled: It was cancelled.
            DeadlineExceeded: Its time is over.
            InvalidArgument: The engine refused it.
            Internal: It failed.
        """

@final
class AnswerPiece:
    """What one step added to an answer."""

    @property
    def text(self) -> str:
        """Text that became certain."""
    @property
    def token_ids(self) -> list[int]:
        """The tokens, without those after a stop text."""
    @property
    def sources(self) -> list[int]:
        """The number of each token's source; empty unless requested."""
    @property
    def logprobs(self) -> list[TokenLogprobs] | None:
        """Log-probabilities of each token; None unless requested."""
    @property
    def end(self) -> AnswerEnd | None:
        """The end of the answer, with its last piece."""

@final
class AnswerEnd:
    """How a complete answer ended, and its counts."""

    @property
    def reason(self) -> Literal["stop", "length"]:
        """A stop text or token, or the limit of tokens."""
    @property
    def stop_text(self) -> str | None:
        """The stop text that ended it."""
    @property
    def stop_token_id(self) -> int | None:
        """The token that ended it."""
    @property
    def usage(self) -> tuple[int, int, int, int | None, int | None]:
        """Tokens of the prompt, of the answer, of the prompt's cached beginning, accepted and
        rejected of the prediction (None without one)."""
    @property
    def speculation(self) -> tuple[int, int, int, dict[str, int]]:
        """Verify steps, tokens drafted, tokens accepted, and those by source."""
    @property
    def timing(self) -> tuple[int, int, int]:
        """Nanoseconds in the queue, in prefill and in decoding."""

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

# ---- text (rust/python/src/text.rs) --------------------------------------------------------------

@final
class Tokenizer:
    """A model's tokenizer and chat template; shared between threads."""

    @staticmethod
    def from_folder(path: str | PathLike[str]) -> Tokenizer:
        """Reads tokenizer.json and, if there, tokenizer_config.json and chat_template.jinja.

        Raises:
            spectrie.errors.ModelError: A file is missing or cannot be used.
        """

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Gives the token ids of `text`; special tokens written out in it are recognised.

        Args:
            text: Any text.
            add_special_tokens: Also add those the model expects around a text, such as BOS.

        Raises:
            ValueError: The tokenizer refuses the text.
        """

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = False
    ) -> list[list[int]]:
        """Gives the token ids of each text as `encode` does, on all cores; other threads go on.

        Raises:
            ValueError: The tokenizer refuses one of the texts.
        """

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Gives the text of `ids`; ids outside the vocabulary add nothing.

        Raises:
            ValueError: The tokenizer's decoder fails.
        """

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, object]], add_generation_prompt: bool = True
    ) -> str:
        """Gives the prompt of `messages`, each with `role` and `content`.

        Raises:
            ValueError: The template refuses the messages or fails on them.
            spectrie.errors.ModelError: The model has no chat template.
        """

    def token_id(self, token: str) -> int | None:
        """Gives the id of the token written `token`, such as `<|im_end|>`."""

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest token id; the model's own vocabulary may be larger."""

def tokenizer_fingerprint(path: str | PathLike[str]) -> str:
    """Names a tokenizer, so that ids of one are never read as those of another.

    Args:
        path: tokenizer.json, or the folder it lies in.

    Returns:
        The first 16 hexadecimal digits of the SHA-256 of the file.

    Raises:
        spectrie.errors.ModelError: The file cannot be read.
    """

# ---- corpora and replay (rust/python/src/{corpus,replay}.rs) ---------------------------------------

@final
class CorpusFile:
    """Contents of a corpus file."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """Of the tokenizer whose ids it holds; see `tokenizer_fingerprint`."""
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_documents(self) -> int:
        """Documents of at least two tokens: shorter ones have nothing to draft."""
    @property
    def bytes(self) -> int:
        """Size of the file."""

def corpus_info(path: str | PathLike[str]) -> CorpusFile:
    """Reads a corpus file's header and table of checksums, and verifies these.

    Raises:
        ValueError: It cannot be read, is damaged, of another format version, or no corpus.
    """

@final
class Bigrams:
    """A model's bigrams: its 8 likeliest next tokens after each single token. Immutable.

    Args:
        ids: int32 [vocabulary, 8], the likeliest first.
        probabilities: float32 [vocabulary, 8]. A row ends at its first 0; one that begins with 0 is
            unknown.

    Raises:
        ValueError: Another shape, or a number that is no token or no probability.
    """

    def __new__(cls, ids: NDArray[np.int32], probabilities: NDArray[np.float32]) -> Self: ...
    @staticmethod
    def open(path: str | PathLike[str], fingerprint: str) -> Bigrams:
        """Reads the file that `save` wrote.

        Raises:
            ValueError: The file cannot be read, is damaged, or belongs to another model.
        """

    def save(self, path: str | PathLike[str], fingerprint: str) -> None:
        """Writes the table for the model that `fingerprint` (at most 64 bytes) names, atomically.

        Raises:
            ValueError: The file cannot be written.
        """

    def rows(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """A copy of ids and probabilities, as the constructor takes them."""

    @property
    def num_known(self) -> int:
        """Tokens whose successors are known."""

    def __len__(self) -> int: ...

@final
class CorpusBuilder:
    """Gathers documents and writes them as one indexed file, in at most 288 MiB of memory.

    Args:
        name: 1 to 64 letters, digits, `.`, `_` or `-`.
        fingerprint: Of the tokenizer whose ids will be pushed.
        scratch: Folder for temporary files of up to 27 bytes a token, made when it is first needed;
            that of the system by default.

    Raises:
        ValueError: A name that no corpus can have.
    """

    def __new__(
        cls, name: str, fingerprint: str, scratch: str | PathLike[str] | None = None
    ) -> CorpusBuilder: ...
    def push(self, document: Sequence[int]) -> None:
        """Adds the ids of one document; drafts never cross its end.

        Raises:
            ValueError: The corpus is full, a temporary file cannot be written, or the corpus was
                written already.
        """

    @property
    def num_tokens(self) -> int:
        """Tokens so far."""

    def finish(
        self,
        path: str | PathLike[str],
        progress: Callable[[int, int], object] | None = None,
    ) -> CorpusFile:
        """Indexes everything and writes `path`, whole or not at all.

        Args:
            path: The file to write.
            progress: Called now and then with the tokens visited and those to visit. What it raises
                ends the writing, as an interrupt does.

        Raises:
            ValueError: The file cannot be written, or was already.
        """

@final
class Replay:
    """Simulates drafting for requests whose output is known.

    Args:
        nodes: Most draft nodes of a step, 0 to 1024.
        min_value: Nodes less likely than this are not drafted, 0 to 1.
        mode: "auto", "bfs" or "prob".
        memory: "cold" (each request alone) or "online" (finished ones teach their namespace).
        corpora: Corpus files that every request reads.
        corpus_ids: Documents of one more corpus, built for this replay.
        recycle: Whether the `topk` of requests is drafted from.
        hints: Whether the mode auto also drafts from sparse context: tokens used a moment ago,
            and those that followed across a changed token.
        max_depth: Longest path in draft tokens, 1 to 63.
        memory_bytes: Bound of the memory that requests share; 0 keeps none.
        costs: Time of a forward of 1, 2 ... rows: each step then sends the number of nodes with the
            most expected tokens per time, as a server with one request would.
        bigrams: The model's bigrams; None drafts without.
        head: Whether the recorded answers of a head are drafted from: "off", "on", or "only" (from nothing
            else). In mode "auto".
        head_levels: Levels that a step asks for at most, by default 5.
        head_rows: Nodes of a level that are asked about at most, by default 4, those first that are expected to gain most.
        head_least_gain: Nodes that are expected to gain fewer accepted tokens, by default 0.02, are not asked about; 0 to 1.
        head_probe_every: The last token is asked about all the same where so many steps, this one included,
            did not ask; 1, the default: in every step.

    Raises:
        ValueError: Naming the first value out of range, or the corpus that cannot be used.
    """

    def __new__(
        cls,
        *,
        nodes: int = 16,
        min_value: float = 0.0,
        mode: str = "auto",
        memory: str = "cold",
        corpora: Sequence[str | PathLike[str]] = ...,
        corpus_ids: Sequence[Sequence[int]] | None = None,
        recycle: bool = True,
        hints: bool = True,
        max_depth: int = 18,
        memory_bytes: int = ...,
        costs: Sequence[float] = ...,
        bigrams: Bigrams | None = None,
        head: str = "off",
        head_levels: int = ...,
        head_rows: int = ...,
        head_least_gain: float = ...,
        head_probe_every: int = ...,
    ) -> Self: ...
    def push(
        self,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
        prediction_ids: Sequence[int] | None = None,
        namespace: str = "default",
        topk: tuple[Any, Any] | None = None,
        head: Sequence[Sequence[Sequence[Any]]] | None = None,
    ) -> None:
        """Replays one request; releases the GIL.

        Args:
            topk: Ids [P, 8] and probabilities [P, 8], arrays or lists of rows, P = tokens of prompt
                and output: what the model gave after each of them. Rows may be shorter, or empty.
                Each is known from the step after the one that computed it, as in a server.
            head: For each output token the answers of a head by level, down the output: likeliest ids, their
                probabilities, ids of further tokens that it was asked about, their probabilities. None are
                known of paths that the output did not take.

        Raises:
            ValueError: An id that is none, or `topk` or `head` does not fit.
        """

    def names(
        self,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
        topk: tuple[Any, Any] | None = None,
    ) -> list[list[int]]:
        """Gives, for each output token, at most 8 tokens that a head would be asked about in its place: those
        that other sources name. Counts nothing; releases the GIL.

        Raises:
            ValueError: As `push`.
        """

    def report(self) -> dict[str, Any]:
        """Counts, rates and times so far; rates of nothing are None."""

# ---- router (rust/python/src/router.rs) ----------------------------------------------------------

class RouterError(Exception):
    """The router could not start or had to end; the message names the option at fault."""

@final
class RouterHandle:
    """Asks a router of this process to end, from any thread."""

    def __init__(self) -> None: ...
    def shutdown(self) -> None:
        """Asks to drain; asked again, to stop at once."""

def run_router(
    config_json: str, on_ready: Callable[[str], object], handle: RouterHandle | None = None
) -> int:
    """Runs a router to its end, on threads of its own; other Python threads go on.

    Args:
        config_json: The router's configuration; absent members take their defaults.
        on_ready: Takes the addresses in use as JSON: `{"http", "grpc", "worker", "metrics"}`, each
            a string or null. Called once, on this thread; what it raises ends the router.
        handle: Asks for the end from another thread. Signals do so too, unless the configuration
            says `runtime.handle_signals: false`.

    Returns:
        0 when every request had ended, 1 when some were cut off.

    Raises:
        RouterError: On a bad configuration, an address that cannot be used, or a server that broke.
    """

def read_api_keys(path: str) -> str:
    """The entries of a file for --api-keys, in its order, as JSON.

    Args:
        path: TOML, or lines `KEY TENANT`.

    Returns:
        A list of objects: `sha256` (of the key, its first twelve digits), `tenant`, `expires` (Unix
        time in seconds), `models`, `max_priority`, `requests_per_minute`, `tokens_per_minute`,
        `requests_at_once`; null where the entry does not say.

    Raises:
        RouterError: The file cannot be used; the message names the line and repeats nothing of it.
    """
