"""What drawing a token takes, by number of rows and by option, and finding the likeliest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.clock import clock_of
from bench.gpu.device import device_of
from bench.gpu.goals import share_of_copy
from bench.gpu.models.draws import OPTIONS, draw_rows
from spectrie_kernels import draw, draw_workspace, reference, row_argmax

__all__ = ["items"]

_ROWS = (1, 64, 16, 256)
_DRY_ROWS = (1,)
_VOCABULARY, _DRY_VOCABULARY = 151_936, 300
_COMPARED = 2
"""Rows whose tokens are compared with the plain form, which takes a second for each ten."""


def items(settings: Settings) -> Iterator[Item]:
    """One item for each number of rows."""
    for rows in _DRY_ROWS if settings.dry else _ROWS:
        yield Item(f"{rows} rows", partial(_measure, settings, rows))


def _measure(settings: Settings, rows: int) -> dict[str, Any]:
    device = device_of(settings.dry).torch_device
    vocabulary = _DRY_VOCABULARY if settings.dry else _VOCABULARY
    logits = torch.randn(rows, vocabulary, device=device) * 4
    out = torch.empty(rows, dtype=torch.int32, device=device)
    room = torch.empty(draw_workspace(rows, vocabulary), dtype=torch.int64, device=device)
    actions: dict[str, Callable[[], object]] = {"row_argmax": lambda: row_argmax(logits)}
    wrong = []
    if not torch.equal(
        row_argmax(logits).cpu(),
        reference.row_argmax(logits.cpu(), torch.empty(rows, dtype=torch.int32)),
    ):
        wrong.append("row_argmax")
    for name, options in (OPTIONS | {"all": _all_options()}).items():
        given = draw_rows(rows, vocabulary, device, options)
        actions[name] = partial(draw, logits, given, out, workspace=room)
        if not _is_right(logits, options):
            wrong.append(name)
    times = {name: clock_of(settings.dry).microseconds(one) for name, one in actions.items()}
    values = {
        "vocabulary": vocabulary,
        "microseconds": {name: round(us, 2) for name, us in times.items()},
        "argmax_share_of_copy": share_of_copy(
            4 * rows * vocabulary, times["row_argmax"], settings.device
        ),
    }
    if wrong:
        raise Wrong(f"other tokens than the plain form's: {', '.join(wrong)}", values)
    return values


def _all_options() -> dict[str, float]:
    named = {name: one for of in OPTIONS.values() for name, one in of.items()}
    return named | {"temperature": 0.8}


def _is_right(logits: torch.Tensor, options: dict[str, float]) -> bool:
    few = logits[:_COMPARED].contiguous()
    rows, vocabulary = few.shape
    drawn = draw(few, draw_rows(rows, vocabulary, few.device, options)).cpu()
    expected = torch.empty(rows, dtype=torch.int32)
    reference.draw(few.cpu(), draw_rows(rows, vocabulary, "cpu", options), expected)
    return torch.equal(drawn, expected)
