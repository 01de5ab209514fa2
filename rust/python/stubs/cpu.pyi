# ---- the forward on a CPU (rust/python/src/cpu.rs) -----------------------------------------------
# `spectrie.model.decoder.cpu` passes tensors as (address, dtype, number of elements), and keeps them alive.

CPU_PAGE_SIZE: int
"""Slots of a page in the CPU key-value cache."""

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
        """Packs the head; without an `embedding` its rows are the token vectors.

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
            columns that are not this rank's. Heads are this rank's; the embedding is then a table of
            its own.

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
    def set_threads(self, threads: int) -> None:
        """Shares a forward among this many threads."""
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

def cpu_arithmetic(*, bfloat16: bool) -> str:
    """Name of the arithmetic of bfloat16, else of float32: equal names give equal bits."""
