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
