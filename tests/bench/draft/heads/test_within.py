"""A copy of a drafter that drafts for some namespaces differs in nothing else."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from bench.draft.heads.within import restricted
from spectrie.model.drafters import shipped_heads
from spectrie.model.drafters.origin import read_origin
from spectrie.model.files.weights import Weights

HEAD = shipped_heads()["smollm2-135m-eagle3"]


def test_a_restricted_drafter_is_for_these_namespaces_alone_and_else_the_same(
    tmp_path: Path,
) -> None:
    copy = restricted(HEAD, tmp_path / "copy", ["b", "a"])
    before, after = (read_origin(Weights(folder), "") for folder in (HEAD, copy))
    assert before is not None
    assert after is not None
    assert (before.namespaces, after.namespaces) == (None, ("a", "b"))
    assert before.model_hash == after.model_hash
    whole, copied = (load_file(folder / "model.safetensors") for folder in (HEAD, copy))
    assert whole.keys() == copied.keys()
    assert all(torch.equal(whole[name], copied[name]) for name in whole)
    config = (HEAD / "config.json").read_bytes()
    assert (copy / "config.json").read_bytes() == config
