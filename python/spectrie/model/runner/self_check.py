"""Whether the logits of a row are the same bytes in every kind of step, on this device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

import spectrie_kernels
from spectrie.errors import ConfigError
from spectrie.model.decoder.decoder import DecoderWeights
from spectrie.model.decoder.linear import (
    ExactLinear,
    ExactSegments,
    ExactSums,
    ExpertLinear,
    RankSums,
)
from spectrie.model.decoder.mlp import Dense, Mixture
from spectrie.model.operators import Result
from spectrie.model.plan import StepPlan
from spectrie.model.runner.runner import Runner
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import PartialSums

__all__ = ["differing_form", "differing_products", "same"]

_PATH = 4
"""Rows whose logits are compared."""
_PROMPT = 200
"""Tokens before them, where there is room: more than attention keeps in one part."""
_PIECES = (1, 5, 66, 30)
"""Rows of the first steps of a prompt in pieces."""
_COMPANY = (1, 15, 31, 63, 64, 127, 191, 255, 383, 511, 512)
"""Rows beside one in a step: to either side of the sizes that products are cut for, in the larger sizes of
recorded steps, and beyond them."""
_READ = 127
"""Most rows of these whose logits are computed too."""
_CHECKED = (ExactLinear, ExactSegments, ExactSums, RankSums, ExpertLinear)


def differing_form(runner: Runner, *, is_asked: bool = True) -> str | None:
    """Compares the logits of rows alone with those of the same rows in other steps.

    Overwrites the cache's first pages: call it before serving.

    Args:
        runner: On a GPU, with exact arithmetic.
        is_asked: Whether exactness was asked for by name.

    Returns:
        In which step the logits of a row have other bytes; None if they have the same in all.

    Raises:
        ConfigError: The cache is too small to tell, and exactness was asked for.
    """
    room = min(runner.max_context, runner.num_pages // 2 * runner.page_size)
    prompt = min(_PROMPT, room - 2 * _PATH)
    if prompt < 1:
        if not is_asked:
            return "beside others cannot be checked in so small a cache, and may"
        raise ConfigError(
            f"gpu_arithmetic is 'exact', which is checked with a context of {2 * _PATH + 1} tokens and "
            f"two such requests in the cache: the cache has {runner.num_pages} pages, max_context is "
            f"{runner.max_context}"
        )
    check = _Check(runner, prompt)
    expected = check.alone()
    for form, logits in check.forms():
        if not same(logits, expected[: len(logits)]):
            return form
    return None


@torch.inference_mode()
def differing_products(weights: DecoderWeights) -> list[str]:
    """Returns the products, by name and shape, in which the bytes of a row depend on the rows beside it."""
    first = weights.layers[0]
    products: dict[str, object] = {
        "qkv": first.qkv,
        "output": first.output,
        "head": weights.head,
    }
    dense = next((one.mlp for one in weights.layers if isinstance(one.mlp, Dense)), None)
    mixture = next((one.mlp for one in weights.layers if isinstance(one.mlp, Mixture)), None)
    if dense is not None:
        products |= {"gate_up": dense.gate_up, "down": dense.down}
    if mixture is not None:
        products |= {"router": mixture.router}
        products |= {"experts' gate_up": mixture.gate_up, "experts' down": mixture.down}
    found = []
    for name, product in products.items():
        if isinstance(product, _CHECKED) and _depends_on_company(product):
            weight = product.weight
            found.append(f"{name} of {weight.out_features} x {weight.in_features}")
    return found


def _depends_on_company(
    product: ExactLinear | ExactSegments | ExactSums | RankSums | ExpertLinear,
) -> bool:
    values = product.weight.values
    generator = torch.Generator(values.device).manual_seed(1)
    shape = (1 + _COMPANY[-1], product.weight.in_features)
    x = torch.randn(shape, generator=generator, device=values.device).to(values.dtype)
    scratch = Scratch(values.device)

    def rows(count: int) -> torch.Tensor:
        if not isinstance(product, ExpertLinear):
            return _finished(product(x[:count], scratch)).clone()
        # All rows choose the same experts, whose tiles are then as high as they get.
        ids = torch.arange(product.num_chosen, dtype=torch.int32, device=x.device)
        work = product.work(ids.repeat(count, 1), scratch)
        return product(x[:count], work, scratch).view(count, -1).float()

    alone = rows(1)
    return any(not same(rows(1 + count)[:1], alone) for count in _COMPANY)


def _finished(result: Result) -> torch.Tensor:
    if not isinstance(result, PartialSums):
        return result.float()
    out = torch.empty(result.shape, dtype=torch.float32, device=result.values.device)
    return spectrie_kernels.finish_sums(result, out)


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
            if rows < self._most:
                row = self._chunk(start, start + 1)
                others = self._company(rows)
                yield f"beside {rows} others", self._logits(StepPlan.joined([row, *others]))[:1]
                yield f"after {rows} others", self._logits(StepPlan.joined([*others, row]))[-1:]

    def _company(self, rows: int) -> list[StepPlan]:
        """Requests of so many rows together. Those that have no pages of their own write what is there."""
        most = len(self._tokens)
        return [
            self._chunk(
                0,
                min(most, rows - first),
                range(max(0, min(most, rows - first, _READ - first))),
                self._others,
            )
            for first in range(0, rows, most)
        ]

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
