"""Where a head comes from: whose text it learned decides who may draft from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from spectrie.errors import ModelError
from spectrie.model import load_runner
from spectrie.model.drafters import Origin, read_drafter
from spectrie.model.runner.drafting import DrafterInfo
from tests.model.drafters.heads import DRAFTED, head_tensors, write_head
from tests.model.drafters.test_load import target_of

pytestmark = pytest.mark.usefixtures("own_cache")

ORIGIN: dict[str, Any] = {
    "kind": "eagle3",
    "model_hash": "0123456789abcdef",
    "namespaces": ["team-b", "acme"],
    "licence": "internal",
    "held_out_top_1": [0.4, 0.3, 0.2],
}


def info_of(tiny: Path, head: Path) -> DrafterInfo:
    info = load_runner(tiny, num_pages=8, drafter=head, threads=1).drafter
    assert info is not None
    return info


def test_a_head_says_whose_text_it_learned(tiny: Path, tmp_path: Path) -> None:
    info = info_of(tiny, write_head(tmp_path / "ours", origin=json.dumps(ORIGIN)))
    assert info.origin == Origin(
        "0123456789abcdef", ("acme", "team-b"), "internal", (0.4, 0.3, 0.2)
    )
    assert info.namespaces == ("acme", "team-b")
    assert info.is_for_model is False
    assert info.named_tokens == DRAFTED
    assert "trained for another model" in info.line
    assert "names 60 tokens" in info.line
    assert info.line.endswith("; only for acme, team-b, whose text it learned")


def test_a_head_of_no_tenants_text_is_for_all(tiny: Path, tmp_path: Path) -> None:
    model_hash = load_runner(tiny, num_pages=8, threads=1).info.model_hash
    origin = json.dumps(ORIGIN | {"namespaces": None, "model_hash": model_hash})
    info = info_of(tiny, write_head(tmp_path / "ours", origin=origin))
    assert info.namespaces is None
    assert info.is_for_model is True
    assert "trained for this model" in info.line
    assert "only for" not in info.line


def test_a_head_from_elsewhere_is_for_all(tiny: Path, tmp_path: Path) -> None:
    tensors = head_tensors()
    for name in ("d2t", "t2d", "lm_head.weight"):
        del tensors[name]
    info = info_of(tiny, write_head(tmp_path / "theirs", tensors, draft_vocab_size=None))
    assert (info.origin, info.namespaces, info.is_for_model) == (None, None, None)
    assert info.named_tokens is None
    assert "names all tokens" in info.line


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ("{", "metadata 'spectrie' is not JSON"),
        ("[]", "expected an object"),
        (json.dumps({"model_hash": "a"}), "has no namespaces"),
        (json.dumps({"namespaces": None}), "has no model_hash"),
        (json.dumps(ORIGIN | {"namespaces": "acme"}), "namespaces is 'acme', expected null or a"),
        (json.dumps(ORIGIN | {"namespaces": []}), "expected null or a list of names"),
        (json.dumps(ORIGIN | {"namespaces": [""]}), "expected null or a list of names"),
        (json.dumps(ORIGIN | {"namespaces": [1]}), "expected null or a list of names"),
        (json.dumps(ORIGIN | {"held_out_top_1": "high"}), "expected a list of numbers"),
    ],
)
def test_an_origin_that_is_not_understood_is_refused(
    tiny: Path, tmp_path: Path, origin: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_drafter(write_head(tmp_path, origin=origin), target_of(tiny))


def test_files_that_disagree_are_refused(tiny: Path, tmp_path: Path) -> None:
    folder = write_head(tmp_path, origin=json.dumps(ORIGIN))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index: dict[str, str] = {}
    for number, namespaces in enumerate((["acme"], None)):
        name = f"model-{number + 1:05}-of-00002.safetensors"
        part = {
            key: value for key, value in tensors.items() if key.startswith("m") == (number == 0)
        }
        index |= dict.fromkeys(part, name)
        origin = json.dumps(ORIGIN | {"namespaces": namespaces})
        save_file(part, folder / name, metadata={"format": "pt", "spectrie": origin})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    with pytest.raises(ModelError, match="the files have different metadata 'spectrie'"):
        read_drafter(folder, target_of(tiny))
