"""The real model: equal to transformers, and equal to itself bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spectrie.model import load_runner, machine, resolve
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder, CpuWeights
from spectrie.model.decoder.sizing import CacheSize
from spectrie.model.drafters import shipped_heads
from spectrie.model.files.weights import Weights
from spectrie.model.plan import StepPlan
from tests.model.stepping import in_pieces

pytestmark = pytest.mark.model

TEXT = Path(__file__).parent.joinpath("decoder", "test_decoder.py")
NATIVE_BF16 = bool(machine.bf16_flags())
DTYPES = ["float32", *(["bfloat16"] if NATIVE_BF16 else [])]


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve("smollm2-135m").folder


@pytest.fixture(scope="module")
def ids(folder: Path) -> list[int]:
    from transformers import AutoTokenizer

    encoded = AutoTokenizer.from_pretrained(folder)(TEXT.read_text())["input_ids"]
    return [int(token) for token in encoded[:300]]


def test_logits_equal_transformers(folder: Path, ids: list[int]) -> None:
    from transformers import AutoModelForCausalLM

    runner = load_runner(folder, dtype="float32", num_pages=64)
    ours = in_pieces(runner, ids, [len(ids)], list(range(20)))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        theirs = model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-4)
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_logit_bytes_do_not_depend_on_company(folder: Path, ids: list[int], dtype: str) -> None:
    runner = load_runner(folder, dtype=dtype, num_pages=128)
    assert runner.exact
    whole = in_pieces(runner, ids, [len(ids)], list(range(20)))
    assert torch.equal(whole, in_pieces(runner, ids, [7, 1, 120, 2, 170], list(range(40, 20, -1))))
    for threads in (1, 2):
        runner.set_threads(threads)
        # One row, and one row among others, at every batch size up to a chunk.
        pages = list(range(60, 80))
        in_pieces(runner, ids[:120], [120], pages)
        for rows in (1, 2, 3, 5, 8, 16, 17, 33, 64, 129) if threads == 1 else (1, 9, 130):
            plan = StepPlan.single(ids[120 : 120 + rows], kv_len=120, pages=pages)
            assert torch.equal(runner.forward(plan), whole[120 : 120 + rows]), rows
        # A tree whose likely path is spread among wrong nodes.
        path = ids[120:126]
        nodes, parents = [path[0]], [-1]
        for depth, token in enumerate(path[1:]):
            above = nodes.index(path[depth], max(0, 3 * depth - 2))
            nodes += [11, 12, token]
            parents += [above, above, above]
        plan = StepPlan.single(nodes, kv_len=120, pages=pages, parents=parents)
        logits = runner.forward(plan)
        for depth in range(6):
            assert torch.equal(logits[3 * depth], whole[120 + depth]), depth


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_take_little_more_memory_than_their_numbers(
    folder: Path, dtype: torch.dtype
) -> None:
    config, weights = ModelConfig.from_folder(folder), Weights(folder)
    parts = CpuWeights(
        config,
        weights,
        dtype=str(dtype).removeprefix("torch."),
        threads=2,
        report=lambda line: None,
    )
    decoder = CpuDecoder(config, parts, CacheSize(4, 0, 64), max_batch_rows=64, threads=1)
    # The tied table counts once; norms are a thousandth.
    numbers = config.vocabulary_size * config.hidden_size
    queries = config.num_heads * config.head_dim
    per_layer = (config.qkv_size + queries + 3 * config.intermediate_size) * config.hidden_size
    least = (numbers + config.num_layers * per_layer) * dtype.itemsize
    assert least <= decoder.num_bytes <= 1.02 * least


@pytest.mark.parametrize(
    "name", [name for name in shipped_heads() if name.startswith("smollm2-135m-")]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_head_that_ships_for_it_is_found_and_runs(folder: Path, name: str, dtype: str) -> None:
    runner = load_runner(folder, dtype=dtype, num_pages=64, drafter="auto", device="cpu")
    assert runner.drafter is not None, runner.why_no_drafter
    assert (runner.drafter.name, runner.drafter.is_for_model) == (name, True)
    assert runner.drafter.namespaces is None


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_a_prompt_of_8000_tokens_goes_on_the_same_with_and_without_drafts(folder: Path) -> None:
    from spectrie import LLM

    text = Path(torch.__file__).parent.joinpath("_tensor.py").read_text()
    answers = []
    for speculation in (False, True):
        with LLM(folder, dtype="float32", speculation=speculation) as llm:
            prompt = llm.tokenizer.encode(text)[:8000]
            answers.append(llm.generate(prompt_token_ids=prompt, max_tokens=48, temperature=0.0))
    assert answers[0].usage.prompt_tokens == 8000
    assert len(answers[0].token_ids) == 48
    assert answers[0].token_ids == answers[1].token_ids
