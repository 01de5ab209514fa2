"""Whether the logits of a row are the same bytes in every kind of step, on this device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from spectrie.errors import ConfigError
from spectrie.model.plan import StepPlan
from spectrie.model.runner.runner import Runner

__all__ = ["check_rows", "same"]

_PATH = 4
"""Rows whose logits are compared."""
_PROMPT = 200
"""Tokens before them, where there is room: more than attention keeps in one part."""
_PIECES = (1, 5, 66, 30)
"""Rows of the first steps of a prompt in pieces."""
_COMPANY = (1, 15, 31, 63, 64, 127)
"""Rows of another request in a step: to either side of the sizes that products are cut for."""


def check_rows(runner: Runner) -> None:
    """Compares the logits of rows alone with those of the same rows in other steps.

    Overwrites the cache's first pages: call it before serving.

    Raises:
        ConfigError: Some logits differ; the message says where. Or the cache is too small to tell.
    """
    room = min(runner.max_context, runner.num_pages // 2 * runner.page_size)
    prompt = min(_PROMPT, room - 2 * _PATH)
    if prompt < 1:
        raise ConfigError(
            f"gpu_arithmetic is 'exact', which is checked with a context of {2 * _PATH + 1} tokens and "
            f"two such requests in the cache: the cache has {runner.num_pages} pages, max_context is "
            f"{runner.max_context}"
        )
    check = _Check(runner, prompt)
    expected = check.alone()
    for form, logits in check.forms():
        if not same(logits, expected[: len(logits)]):
            raise ConfigError(
                f"gpu_arithmetic is 'exact', but on {runner.device_name} the logits of a row {form} "
                "have other bytes than those of the row alone: choose 'fast', and please report this"
            )


def same(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    """Returns whether two float32 tensors hold the same bytes."""
    return torch.equal(logits.view(torch.int32), expected.view(torch.int32))


class _Check:
    """A request's prompt and path on the first pages, and another request on the pages after."""

    def __init__(self, runner: Runner, prompt: int) -> None:
        self._runner = runner
        self._prompt = prompt
        self._most = runner.info.max_batch_rows
        pages = -(-(prompt + 2 * _PATH) // runner.page_size)
        self._pages = range(pages)
        self._others = range(pages, 2 * pages)
        # Unlike their neighbours, and each below the size of the vocabulary.
        self._tokens = [i * 7919 % runner.vocabulary_size for i in range(prompt + _PATH)]

    def alone(self) -> torch.Tensor:
        """Returns the logits of the path, a row at a time."""
        self._fed(self._prompt, [self._prompt])
        ends = range(self._prompt, self._prompt + _PATH)
        return torch.cat([self._logits(self._chunk(end, end + 1)) for end in ends])

    def forms(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields steps of other forms, and the logits of the path's first rows in them."""
        start, end = self._prompt, len(self._tokens)
        yield "at the end of a prompt", self._fed(end, [end])
        yield "at the end of a prompt in pieces", self._fed(end, _PIECES)
        if 2 * _PATH <= self._most:
            yield "in a tree", self._logits(self._tree())
        for rows in _COMPANY:
            if rows < min(self._most, end):
                row = self._chunk(start, start + 1)
                others = self._chunk(0, rows, range(rows), self._others)
                yield f"beside {rows} others", self._logits(StepPlan.joined([row, others]))[:1]
                yield f"after {rows} others", self._logits(StepPlan.joined([others, row]))[-1:]

    def _fed(self, total: int, sizes: Sequence[int]) -> torch.Tensor:
        """Computes the first `total` tokens in steps of these sizes, then of the largest; returns the
        logits of the last rows."""
        done, parts = 0, []
        left = iter(sizes)
        while done < total:
            end = min(done + min(next(left, self._most), self._most), total)
            rows = end - done
            parts.append(self._logits(self._chunk(done, end, range(max(rows - _PATH, 0), rows))))
            done = end
        return torch.cat(parts)[-_PATH:]

    def _chunk(
        self, start: int, end: int, read: Sequence[int] = (0,), pages: Sequence[int] | None = None
    ) -> StepPlan:
        """Tokens from `start` to `end`, and the logits of the rows `read`."""
        return StepPlan.single(
            self._tokens[start:end],
            kv_len=start,
            pages=self._pages if pages is None else pages,
            sample_rows=read,
            page_size=self._runner.page_size,
        )

    def _tree(self) -> StepPlan:
        """The path as a tree: behind each of its rows a wrong sibling of the next."""
        path = self._tokens[self._prompt :]
        wrong = [(token + 1) % self._runner.vocabulary_size for token in path]
        return StepPlan.single(
            [token for both in zip(path, wrong, strict=True) for token in both],
            kv_len=self._prompt,
            pages=self._pages,
            parents=[parent for row in range(_PATH) for parent in (2 * row - 2, 2 * row)],
            sample_rows=range(0, 2 * _PATH, 2),
            page_size=self._runner.page_size,
        )

    def _logits(self, plan: StepPlan) -> torch.Tensor:
        # A copy: the next step may overwrite them.
        return self._runner.forward(plan).to("cpu", copy=True)
