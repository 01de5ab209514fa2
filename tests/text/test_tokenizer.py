"""The real tokenizer, against transformers and on real files."""

from __future__ import annotations

import hashlib
import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from spectrie._core import Tokenizer, tokenizer_fingerprint

GOLDEN = Path(__file__).parents[1] / "golden/smollm2_tokens.json"
# Of the weights that were compared bit for bit with the state that transformers makes of the GGUF.
WEIGHTS_SHA256 = "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd"

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def folder() -> Path:
    from spectrie.model import resolve

    return resolve("smollm2-135m").folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, model_max_length=1 << 30)


def source_files() -> list[Path]:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return files[::4]


def test_ids_equal_those_of_transformers_on_the_gguf_file(tokenizer: Tokenizer) -> None:
    cases = json.loads(GOLDEN.read_text())["cases"]
    assert len(cases) > 10
    for case in cases:
        assert tokenizer.encode(case["text"]) == case["ids"], case["text"]
        assert tokenizer.decode(case["ids"], skip_special_tokens=False) == case["text"]


def test_source_files_round_trip_as_in_transformers(tokenizer: Tokenizer, reference: Any) -> None:
    files = source_files()
    assert len(files) > 20
    for path in files:
        for text in (path.read_text("utf-8"), path.read_text("utf-8").replace("\n", "\r\n")):
            ids = tokenizer.encode(text)
            assert ids == reference(text).input_ids, path
            assert tokenizer.decode(ids) == text, path


@pytest.mark.parametrize("generation", [True, False])
def test_the_chat_template_gives_what_transformers_gives(
    tokenizer: Tokenizer, reference: Any, generation: bool
) -> None:
    chats: list[list[dict[str, str]]] = [
        [{"role": "user", "content": "Grüezi & <hello> 'you'"}],
        [{"role": "system", "content": "Brief."}, {"role": "user", "content": "1\n2 "}],
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "🙂"},
        ],
    ]
    for chat in chats:
        expected = reference.apply_chat_template(
            chat, add_generation_prompt=generation, tokenize=False
        )
        assert tokenizer.apply_chat_template(chat, add_generation_prompt=generation) == expected


def test_the_converted_weights_are_those_that_were_checked(folder: Path) -> None:
    with (folder / "model.safetensors").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS_SHA256
    assert json.loads((folder / "provenance.json").read_text())["license"] == "Apache-2.0"


def test_a_batch_gives_the_ids_of_each_text(tokenizer: Tokenizer) -> None:
    texts = [path.read_text("utf-8")[:2000] for path in source_files()[:8]]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_fingerprint_is_the_hash_of_the_file(folder: Path) -> None:
    file = folder / "tokenizer.json"
    expected = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    assert tokenizer_fingerprint(folder) == tokenizer_fingerprint(str(file)) == expected
