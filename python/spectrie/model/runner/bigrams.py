"""What the model says after one token alone: its own bigrams, computed once and kept on disk.

A row is the model's likeliest successors of the token behind the shortest text that anything may follow
(`spectrie.model.runner.bigram_prefix`). Rows are computed in the order of token ids, which in the vocabularies of
byte-pair encoders begins with what is frequent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrie.model.files.bigram_files import bigrams_file
from spectrie.model.operators import TOP_K
from spectrie.model.plan import StepPlan

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model.runner.runner import Runner

__all__ = ["MAX_SLICE_TOKENS", "BigramTable"]

_TREE_ROWS = 64

MAX_SLICE_TOKENS = _TREE_ROWS - 1
"""Most rows of one forward: a tree has 64 rows, which begin with those of the prefix."""


class BigramTable:
    """A table that grows until every token of the vocabulary has its row.

    Attributes:
        trouble: Why the file that was there could not be used; None when it could, or was none.
    """

    def __init__(self, runner: Runner, path: Path | None = None) -> None:
        """Goes on from what is stored.

        Args:
            runner: The model; called only by `extend`.
            path: Where the table is kept; `bigrams_file` of the model by default.
        """
        self._runner = runner
        self._path = bigrams_file(runner.model_hash) if path is None else path
        self.trouble: str | None = None
        rows = (runner.vocabulary_size, TOP_K)
        self._ids: NDArray[np.int32] = np.zeros(rows, np.int32)
        self._probabilities: NDArray[np.float32] = np.zeros(rows, np.float32)
        stored = self._stored()
        if stored is not None:
            self._ids, self._probabilities = stored.rows()
        self._missing: NDArray[np.int32] = np.flatnonzero(self._probabilities[:, 0] == 0).astype(
            np.int32
        )

    @property
    def num_tokens(self) -> int:
        """Rows of the whole table: the vocabulary."""
        return len(self._ids)

    @property
    def num_known(self) -> int:
        """Rows that are computed."""
        return len(self._ids) - len(self._missing)

    @property
    def is_complete(self) -> bool:
        """Whether every token has its row."""
        return not len(self._missing)

    @property
    def path(self) -> Path | None:
        """The file; None where there is no place for one."""
        return self._path

    @property
    def max_pages(self) -> int:
        """Pages that a call of `extend` overwrites at most."""
        # Without a prefix each token is a request, with pages of its own.
        size = self._runner.page_size
        return -(-_TREE_ROWS // size) if len(self._runner.beginning) else MAX_SLICE_TOKENS

    def extend(self, max_tokens: int, pages: Sequence[int] | None = None) -> int:
        """Computes the next rows in one forward; gives how many, 0 when none is missing.

        Args:
            max_tokens: Rows at most; no more than `MAX_SLICE_TOKENS` and what the pages have room for.
            pages: Pages that it may overwrite, `max_pages` at most; None when the whole cache is
                free, as it is where no engine uses it.
        """
        runner = self._runner
        pages = range(runner.num_pages) if pages is None else pages
        prefix = len(runner.beginning)
        room = len(pages) * runner.page_size - prefix if prefix else len(pages)
        tokens = self._missing[: max(min(max_tokens, _TREE_ROWS - max(prefix, 1), room), 0)]
        if not len(tokens):
            return 0
        result = runner.step(self._plan(tokens.tolist(), pages))
        self._ids[tokens] = np.maximum(result.top_ids, 0)
        self._probabilities[tokens] = result.top_probabilities
        self._missing = self._missing[len(tokens) :]
        return len(tokens)

    def freeze(self) -> _core.Bigrams:
        """The table as it is now, for an engine."""
        from spectrie import _core

        return _core.Bigrams(self._ids, self._probabilities)

    def save(self) -> bool:
        """Writes the file, unless one with as many rows is there; tells whether it is there now.

        Raises:
            ValueError: It cannot be written; the message says why.
        """
        if self._path is None:
            return False
        # Another worker of the same model may have come further.
        stored = self._stored()
        if stored is None or stored.num_known < self.num_known:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.freeze().save(self._path, self._runner.model_hash)
        return True

    def _stored(self) -> _core.Bigrams | None:
        from spectrie import _core

        if self._path is None or not self._path.is_file():
            return None
        try:
            stored = _core.Bigrams.open(self._path, self._runner.model_hash)
        except ValueError as error:
            self.trouble = str(error)
            return None
        if len(stored) != self._runner.vocabulary_size:
            self.trouble = (
                f"{self._path} holds {len(stored)} rows, expected {self._runner.vocabulary_size}"
            )
            return None
        return stored

    def _plan(self, tokens: list[int], pages: Sequence[int]) -> StepPlan:
        """A tree of the prefix and its children, verified as any draft is; nothing is kept from one
        plan to the next, so that requests may overwrite the pages in between.
        """
        page_size = self._runner.page_size
        prefix = self._runner.beginning
        if not prefix:
            return StepPlan.joined(
                [
                    StepPlan.single(
                        [token],
                        kv_len=0,
                        pages=[page],
                        sample_rows=[],
                        top_rows=[0],
                        page_size=page_size,
                    )
                    for page, token in zip(pages, tokens, strict=False)
                ]
            )
        rows = [*prefix, *tokens]
        last = len(prefix) - 1
        return StepPlan.single(
            rows,
            kv_len=0,
            pages=pages[: -(-len(rows) // page_size)],
            parents=[*range(-1, last), *[last] * len(tokens)],
            sample_rows=[],
            top_rows=range(last + 1, len(rows)),
            page_size=page_size,
        )
