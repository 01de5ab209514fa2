"""Mixtures of experts: what `config.json` says about them, and the same bits in every batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from spectrie.errors import ModelError
from spectrie.llm import LLM
from spectrie.model import load_runner
from spectrie.model.config.mixture import MixtureConfig
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder, CpuWeights
from spectrie.model.decoder.sizing import CacheSize
from spectrie.model.files.weights import Weights
from spectrie.model.plan import StepPlan
from tests.model.families import save_family
from tests.model.sizes import SIZES
from tests.model.stepping import in_pieces, tokens
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")

QWEN = SIZES | {
    "num_experts_per_tok": 2,
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 8,
    "moe_intermediate_size": 24,
}
MIXTRAL = SIZES | {
    "architectures": ["MixtralForCausalLM"],
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
}


def mixture(values: dict[str, Any], **changes: Any) -> MixtureConfig:
    changed = {name: value for name, value in (values | changes).items() if value is not ...}
    found = ModelConfig.from_values(changed).mixture
    assert found is not None
    return found


@pytest.fixture(scope="module", params=["qwen3_moe", "mixtral"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny mixture with a tokenizer."""
    folder = write_tiny_model(tmp_path_factory.mktemp("mixture") / request.param)
    (folder / "generation_config.json").unlink()
    save_family(request.param, folder, vocab_size=VOCABULARY_SIZE)
    return folder


def test_the_families_say_which_layers_have_experts_and_how_they_are_weighted() -> None:
    qwen = mixture(QWEN)
    assert (qwen.num_experts, qwen.num_chosen, qwen.intermediate_size) == (8, 2, 24)
    assert (qwen.normalised, qwen.dense_layers) == (False, frozenset())
    assert mixture(QWEN, norm_topk_prob=True).normalised
    some = mixture(QWEN, decoder_sparse_step=2, mlp_only_layers=[1])
    assert some.dense_layers == {0, 1, 2}
    both_names = mixture(QWEN, num_experts=..., num_local_experts=16)
    assert both_names.num_experts == 16
    mixtral = mixture(MIXTRAL)
    assert (mixtral.num_experts, mixtral.intermediate_size) == (8, 128)
    assert (mixtral.normalised, mixtral.dense_layers) == (True, frozenset())


def test_windows_of_mixtures_are_those_of_all_layers() -> None:
    assert ModelConfig.from_values(MIXTRAL | {"sliding_window": 8}).layer_windows == (8,) * 4
    window = {"sliding_window": 8, "max_window_layers": 3}
    assert ModelConfig.from_values(QWEN | window).layer_windows == (None,) * 4
    used = ModelConfig.from_values(QWEN | window | {"use_sliding_window": True})
    assert used.layer_windows == (8,) * 4


def test_fields_of_training_change_nothing() -> None:
    training = {"router_aux_loss_coef": 0.001, "output_router_logits": True}
    assert mixture(QWEN, **training) == mixture(QWEN)
    assert mixture(MIXTRAL, **training, router_jitter_noise=0.1) == mixture(MIXTRAL)


@pytest.mark.parametrize(
    ("values", "changes", "message"),
    [
        (QWEN, {"num_experts": ...}, "num_experts is missing"),
        (MIXTRAL, {"num_local_experts": ...}, "num_local_experts is missing"),
        (QWEN, {"num_experts": 0}, "num_experts is 0, expected an integer of at least 1"),
        (
            QWEN,
            {"num_experts_per_tok": 9},
            "num_experts_per_tok is 9, expected at most 8, which is",
        ),
        (QWEN, {"moe_intermediate_size": None}, "moe_intermediate_size is missing"),
        (QWEN, {"norm_topk_prob": 1}, "norm_topk_prob is 1, expected true or false"),
        (QWEN, {"mlp_only_layers": [4]}, r"mlp_only_layers is \[4\], expected a list .* 0 to 3"),
        (QWEN, {"decoder_sparse_step": 0}, "decoder_sparse_step is 0, expected an integer"),
        (
            QWEN,
            {"shared_expert_intermediate_size": 64},
            r"not supported .*shared_expert_int.*\(64\)",
        ),
        (
            QWEN,
            {"n_shared_experts": 1, "scoring_func": "sigmoid"},
            "n_shared_experts .*scoring_func",
        ),
        (MIXTRAL, {"moe_intermediate_size": 24}, r"not supported .*moe_intermediate_size \(24\)"),
        (MIXTRAL, {"decoder_sparse_step": 2}, r"not supported .*decoder_sparse_step \(2\)"),
        (QWEN, {"architectures": ["Qwen3ForCausalLM"]}, r"not supported .*num_experts \(8\)"),
        (QWEN, {"architectures": ["Qwen2MoeForCausalLM"]}, "Qwen2MoeForCausalLM is not supported"),
    ],
)
def test_mixtures_that_are_not_understood_are_refused_by_name(
    values: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        mixture(values, **changes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_that_share_experts_leave_each_other_bitwise_equal(folder: Path, dtype: str) -> None:
    runner = load_runner(folder, dtype=dtype, threads=1, num_pages=128)
    texts = [tokens(21, runner.vocabulary_size, seed) for seed in range(16)]
    pages = [[4 * text, 4 * text + 1] for text in range(16)]
    alone = [
        in_pieces(runner, ids, [20, 1], pages[text])[20].clone() for text, ids in enumerate(texts)
    ]
    for threads in (1, 2):
        runner.set_threads(threads)
        for company in (1, 2, 16):
            for first in range(0, 16, company):
                plans = [
                    StepPlan.single([texts[text][20]], kv_len=20, pages=pages[text])
                    for text in range(first, first + company)
                ]
                logits = runner.forward(StepPlan.joined(plans))
                for row, text in enumerate(range(first, first + company)):
                    assert torch.equal(logits[row], alone[text]), (threads, company, text)


def test_tree_rows_equal_those_of_plain_decoding_bitwise(folder: Path) -> None:
    runner = load_runner(folder, dtype="float32", threads=2, num_pages=64)
    ids = tokens(44, runner.vocabulary_size)
    alone = in_pieces(runner, ids, [40, 1, 1, 1, 1], list(range(4)))
    in_pieces(runner, ids[:40], [40], [9, 8, 7])
    tree = StepPlan.single(
        [ids[40], 3, ids[41], 4, ids[42], ids[43]],
        kv_len=40,
        pages=[9, 8, 7],
        parents=[-1, 0, 0, 2, 2, 4],
    )
    assert torch.equal(runner.forward(tree)[[0, 2, 4, 5]], alone[40:])


def test_a_row_reads_the_experts_it_chose_and_no_other(tmp_path: Path) -> None:
    def logits(of: Path) -> torch.Tensor:
        runner = load_runner(of, dtype="float32", threads=1, num_pages=8)
        return runner.forward(StepPlan.single([5], kv_len=0, pages=[0])).clone()

    save_family("mixtral", tmp_path)
    whole = logits(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    num_read = 0
    for expert in range(5):
        name = f"model.layers.0.block_sparse_moe.experts.{expert}.w1.weight"
        poisoned = tensors | {name: torch.full_like(tensors[name], float("nan"))}
        save_file(poisoned, tmp_path / "model.safetensors")
        changed = logits(tmp_path)
        assert torch.equal(changed, whole) or changed.isnan().all()
        num_read += int(changed.isnan().any())
    assert num_read == 3


def test_experts_take_little_more_memory_than_their_numbers(tmp_path: Path) -> None:
    sizes = {"hidden_size": 128, "num_local_experts": 16, "intermediate_size": 128}
    save_family("mixtral", tmp_path, **sizes, num_hidden_layers=1, num_experts_per_tok=2)
    config, weights = ModelConfig.from_folder(tmp_path), Weights(tmp_path)
    parts = CpuWeights(config, weights, dtype="float32", threads=1, report=lambda line: None)
    decoder = CpuDecoder(config, parts, CacheSize(4, 0, 64), max_batch_rows=64, threads=1)
    experts = 16 * 3 * 128 * 128 * 4
    rest = 4 * 2 * (config.vocabulary_size + config.qkv_size) * 128
    assert experts < decoder.num_bytes < 1.03 * experts + rest


def test_shards_that_divide_the_experts_give_the_same_model(folder: Path, tmp_path: Path) -> None:
    def logits(of: Path) -> torch.Tensor:
        runner = load_runner(of, dtype="float32", threads=1, num_pages=8)
        return runner.forward(StepPlan.single([5, 6, 7], kv_len=0, pages=[0])).clone()

    tensors = load_file(folder / "model.safetensors")
    assert any(".experts.1." in name for name in tensors)
    names = sorted(tensors)
    parts = {f"model-{part}.safetensors": names[part::3] for part in range(3)}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, tmp_path / file)
    weight_map = {name: file for file, part in parts.items() for name in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    assert torch.equal(logits(tmp_path), logits(folder))


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 0.9, "seed": 3}])
def test_answers_are_the_same_with_and_without_drafts(
    folder: Path, sampling: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"max_tokens": 60, "ignore_eos": True, **sampling}
    loading: dict[str, Any] = {"dtype": "float32", "threads": 2, "num_pages": 64}
    with LLM(folder, speculation="off", **loading) as llm:
        plain = llm.generate("def class return", **options)
    with LLM(folder, speculation="prob", **loading) as llm:
        drafted = llm.generate("def class return", prediction=plain.text, **options)
    assert plain.token_ids == drafted.token_ids
    assert drafted.speculation.accepted_tokens > 10
