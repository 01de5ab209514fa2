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
