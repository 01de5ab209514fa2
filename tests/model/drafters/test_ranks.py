"""A drafter beside the first of two ranks answers as beside a model in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers
from tests.model.drafters.dflash import DFLASH2, block_tensors
from tests.model.drafters.heads import VOCABULARY, head_tensors, write_head
from tests.model.drafters.models import with_tokenizer
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.families import save_family
from tests.model.ranks import OPTIONS, two_ranks
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = tokens(61, VOCABULARY, seed=3)
GUESSES = [5, 77, 130, 8]
SCORED = [5, 9, 199]


def answered(runner: Runner) -> list[Answers]:
    request = Request(runner, range(4))
    feed(request, TOKENS, 13)
    return draft_path(request, GUESSES, SCORED)


def written(kind: str, tiny: Path, folder: Path) -> tuple[Path, Path]:
    """The model and its drafter: of the target's head, of a block, and itself with a tied head."""
    if kind == "eagle3":
        tensors = head_tensors()
        # Its head is a cut of the target's, which weighs the other tokens.
        del tensors["lm_head.weight"]
        return tiny, write_head(folder, tensors)
    if kind == "dflash2":
        return tiny, write_head(folder, block_tensors(selected=VOCABULARY), **DFLASH2)
    sizes = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72}
    save_family("llama_tied_bias", folder / "bare", **sizes)
    model = with_tokenizer(folder / "bare", folder / "model")
    return model, model


@pytest.mark.parametrize(
    ("kind", "dtype"), [("eagle3", "bfloat16"), ("dflash2", "float32"), ("itself", "float32")]
)
def test_two_ranks_give_the_answers_of_one(
    kind: str, dtype: str, tiny: Path, tmp_path: Path
) -> None:
    model, drafter = written(kind, tiny, tmp_path)
    options: dict[str, Any] = {"dtype": dtype, "drafter": drafter}
    alone = load_runner(model, **OPTIONS, **options)
    expected = answered(alone)
    with two_ranks(model, **options) as runner:
        assert runner.drafter is not None
        assert runner.numeric_fingerprint == alone.numeric_fingerprint
        assert same(answered(runner), expected)
        # Nor do threads matter, of which the drafter has its rank's.
        runner.set_threads(2)
        assert same(answered(runner), expected)
