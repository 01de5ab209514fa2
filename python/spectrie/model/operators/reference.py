"""The operators in plain torch, on any device: their definition, without guarantees about bits."""

from __future__ import annotations

import torch
from torch.nn import functional

import spectrie_kernels
from spectrie.model.operators.base import TOP_K, Operators, OperatorSettings, Result
from spectrie.model.plan import PlanArrays
from spectrie.model.step.scratch import Scratch

__all__ = ["ReferenceOperators"]


class ReferenceOperators(Operators):
    """Operators on tensors of any device; the cache is `[slots, kv_heads, head_dim]` per layer."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Allocates the cache."""
        config = settings.config
        self._settings = settings
        self._config = config
        self.scratch = Scratch(settings.device)
        slots = settings.num_pages * settings.page_size
        shape = (config.num_layers, slots, config.num_kv_heads, config.head_dim)
        self._keys = torch.zeros(shape, dtype=settings.dtype, device=settings.device)
        self._values = torch.zeros_like(self._keys)
        cosines, sines = config.rope.tables(settings.max_context)
        self._cosines = torch.from_numpy(cosines).to(settings.device)
        self._sines = torch.from_numpy(sines).to(settings.device)

    def _ids(self, values: object) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.int64).to(self._settings.device)

    def begin(self, plan: PlanArrays) -> None:
        for source, target in zip(
            plan.kv_move_src.tolist(), plan.kv_move_dst.tolist(), strict=True
        ):
            self._keys[:, target] = self._keys[:, source]
            self._values[:, target] = self._values[:, source]
        self._tokens = self._ids(plan.row_token)
        self._slots = self._ids(plan.row_slot)
        self._positions = self._ids(plan.row_position)
        # Per request: its rows, the slots of its logical indices, and which of them each row sees,
        # at which position.
        self._requests = [self._request(plan, q) for q in range(len(plan.request_row_start))]

    def _request(
        self, plan: PlanArrays, q: int
    ) -> tuple[int, int, torch.Tensor, torch.Tensor, torch.Tensor]:
        start, count = int(plan.request_row_start[q]), int(plan.request_row_count[q])
        kv_len, size = int(plan.request_kv_len[q]), self._settings.page_size
        pages = self._ids(plan.page_ids[plan.page_indptr[q] : plan.page_indptr[q + 1]])
        logical = torch.arange(kv_len + count, device=pages.device)
        slots = pages[logical // size] * size + logical % size
        rows = torch.arange(count, device=pages.device)
        if plan.request_kind[q]:
            words = self._ids(plan.row_ancestors[start : start + count])
            tree = (words[:, None] >> rows[None, :]) & 1 == 1
        else:
            tree = rows[:, None] >= rows[None, :]
        visible = torch.cat([tree.new_ones(count, kv_len), tree], dim=1)
        positions = torch.cat([logical[:kv_len], self._positions[start : start + count]])
        return start, count, slots, visible, positions

    def embed(self, table: torch.Tensor) -> torch.Tensor:
        return functional.embedding(self._tokens, table).float()

    def add_norm(
        self, residual: torch.Tensor, delta: Result | None, weight: torch.Tensor
    ) -> torch.Tensor:
        if delta is not None:
            residual += _finished(delta, torch.float32).float()
        return self._normed(residual, weight).to(self._settings.dtype)

    def _prepared(self, heads: torch.Tensor, norm: torch.Tensor | None, layer: int) -> torch.Tensor:
        """Normalises and rotates `[rows, heads, head_dim]` in float32."""
        x = heads.float() if norm is None else self._normed(heads, norm)
        if not self._config.layer_rotary[layer]:
            return x
        half = self._config.rope.rotated // 2
        cosines = self._cosines[self._positions][:, None, :]
        sines = self._sines[self._positions][:, None, :]
        low, high, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        turned = [low * cosines - high * sines, high * cosines + low * sines, rest]
        return torch.cat(turned, dim=-1)

    def _normed(self, values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Normalises the last dimension, to float32; `weight` is as long."""
        x = values.float()
        mean = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean + self._config.norm_epsilon) * weight

    def _write(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        """Writes the rows' keys and values to the cache; returns the queries, float32 [rows, heads,
        head_dim]."""
        config = self._config
        heads = qkv.view(len(qkv), -1, config.head_dim)
        sizes = [config.num_heads, config.num_kv_heads, config.num_kv_heads]
        query, key, value = torch.split(heads, sizes, dim=1)
        query_norm, key_norm = self._settings.head_norms[layer] or (None, None)
        key = self._prepared(key, key_norm, layer)
        self._keys[layer, self._slots] = key.to(self._settings.dtype)
        self._values[layer, self._slots] = value
        return self._prepared(query, query_norm, layer)

    def attend(self, layer: int, qkv: Result) -> torch.Tensor:
        config = self._config
        qkv = _finished(qkv, self._settings.dtype)
        group = config.num_heads // config.num_kv_heads
        query = self._write(layer, qkv)
        out = qkv.new_zeros(qkv.shape[0], config.num_heads * config.head_dim)
        for start, count, slots, sees, positions in self._requests:
            rows = slice(start, start + count)
            window = config.layer_windows[layer]
            if window is not None:
                sees = sees & (positions[None, :] > self._positions[rows, None] - window)
            q = query[rows].transpose(0, 1)
            k = self._keys[layer, slots].float().transpose(0, 1).repeat_interleave(group, 0)
            v = self._values[layer, slots].float().transpose(0, 1).repeat_interleave(group, 0)
            scores = q @ k.transpose(1, 2) * config.head_dim**-0.5
            weights = scores.masked_fill(~sees, float("-inf")).softmax(dim=-1)
            out[rows] = (weights @ v).transpose(0, 1).flatten(1).to(out.dtype)
        return out

    def gate(self, gate_up: Result) -> torch.Tensor:
        gate, up = _finished(gate_up, self._settings.dtype).float().chunk(2, dim=-1)
        return (functional.silu(gate) * up).to(self._settings.dtype)

    def choose(
        self, scores: Result, num_chosen: int, normalised: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scores = _finished(scores, torch.float32)
        ids = scores.sort(dim=-1, descending=True, stable=True).indices[:, :num_chosen]
        shares = scores.softmax(dim=-1).gather(1, ids)
        if normalised:
            shares = shares / shares.sum(dim=-1, keepdim=True)
        return ids.int(), shares

    def add_experts(
        self, results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        weighted = results.float().view(*ids.shape, -1) * shares.unsqueeze(-1)
        return weighted.sum(dim=1)

    def gather(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return x[rows.long()]

    def top_k(self, logits: torch.Tensor, ids: torch.Tensor, probabilities: torch.Tensor) -> None:
        logits = logits.nan_to_num(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))
        values, likeliest = self._likeliest(logits)
        shares = (values - logits.logsumexp(dim=-1, keepdim=True)).exp()
        valid = (values > float("-inf")) & values[:, :1].isfinite()
        missing = TOP_K - likeliest.shape[1]
        ids.copy_(functional.pad(likeliest.where(valid, -1), (0, missing), value=-1))
        probabilities.copy_(functional.pad(shares.where(valid, 0.0), (0, missing)))

    def _likeliest(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns values and ids of the `TOP_K` greatest; ties go to the lowest id."""
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values[:, :TOP_K], ids[:, :TOP_K]


def _finished(result: Result, dtype: torch.dtype) -> torch.Tensor:
    """Returns a product as it is, or the sum of what it left, rounded to `dtype`."""
    if isinstance(result, torch.Tensor):
        return result
    out = torch.empty(result.shape, dtype=dtype, device=result.values.device)
    return spectrie_kernels.finish_sums(result, out)
