"""The tokens that the engine draws from logits are those of `spectrie_kernels`' plain form.

The kernels draw on a device what rust/sampling draws on the host; kernels/tests compares them with that
plain form.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from spectrie._core import Engine, Request
from spectrie._proto import worker_pb2
from spectrie_kernels import DrawRows, draw, reference

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = 501
STOP = 17
# Each option's neutral value, then others.
OPTIONS: dict[str, tuple[float, ...]] = {
    "temperature": (1.0, 0.0, 0.3, 0.9, 2.5),
    "top_k": (0, 1, 2, 7, 40, 500, 100_000),
    "top_p": (1.0, 1e-9, 0.2, 0.6, 0.9, 0.99, 0.9999),
    "min_p": (0.0, 0.001, 0.05, 0.4, 1.0),
    "typical_p": (1.0, 1e-6, 0.2, 0.7, 0.95),
    "repetition": (1.0, 0.5, 1.3),
    "frequency": (0.0, -0.7, 0.3),
    "presence": (0.0, -0.4, 1.1),
}


@dataclass
class Case:
    """One row: its request's options, the tokens before it, and what may not come."""

    options: dict[str, float]
    seed: int
    prompt: list[int]
    emitted: list[int]
    bias: dict[int, float]
    bad_words: list[list[int]]
    min_tokens: int

    @classmethod
    def random(cls, rng: np.random.Generator) -> Case:
        options = {
            name: float(rng.choice(values)) if rng.random() < 0.45 else values[0]
            for name, values in OPTIONS.items()
        }
        words = [rng.integers(0, 30, int(rng.integers(1, 3))).tolist() for _ in range(4)]
        return cls(
            options=options,
            seed=int(rng.integers(0, 2**64, dtype=np.uint64)),
            prompt=rng.integers(0, 30, int(rng.integers(1, 40))).tolist(),
            emitted=rng.integers(1, 17, int(rng.integers(0, 12))).tolist(),
            bias={int(token): float(rng.normal(0, 6)) for token in rng.integers(0, VOCABULARY, 3)}
            if rng.random() < 0.4
            else {},
            bad_words=words if rng.random() < 0.4 else [],
            min_tokens=20 if rng.random() < 0.3 else 0,
        )

    def request(self, handle: int) -> Request:
        options = self.options
        sampling = worker_pb2.SamplingParameters(
            temperature=options["temperature"],
            top_p=options["top_p"],
            top_k=int(options["top_k"]),
            min_p=options["min_p"],
            typical_p=options["typical_p"],
            frequency_penalty=options["frequency"],
            presence_penalty=options["presence"],
            repetition_penalty=options["repetition"],
            logit_bias=self.bias,
            bad_words=[worker_pb2.TokenIds(ids=word) for word in self.bad_words],
        )
        start = worker_pb2.Start(
            prompt_ids=self.prompt,
            emitted_token_ids=self.emitted,
            max_tokens=len(self.emitted) + 1,
            min_tokens=min(self.min_tokens, len(self.emitted) + 1),
            stop_token_ids=[STOP],
            sampling=sampling,
            choice_seed=self.seed,
            namespace="default",
        )
        return Request(start.SerializeToString(), handle=handle, speculate=False)

    def masked(self) -> list[int]:
        """Stop tokens while the answer is too short, and what would complete a bad word."""
        too_short = len(self.emitted) < min(self.min_tokens, len(self.emitted) + 1)
        ends = [
            word[-1]
            for word in self.bad_words
            if self.emitted[len(self.emitted) - len(word) + 1 :] == word[:-1]
            and len(word) <= len(self.emitted) + 1
        ]
        return [*([STOP, 0] if too_short else []), *ends]


def rows_of(cases: list[Case], num_path: list[int]) -> DrawRows:
    """The rows as a device gets them, the last `num_path` emitted tokens as drafts of a tree."""

    def column(name: str, dtype: type[np.generic]) -> torch.Tensor:
        return torch.from_numpy(np.array([case.options[name] for case in cases], dtype))

    def starts(lists: list[list[int]]) -> torch.Tensor:
        return torch.from_numpy(np.cumsum([0, *map(len, lists)]).astype(np.int32))

    def int32(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32)

    def flat(lists: list[list[int]]) -> torch.Tensor:
        return int32([one for each in lists for one in each])

    ends = [len(case.emitted) - path for case, path in zip(cases, num_path, strict=True)]
    said = [case.emitted[:end] for case, end in zip(cases, ends, strict=True)]
    path = [case.emitted[end:] for case, end in zip(cases, ends, strict=True)]
    seen = [sorted({*case.prompt, *own}) for case, own in zip(cases, said, strict=True)]
    counts = [[own.count(token) for token in all_] for all_, own in zip(seen, said, strict=True)]
    bias = [list(case.bias) for case in cases]
    masked = [case.masked() for case in cases]
    seeds = np.array([case.seed for case in cases], np.uint64)
    return DrawRows(
        seed=torch.from_numpy(seeds.view(np.int64)),
        position=int32([len(case.prompt) + len(case.emitted) for case in cases]),
        request=int32(list(range(len(cases)))),
        temperature=column("temperature", np.float32),
        top_k=column("top_k", np.int32),
        top_p=column("top_p", np.float32),
        min_p=column("min_p", np.float32),
        typical_p=column("typical_p", np.float32),
        repetition=column("repetition", np.float32),
        frequency=column("frequency", np.float32),
        presence=column("presence", np.float32),
        bias_start=starts(bias),
        bias_token=flat(bias),
        bias_value=torch.tensor([value for case in cases for value in case.bias.values()]),
        seen_start=starts(seen),
        seen_token=flat(seen),
        seen_count=flat(counts),
        path_start=starts(path),
        path_token=flat(path),
        masked_start=starts(masked),
        masked_token=flat(masked),
        allowed=torch.zeros((1, 1), dtype=torch.int32),
        allowed_row=torch.full((len(cases),), -1, dtype=torch.int32),
    )


def logits(rng: np.random.Generator, rows: int) -> NDArray[np.float32]:
    """Rows of several kinds in turn: any, with ties, with odd values, nearly flat."""
    values = rng.normal(0, 4, (rows, VOCABULARY)).astype(np.float32)
    values[1::4] = np.round(values[1::4])
    odd = np.array([0.0, -0.0, 1e-40, np.nan, -np.inf, 9.5], np.float32)
    values[2::4] = np.where(
        rng.random(values[2::4].shape) < 0.3, rng.choice(odd, values[2::4].shape), values[2::4]
    )
    values[3::4] *= np.float32(0.05)
    return values


def drawn_by_the_engine(case: Case, row: NDArray[np.float32], engine: Engine) -> int:
    """The token, or -1 where the request fails for want of one."""
    engine.submit(case.request(1))
    plan = engine.plan(0.0)
    assert plan is not None and len(plan.sample_rows) == 1
    output = engine.commit_logits(plan.plan_id, row.ctypes.data, 1, VOCABULARY, 1.0, 0.0)
    assert output.handles == [1] and output.finishes[0] is not None
    return output.token_ids[0] if output.token_ids else -1


def drawn_rows(count: int) -> tuple[list[int], torch.Tensor, DrawRows]:
    """The engine's tokens of random rows, their logits, and what decides them."""
    rng = np.random.default_rng(20)
    cases = [Case.random(rng) for _ in range(count)]
    values = logits(rng, count)
    engine = Engine(
        {
            "vocabulary_size": VOCABULARY,
            "eos_token_ids": [0],
            "num_pages": 32,
            "max_context": 200,
            "max_running": 1,
            "memory_bytes": 0,
            "speculation": "off",
        }
    )
    drawn = [
        drawn_by_the_engine(case, row, engine) for case, row in zip(cases, values, strict=True)
    ]
    paths = [int(rng.integers(0, len(case.emitted) + 1)) for case in cases]
    return drawn, torch.from_numpy(values), rows_of(cases, paths)


def tensors_of(rows: DrawRows) -> dict[str, torch.Tensor]:
    return {
        field.name: getattr(rows, field.name)
        for field in dataclasses.fields(rows)
        if field.name != "cuts"
    }


def test_the_engine_draws_the_tokens_of_the_plain_form() -> None:
    drawn, values, rows = drawn_rows(10_000)
    out = torch.empty(len(drawn), dtype=torch.int32)
    assert drawn == reference.draw(values, rows, out).clamp(min=-1).tolist()
    assert len(set(drawn)) > 300


@pytest.mark.parametrize(
    "count",
    [100, pytest.param(10_000, marks=[pytest.mark.deep, pytest.mark.timeout(7200)])],
)
def test_the_engine_draws_the_tokens_of_the_interpreted_kernels(count: int, tmp_path: Path) -> None:
    drawn, values, rows = drawn_rows(count)
    given, tokens = tmp_path / "rows.pt", tmp_path / "tokens.pt"
    torch.save({"logits": values, **tensors_of(rows)}, given)
    subprocess.run(
        [sys.executable, "-m", "tests.engine.interpreted_draws", str(given), str(tokens)],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        check=True,
    )
    assert drawn == torch.load(tokens).clamp(min=-1).tolist()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_engine_draws_the_tokens_of_the_kernels() -> None:
    drawn, values, rows = drawn_rows(10_000)
    tensors: dict[str, Any] = {name: one.cuda() for name, one in tensors_of(rows).items()}
    tokens = draw(values.cuda(), dataclasses.replace(rows, **tensors))
    assert drawn == tokens.clamp(min=-1).tolist()
