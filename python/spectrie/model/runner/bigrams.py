"""The model's own bigrams: its likeliest successors of each token, computed once and kept on disk.

A row holds the likeliest successors of a token that follows the shortest neutral prefix
(`spectrie.model.runner.bigram_prefix`). Rows are computed in ascending order of token ids: in the
vocabularies of byte-pair encoders, frequent tokens come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrie.model.files.bigram_files import bigrams_file
from spectrie.model.plan import TREE_ROWS, StepPlan

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model.runner.runner import Runner

__all__ = ["MAX_SLICE_TOKENS", "BigramTable"]

MAX_SLICE_TOKENS = TREE_ROWS - 1
"""Maximum rows of one forward: a tree has 64 rows, of which the prefix takes the first."""


class BigramTable:
    """A table that grows until every token of the vocabulary has its row.

    Attributes:
        trouble: Why an existing file could not be used; None if it could, or if there was none.
    """

    def __init__(self, runner: Runner, path: Path | None = None) -> None:
        """Continues from the stored table.

        Args:
            runner: The model; called only by `extend`.
            path: The table's file; `bigrams_file` of the model by default.
        """
        from spectrie import _core

        self._runner = runner
        self._path = bigrams_file(runner.model_hash) if path is None else path
        self.trouble: str | None = None
        rows = (runner.vocabulary_size, _core.CPU_TOP_K)
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
        """Rows of the whole table: the size of the vocabulary."""
        return len(self._ids)

    @property
    def num_known(self) -> int:
        """Rows computed so far."""
        return len(self._ids) - len(self._missing)

    @property
    def is_complete(self) -> bool:
        """Whether every token has its row."""
        return not len(self._missing)

    @property
    def path(self) -> Path | None:
        """The table's file; None if there is no cache folder."""
        return self._path

    @property
    def max_pages(self) -> int:
        """Maximum pages that a call of `extend` overwrites."""
        # Without a prefix each token is a request, with pages of its own.
        size = self._runner.page_size
        return -(-TREE_ROWS // size) if len(self._runner.bigram_prefix) else MAX_SLICE_TOKENS

    def extend(self, max_tokens: int, pages: Sequence[int] | None = None) -> int:
        """Computes the next rows in one forward; returns their number, 0 if the table is complete.

        Args:
            max_tokens: Maximum rows; also limited by `MAX_SLICE_TOKENS` and the pages.
            pages: Pages to overwrite, at most `max_pages`; None if the whole cache is free because
                no engine uses it.
        """
        runner = self._runner
        pages = range(runner.num_pages) if pages is None else pages
        prefix = len(runner.bigram_prefix)
        room = len(pages) * runner.page_size - prefix if prefix else len(pages)
        tokens = self._missing[: max(min(max_tokens, TREE_ROWS - max(prefix, 1), room), 0)]
        if not len(tokens):
            return 0
        result = runner.step(self._plan(tokens.tolist(), pages))
        self._ids[tokens] = np.maximum(result.top_ids, 0)
        self._probabilities[tokens] = result.top_probabilities
        self._missing = self._missing[len(tokens) :]
        return len(tokens)

    def freeze(self) -> _core.Bigrams:
        """Returns the table in its current state, for an engine."""
        from spectrie import _core

        return _core.Bigrams(self._ids, self._probabilities)

    def save(self) -> bool:
        """Writes the file unless it has as many rows already; returns whether it exists now.

        Raises:
            ValueError: The file cannot be written; the message has the reason.
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
        """Returns a tree of the prefix and its children, verified like any draft. No state survives
        between plans, so that requests may overwrite the pages in between.
        """
        page_size = self._runner.page_size
        prefix = self._runner.bigram_prefix
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
