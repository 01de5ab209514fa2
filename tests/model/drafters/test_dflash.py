"""DFLASH heads: answers as plain torch has them, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from spectrie.errors import ModelError
from spectrie.llm import LLM
from spectrie.model import Runner, load_runner
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.drafters import Target, read_drafter
from spectrie.model.files.weights import Weights
from spectrie.model.runner.text_features import text_features
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.dflash import BLOCK, DFLASH, TAPS, BlockReference, block_tensors
from tests.model.drafters.heads import CONFIG, HIDDEN, VOCABULARY, write_head
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.drafters.test_eagle3 import distance
from tests.model.drafters.test_load import target_of
from tests.model.stepping import tokens
from tests.tiny_model import VOCABULARY_SIZE, Shape, write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")

Tensors = dict[str, torch.Tensor]

TOKENS = tokens(43, VOCABULARY, seed=4)
ANCHOR = 17
GUESSES = [ANCHOR, 3, 199, 50, 8]
"""As many as a block answers; only the first says anything."""


def load(target: Path, head: Path, dtype: str = "float32") -> Runner:
    return load_runner(target, dtype=dtype, num_pages=16, drafter=head, threads=2)


def answered(runner: Runner, size: int = 43, guesses: list[int] = GUESSES) -> torch.Tensor:
    """Log-probabilities behind each guess, [levels, vocabulary]."""
    request = Request(runner, range(8))
    feed(request, TOKENS, size)
    answers = draft_path(request, guesses, list(range(VOCABULARY)))
    return torch.stack([torch.from_numpy(answer.scored) for answer in answers])


def reference(
    target: Path,
    head: Tensors,
    dtype: str = "float32",
    *,
    taps: list[int] = TAPS,
    wrong: str = "",
    includes_anchor: bool = False,
    config: dict[str, Any] | None = None,
) -> tuple[BlockReference, torch.Tensor]:
    """A head in plain torch, and the features that it takes, from our own forward."""
    runner = load_runner(target, dtype=dtype, num_pages=16, threads=2)
    text = [*TOKENS, ANCHOR] if includes_anchor else TOKENS
    (found,) = text_features(runner, [text], layers=taps, top=0)

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        # Norms stay in single precision.
        return tensor.to(getattr(torch, dtype)).float() if tensor.dim() > 1 else tensor.float()

    weights = Weights(target)
    embedding, lm_head = (
        rounded(weights.tensor(name, (VOCABULARY, HIDDEN)))
        for name in ("model.embed_tokens.weight", "lm_head.weight")
    )
    own = {name: rounded(tensor) for name, tensor in head.items()}
    plain = BlockReference(own, embedding, lm_head, CONFIG | DFLASH | (config or {}), wrong=wrong)
    return plain, found.features.float()


def expected(target: Path, head: Tensors, dtype: str = "float32", **options: Any) -> torch.Tensor:
    """The same by plain torch; options as of `reference`."""
    plain, features = reference(target, head, dtype, **options)
    return plain.log_probabilities(features, ANCHOR)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.01)])
def test_answers_are_those_of_plain_torch(
    tiny: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    head = block_tensors()
    runner = load(tiny, write_head(tmp_path, head, **DFLASH), dtype)
    assert runner.drafter is not None
    assert (runner.drafter.kind, runner.drafter.max_levels) == ("dflash", BLOCK - 1)
    right = expected(tiny, head, dtype)
    assert distance(answered(runner), right) < tolerance
    assert distance(answered(runner, 7), right) < tolerance


def test_it_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_levels_cheap(monkeypatch)
    model = write_tiny_model(tmp_path / "model")
    config = {"hidden_size": Shape().hidden, "vocab_size": VOCABULARY_SIZE, "num_target_layers": 2}
    head = write_head(tmp_path / "head", block_tensors(hidden=64), **(DFLASH | config))
    prompts = [list(range(20, 80)), [5, 6, 7], list(range(20, 90)), [9]]
    found = []
    for drafter in ("off", str(head)):
        with LLM(model, drafter=drafter, threads=2, num_pages=64) as llm:
            for temperature in (0.0, 0.8):
                options: dict[str, Any] = {"max_tokens": 100, "temperature": temperature, "seed": 2}
                answers = llm.generate(prompt_token_ids=prompts, ignore_eos=True, **options)
                found.append([answer.token_ids for answer in answers])
            assert (llm.load().head_levels > 0) == (drafter != "off")
    assert found[:2] == found[2:]


FORMS: dict[str, dict[str, Any]] = {
    "all layers see the whole block": {
        "layer_types": None,
        "use_sliding_window": None,
        "sliding_window": None,
    },
    "all layers have a window": {"layer_types": ["sliding_attention"] * 2, "sliding_window": 9},
    "windows that are switched off": {"use_sliding_window": False, "sliding_window": 9},
    "windows of no size, switched off": {"use_sliding_window": None, "sliding_window": None},
    "size in dflash_config": {
        "block_size": None,
        "dflash_config": DFLASH["dflash_config"] | {"block_size": BLOCK},
    },
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_published_forms_are_read(tiny: Path, tmp_path: Path, form: str) -> None:
    head, changes = block_tensors(), FORMS[form]
    runner = load(tiny, write_head(tmp_path, head, **(DFLASH | changes)))
    config = dict(changes)
    if config.get("layer_types", ()) is None:
        config["layer_types"] = ["full_attention"] * 2
    assert distance(answered(runner), expected(tiny, head, config=config)) < 1e-5


def test_a_vector_may_stand_for_masks(tiny: Path, tmp_path: Path) -> None:
    head = block_tensors() | {"mask_embedding": torch.linspace(-1, 1, HIDDEN)}
    changes = DFLASH | {"dflash_config": {"target_layer_ids": TAPS}}
    runner = load(tiny, write_head(tmp_path, head, **changes))
    assert distance(answered(runner), expected(tiny, head)) < 1e-5


def test_what_lies_between_changes_no_answer(tiny: Path, tmp_path: Path) -> None:
    runner = load(tiny, write_head(tmp_path, block_tensors(), **DFLASH))
    assert torch.equal(answered(runner), answered(runner, guesses=[ANCHOR, 9, 9, 9, 9]))
    with pytest.raises(ValueError, match=r"row_position\[0\] is 48, expected below 48, within the"):
        answered(runner, guesses=[*GUESSES, 1])


WRONG: dict[str, dict[str, Any]] = {
    "block causal instead of full": {"wrong": "causal"},
    "context including the anchor": {"includes_anchor": True},
    "layer ids one off": {"taps": [tap + 1 for tap in TAPS]},
    "context normed as the block is": {"wrong": "context_normed"},
    "context without its norm": {"wrong": "raw_context"},
    "block one position later": {"wrong": "later"},
}


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_a_wrong_form_gives_other_answers(tiny: Path, tmp_path: Path, wrong: str) -> None:
    head = block_tensors()
    found = answered(load(tiny, write_head(tmp_path, head, **DFLASH)))
    assert distance(found, expected(tiny, head, **WRONG[wrong])) > 1e-3


def test_default_layers_are_the_published_ones(tiny: Path, tmp_path: Path) -> None:
    config = ModelConfig.from_folder(tiny)
    values = {field: getattr(config, field) for field in ModelConfig.__slots__}
    deep = ModelConfig(**(values | {"num_layers": 24}))
    target = Target(deep, target_of(tiny).head, tiny)
    for layers, ids in ((5, [1, 6, 11, 16, 21]), (1, [12])):
        head = block_tensors(layers)
        head["fc.weight"] = torch.ones(HIDDEN, layers * HIDDEN)
        changes = {
            "num_hidden_layers": layers,
            "num_target_layers": 24,
            "layer_types": None,
            "use_sliding_window": False,
            "dflash_config": {"mask_token_id": 3},
        }
        drafter = read_drafter(write_head(tmp_path, head, **(DFLASH | changes)), target)
        assert drafter.weights.tapped_layers == ids


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "field": ({"attention_gate": True}, r"not supported.*attention_gate \(True\)"),
    "own field": (
        {"dflash_config": DFLASH["dflash_config"] | {"markov_rank": 8}},
        r"dflash_config: fields that are not supported.*markov_rank",
    ),
    "soft cap": ({"final_logit_softcapping": -30.0}, "softcapping is -30.0, expected a positive"),
    "layers": (
        {"dflash_config": {"mask_token_id": 1, "target_layer_ids": [1, 3]}},
        r"target_layer_ids is \[1, 3\], expected layers from 0 to 2",
    ),
    "target": ({"num_target_layers": 4}, "num_target_layers is 4, expected 3, the target's"),
    "mask": (
        {"dflash_config": {"mask_token_id": 200, "target_layer_ids": TAPS}},
        "mask_token_id is 200, expected 0 to 199 in dflash_config, or a tensor mask_embedding",
    ),
    "no block": ({"block_size": None}, "block_size is None, in dflash_config None; expected one"),
    "two blocks": (
        {"dflash_config": DFLASH["dflash_config"] | {"block_size": 7}},
        "block_size is 6, in dflash_config 7; expected one number from 3 to 63",
    ),
    "window": ({"sliding_window": None}, "sliding_window is missing, expected a number"),
    "switched window": (
        {"layer_types": None},
        "use_sliding_window is True, expected layer_types beside it",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_configuration_that_is_not_understood_is_refused(
    tiny: Path, tmp_path: Path, case: str
) -> None:
    changes, message = REFUSED[case]
    folder = write_head(tmp_path, block_tensors(), **(DFLASH | changes))
    with pytest.raises(ModelError, match=message):
        read_drafter(folder, target_of(tiny))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("layers.0.self_attn.qkv_proj.weight", r"a fused qkv_proj \(Laguna\)"),
        ("layers.0.self_attn.g_proj.weight", r"a gate of attention, g_proj \(Laguna\)"),
        ("aux_hidden_norms.0.weight", "norms of the parts of a feature"),
        ("layers.1.mlp_conv.base_kernel", r"unexpected tensors: layers\.1\.mlp_conv\.base_kernel"),
        ("candidate_selector.successor_codebook", "unexpected tensors: candidate_selector"),
        ("markov_head.markov_w1", r"a Markov head \(DSPARK\)"),
        ("lm_head.weight", r"unexpected tensors: lm_head\.weight"),
    ],
)
def test_other_forms_are_refused_by_name(
    tiny: Path, tmp_path: Path, name: str, message: str
) -> None:
    head = block_tensors() | {name: torch.ones(4)}
    with pytest.raises(ModelError, match=message):
        read_drafter(write_head(tmp_path, head, **DFLASH), target_of(tiny))
