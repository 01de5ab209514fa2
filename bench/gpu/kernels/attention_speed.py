"""What attention takes, for trees and prompts, beside torch's best and what the keys' bytes take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.gpu.check import Item, Settings, Wrong
from bench.gpu.clock import clock_of
from bench.gpu.goals import beside, share_of_copy, share_of_matrix
from bench.gpu.kernels.forest import Forest, Tensors, tensors
from bench.gpu.kernels.operands import dtype_of
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from spectrie_kernels import AttentionLayout, tree_attention

__all__ = ["items", "prompt_items"]

_TOLERANCE = 0.02
_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
# Of 8B, which has goals; then what differs in the group and size of heads.
_FOREST = (
    *(Forest(1, 8192, nodes) for nodes in (1, 16, 4, 64)),
    *(Forest(1, 32_768, nodes) for nodes in (1, 16, 4, 64)),
    *(Forest(32, 4096, nodes) for nodes in (1, 4)),
    *(Forest(1, 16_384, nodes) for nodes in (1, 16, 4, 64)),
    *(Forest(1, 4096, nodes) for nodes in (1, 4, 16, 64)),
    *(Forest(1, 1024, nodes) for nodes in (1, 4, 16, 64)),
    Forest(64, 1024, 1),
)
_OTHERS = (Forest(1, 8192, 1), Forest(1, 8192, 16), Forest(64, 1024, 1))
_DRY = (Forest(1, 200, 1), Forest(2, 40, 4))
_PROMPTS = (Forest(1, 0, 2048, True), Forest(1, 6144, 2048, True), Forest(4, 0, 512, True))
_DRY_PROMPTS = (Forest(1, 20, 70, True),)
_COMPILED = ((8192, 1), (8192, 16))
"""Cached keys and nodes for which FlexAttention is compiled, which takes it seconds."""


_Times = dict[tuple[str, int, int, int], float]


def items(settings: Settings) -> Iterator[Item]:
    """Steps of trees; one with one node is plain decoding."""
    before: _Times = {}
    if settings.dry:
        yield from (_item(settings, TINY, one, before) for one in _DRY)
        return
    *others, largest = MODELS
    yield from (_item(settings, largest, one, before) for one in _FOREST)
    yield from (_item(settings, model, one, before) for model in others[::-1] for one in _OTHERS)


def prompt_items(settings: Settings) -> Iterator[Item]:
    """Chunks of prompts."""
    if settings.dry:
        yield from (_item(settings, TINY, one, {}) for one in _DRY_PROMPTS)
        return
    yield from (_item(settings, MODELS[-1], one, {}) for one in _PROMPTS)


def _item(settings: Settings, model: ModelShape, forest: Forest, before: _Times) -> Item:
    name = f"{model.name}, {forest.name}"
    return Item(name, partial(_measure, settings, model, forest, before))


def _measure(
    settings: Settings, model: ModelShape, forest: Forest, before: _Times
) -> dict[str, Any]:
    clock = clock_of(settings.dry)
    layout = forest.layout(model, settings)
    given = tensors(forest, model, layout, settings)
    ours = _ours(given, model, layout)
    took = clock.microseconds(ours, cold=True)
    rivals: dict[str, float | str] = {}
    difference: float | None = None
    for name, action in _rivals(forest, model, given, settings):
        try:
            answer = action()
        except (RuntimeError, torch._dynamo.exc.TorchDynamoException) as error:
            rivals[name] = f"cannot: {str(error).strip().partition(chr(10))[0][:100]}"
            continue
        if difference is None:
            difference = float((ours().float() - answer.float()).abs().max())
        rivals[name] = round(clock.microseconds(action, cold=True), 2)
    values = _shares(settings, model, forest, took, rivals)
    values |= {"microseconds": round(took, 2), "rivals": rivals, "difference": difference}
    key = (model.name, forest.requests, forest.kv_len)
    before[*key, forest.rows] = took
    if forest.rows == 16 and (*key, 1) in before:
        values["goals"].append(beside("attention 16 nodes over 1", took / before[*key, 1]))
    if difference is None or not difference <= _TOLERANCE:
        raise Wrong(f"differs from torch by {difference}, allowed {_TOLERANCE}", values)
    return values


def _ours(given: Tensors, model: ModelShape, layout: AttentionLayout) -> Callable[[], torch.Tensor]:
    out = torch.empty_like(given.query)
    elements = layout.work[None].workspace(model.heads, model.head_dim)
    workspace = torch.empty(max(1, elements), device=out.device)
    return partial(
        tree_attention,
        given.query,
        given.keys,
        given.values,
        layout,
        model.head_dim**-0.5,
        out=out,
        workspace=workspace,
    )


def _rivals(
    forest: Forest, model: ModelShape, given: Tensors, settings: Settings
) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """Torch's attention over contiguous keys, by every one of its kernels; then FlexAttention."""
    query = given.query.view(forest.requests, forest.rows, model.heads, model.head_dim)
    query = query.transpose(1, 2).contiguous()
    mask = None
    if not forest.chunk and forest.rows > 1:
        past = torch.ones(forest.rows, forest.kv_len, dtype=torch.bool)
        mask = torch.cat([past, forest.visible()], dim=1).to(query.device)
    elif forest.chunk and forest.kv_len:
        ends = torch.arange(forest.kv_len, forest.kv_len + forest.rows, device=query.device)
        mask = torch.arange(forest.kv_len + forest.rows, device=query.device) <= ends[:, None]
    causal = forest.chunk and not forest.kv_len
    for name, backend in _BACKENDS.items():
        yield name, partial(_attended, forest, query, given.dense, mask, causal, backend)
    if settings.dry or (forest.requests == 1 and (forest.kv_len, forest.rows) in _COMPILED):
        yield "flex", _flex(forest, query, given.dense, mask, settings)


def _attended(
    forest: Forest,
    query: torch.Tensor,
    dense: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    causal: bool,
    backend: SDPBackend,
) -> torch.Tensor:
    group = query.shape[1] // dense[0].shape[1]
    with contextlib.ExitStack() as stack:
        stack.enter_context(sdpa_kernel(backend))
        if forest.rows == 1:
            # Heads of a group are rows of one head: their keys are then read once.
            grouped = query.view(*dense[0].shape[:2], group, query.shape[3])
            answer = functional.scaled_dot_product_attention(grouped, *dense)
            return answer.reshape(-1, query.shape[1], query.shape[3])
        answer = functional.scaled_dot_product_attention(
            query, *dense, attn_mask=mask, is_causal=causal, enable_gqa=group > 1
        )
        return answer.transpose(1, 2).flatten(0, 1)


def _flex(
    forest: Forest,
    query: torch.Tensor,
    dense: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    settings: Settings,
) -> Callable[[], torch.Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    attend: Any = flex_attention if settings.dry else torch.compile(flex_attention)
    block = None
    if mask is not None:
        rows, keys = mask.shape

        def sees(_batch: Any, _head: Any, row: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return mask[row, key]

        block = create_block_mask(sees, None, None, rows, keys, device=str(query.device))
    group = query.shape[1] // dense[0].shape[1]

    def action() -> torch.Tensor:
        answer: torch.Tensor = attend(query, *dense, block_mask=block, enable_gqa=group > 1)
        return answer.transpose(1, 2).flatten(0, 1)

    return action


def _shares(
    settings: Settings,
    model: ModelShape,
    forest: Forest,
    took: float,
    rivals: dict[str, float | str],
) -> dict[str, Any]:
    device = settings.device
    goals: list[dict[str, Any]] = []
    values: dict[str, Any] = {"goals": goals}
    times = [us for us in rivals.values() if isinstance(us, float)]
    if times:
        values["torch_over_ours"] = round(min(times) / took, 3)
        goals.append(beside("torch's best over attention", min(times) / took))
    if forest.chunk:
        pairs = forest.rows * (forest.kv_len + (forest.rows + 1) / 2)
        operations = 4 * forest.requests * pairs * model.heads * model.head_dim
        return values | {"share_of_matrix": share_of_matrix(operations, took, device)}
    share = share_of_copy(forest.kv_bytes(model, dtype_of(settings).itemsize), took, device)
    if (model, forest) == (MODELS[-1], Forest(1, 8192, 1)):
        goals.append(beside("attention 1 x 8k, microseconds", took))
    if (model, forest) == (MODELS[-1], Forest(1, 32_768, 1)):
        goals.append(beside("attention 1 x 32k, share of copy", share))
    if (model, forest) == (MODELS[-1], Forest(32, 4096, 1)):
        goals.append(beside("attention 32 x 4k, share of copy", share))
    return values | {"share_of_copy": share}
