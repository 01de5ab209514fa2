"""`python -m tests.model.torch_free CASES`: what a worker on a CPU computes, as JSON; imports no torch itself."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from spectrie.llm import LLM
from spectrie.model import load_runner
from spectrie.model.plan import StepPlan
from spectrie.model.runner.bigrams import BigramTable
from spectrie.model.sources.resolution import resolve
from tests.model.drafters.session import Request, draft_path, feed

__all__ = ["MISSING", "answers"]

MISSING = ("torch", "triton", "spectrie_kernels", "transformers")
"""What a worker on a CPU does without."""

_PROMPT = "def hello world return hello"
_LENGTH: dict[str, Any] = {"max_tokens": 24, "ignore_eos": True, "temperature": 0.0}


def answers(cases: dict[str, Any], device: str) -> dict[str, Any]:
    """Returns tokens of each model with a tokenizer, hashes of its bigrams and drafts, and of the others' logits.

    Args:
        cases: `model`, `head`, `gguf`, and `folders` of models of other families.
        device: As an option names it.
    """
    found: dict[str, Any] = {}
    for dtype in ("float32", "bfloat16"):
        found[dtype] = _tokens(cases["model"], cases["head"], dtype, device)
        found[f"drafts {dtype}"] = _drafts(cases["model"], cases["head"], dtype, device)
        for folder in cases["folders"]:
            found[f"{Path(folder).name} {dtype}"] = _logits(folder, dtype, device)
    converted = resolve(cases["gguf"]).folder
    found["gguf"] = _logits(str(converted), "float32", device)
    found["bigrams"] = _bigrams(cases["model"], device)
    return found


def _tokens(model: str, head: str, dtype: str, device: str) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": dtype, "device": device, "threads": 1, "num_pages": 64}
    with LLM(model, drafter=head, **options) as llm:
        ways: dict[str, dict[str, Any]] = {
            "greedy": _LENGTH,
            "sampled": _LENGTH | {"temperature": 0.9, "top_p": 0.8, "seed": 7},
            "grammar": {"max_tokens": 24, "temperature": 0.0, "regex": "(ab|cd){3}"},
        }
        found = {name: llm.generate(_PROMPT, **way) for name, way in ways.items()}
    # Not how many were drafted: that follows from the times of forwards.
    return {name: list(one.token_ids) for name, one in found.items()}


def _drafts(model: str, head: str, dtype: str, device: str) -> str:
    runner = load_runner(model, dtype=dtype, device=device, threads=1, num_pages=16, drafter=head)
    request = Request(runner, range(4))
    feed(request, range(20, 40), 20)
    digest = hashlib.sha256()
    for one in draft_path(request, [5, 6], [1, 2]):
        for array in (one.ids, one.probabilities, one.scored):
            digest.update(array.tobytes())
    return digest.hexdigest()


def _logits(folder: str, dtype: str, device: str) -> str:
    runner = load_runner(folder, dtype=dtype, device=device, threads=1, num_pages=4)
    plan = StepPlan.single([5, 9, 4, 7], kv_len=0, pages=[0], parents=[-1, 0, 0, 1])
    return hashlib.sha256(runner.step(plan).on_host().tobytes()).hexdigest()


def _bigrams(model: str, device: str) -> str:
    runner = load_runner(model, dtype="float32", device=device, threads=1, num_pages=64)
    table = BigramTable(runner, Path(model) / "bigrams")
    while table.extend(64):
        pass
    ids, probabilities = table.freeze().rows()
    return hashlib.sha256(ids.tobytes() + probabilities.tobytes()).hexdigest()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    result = answers(given["cases"], given["device"])
    loaded = sorted({name.partition(".")[0] for name, module in sys.modules.items() if module})
    print(json.dumps({"answers": result, "loaded": loaded}))
