"""Operators on a GPU: the kernels of `spectrie_kernels`, whose rows do not depend on one another.

Tested on CPU tensors, for which the kernels use their torch form; it has not run on a GPU yet.
"""

from __future__ import annotations

import torch

import spectrie_kernels
from spectrie.model.operators.base import OperatorSettings, Result
from spectrie.model.operators.reference import ReferenceOperators
from spectrie.model.plan import PlanArrays
from spectrie.model.step.input import StepInput
from spectrie.model.step.packed import StepShape, attention_rows
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import AttentionArrays, AttentionLayout, AttentionTiles, DrawRows, PartialSums

__all__ = ["GpuOperators"]


class GpuOperators(ReferenceOperators):
    """Launches one to three kernels for each operator; results go to the scratch."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Allocates the cache."""
        super().__init__(settings)
        config = settings.config
        self.shape = StepShape(
            group=config.num_heads // config.num_kv_heads,
            kv_heads=settings.model_kv_heads,
            windows=tuple(dict.fromkeys(config.layer_windows)),
            page_size=settings.page_size,
            vocabulary=config.vocabulary_size,
        )
        """What steps are packed for."""
        self._tiles = AttentionTiles.of(
            config.head_dim,
            settings.dtype.itemsize,
            heads=(self.shape.group * settings.model_kv_heads, settings.model_kv_heads),
        )
        self._input: StepInput | None = None

    @property
    def device(self) -> torch.device:
        """Where all tensors are."""
        return self._settings.device

    @property
    def dtype(self) -> torch.dtype:
        """Number format of activations."""
        return self._settings.dtype

    @property
    def settings(self) -> OperatorSettings:
        """What they were made from."""
        return self._settings

    @property
    def input(self) -> StepInput:
        """What the step began with.

        Raises:
            ValueError: None has begun.
        """
        if self._input is None:
            raise ValueError("operators were called before begin")
        return self._input

    @property
    def tiles(self) -> AttentionTiles:
        """Attention's tiles."""
        return self._tiles

    def heights(self, widest: int) -> tuple[int, int]:
        """Returns the heights of attention's tiles: split form, prompts.

        Args:
            widest: Most rows of a request, or more.
        """
        return self._tiles.heights(self.shape.group, min(widest, 64))

    def begin(self, plan: PlanArrays) -> None:
        layout = AttentionLayout.of(
            attention_rows(plan, self.shape.page_size),
            group=self.shape.group,
            kv_heads=self.shape.kv_heads,
            tiles=self._tiles,
            windows=self.shape.windows,
            device=self.device,
        )
        self.begin_step(StepInput.of_plan(plan, layout), Scratch(self.device))

    def begin_step(self, step: StepInput, scratch: Scratch) -> None:
        """Accepts the arrays of the next forward and performs its cache moves.

        Args:
            step: On the device.
            scratch: Where results go from now on.
        """
        self._input = step
        self.scratch = scratch
        self.move(step.moves, step.num_moves)

    def move(self, moves: torch.Tensor, count: torch.Tensor) -> None:
        """Copies slots of the cache; see `spectrie_kernels.move_slots`."""
        spectrie_kernels.move_slots(self._keys, self._values, moves, count)

    def embed(self, table: torch.Tensor) -> torch.Tensor:
        tokens = self.input.tokens
        shape = (tokens.shape[0], table.shape[1])
        out = self.scratch.empty("residual", shape, torch.float32)
        return spectrie_kernels.embed(tokens, table, out)

    def add_norm(
        self, residual: torch.Tensor, delta: Result | None, weight: torch.Tensor
    ) -> torch.Tensor:
        if isinstance(delta, torch.Tensor):
            sums = delta.unsqueeze(0)
            if delta.dtype != torch.float32:
                sums = self.scratch.empty("delta", (1, *delta.shape), torch.float32)
                sums[0].copy_(delta)
            delta = PartialSums(sums)
        out = self.scratch.empty("normed", residual.shape, self._settings.dtype)
        epsilon = self._config.norm_epsilon
        return spectrie_kernels.add_norm(residual, delta, weight, epsilon, out)

    def layout(self, layer: int) -> AttentionLayout | AttentionArrays:
        """Returns what attention of a layer takes of the step."""
        return self.input.layout

    def attend(self, layer: int, qkv: Result) -> torch.Tensor:
        config, layout = self._config, self.layout(layer)
        rows, heads = qkv.shape[0], config.num_heads
        query = self.scratch.empty("query", (rows, heads, config.head_dim), self.dtype)
        self._rotate(layer, qkv, query)
        window = config.layer_windows[layer]
        elements = layout.work[window].workspace(heads, config.head_dim)
        attended = spectrie_kernels.tree_attention(
            query,
            self._keys[layer],
            self._values[layer],
            layout,
            config.head_dim**-0.5,
            window=window,
            out=self.scratch.empty("attended", query.shape, query.dtype),
            workspace=self.scratch.empty("parts", (elements,), torch.float32),
            first_key=self._settings.first_key,
        )
        return attended.flatten(1)

    def _rotate(self, layer: int, qkv: Result, query: torch.Tensor) -> None:
        """Writes the rows' keys and values, and their queries to `query` [rows, heads, head_dim]."""
        config, step = self._config, self.input
        spectrie_kernels.rotate_write(
            qkv,
            step.positions,
            step.slots,
            self._keys[layer],
            self._values[layer],
            query,
            rotation=(self._cosines, self._sines) if config.layer_rotary[layer] else None,
            norms=self._settings.head_norms[layer],
            epsilon=config.norm_epsilon,
        )

    def gate(self, gate_up: Result) -> torch.Tensor:
        shape = (gate_up.shape[0], gate_up.shape[1] // 2)
        out = self.scratch.empty("gated", shape, self._settings.dtype)
        return spectrie_kernels.gate(gate_up, out)

    def choose(
        self, scores: Result, num_chosen: int, normalised: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = self.input.tokens
        shape = (tokens.shape[0], num_chosen)
        ids = self.scratch.empty("experts", shape, torch.int32)
        shares = self.scratch.empty("shares", shape, torch.float32)
        spectrie_kernels.choose_experts(scores, tokens, ids, shares, normalised=normalised)
        return ids, shares

    def add_experts(
        self, results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        shape = (ids.shape[0], results.shape[1])
        out = self.scratch.empty("mixed", shape, torch.float32)
        return spectrie_kernels.add_experts(results, ids, shares, out)

    def gather(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        out = self.scratch.empty("gathered", (rows.shape[0], x.shape[1]), x.dtype)
        return spectrie_kernels.gather_rows(x, rows, out)

    def top_k(
        self,
        logits: torch.Tensor,
        ids: torch.Tensor,
        probabilities: torch.Tensor,
        rows: torch.Tensor | None = None,
    ) -> None:
        """As all operators', but for the rows with a negative number in `rows`, int32 [rows]."""
        num_rows, vocabulary = logits.shape
        elements = spectrie_kernels.top_k_workspace(num_rows, vocabulary, ids.shape[1])
        workspace = self._workspace(elements)
        spectrie_kernels.top_k(logits, ids, probabilities, rows=rows, workspace=workspace)

    def likeliest(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        """Writes the likeliest token of each row, the lowest id of equals, -1 if no largest is finite.

        Args:
            logits: float32 [rows, vocabulary].
            out: int32 [rows].
        """
        workspace = self._workspace(spectrie_kernels.row_argmax_workspace(*logits.shape))
        spectrie_kernels.row_argmax(logits, out, workspace=workspace)

    def draw(self, logits: torch.Tensor, rows: DrawRows, out: torch.Tensor) -> None:
        """Writes the token that each row's request draws; see `spectrie_kernels.draw`.

        Args:
            logits: float32 [rows, vocabulary].
            rows: What decides the tokens beside them.
            out: int32 [rows].
        """
        workspace = self._workspace(spectrie_kernels.draw_workspace(*logits.shape))
        spectrie_kernels.draw(logits, rows, out, workspace=workspace)

    def compact(self, step: StepInput, drawn: torch.Tensor) -> None:
        """Walks along the trees of a step whose forward is over, and brings what they accept to its place in
        the cache.

        Args:
            step: The step.
            drawn: int32 [any], the token drawn after each sampled row.
        """
        if step.walks is not None:
            walks = step.walks
            rows = step.tokens, walks.parents, step.slots
            spectrie_kernels.compact_slots(
                self._keys, self._values, drawn, rows, walks.trees, walks.count
            )

    def _workspace(self, elements: int) -> torch.Tensor:
        return self.scratch.empty("chosen", (elements,), torch.int64)
