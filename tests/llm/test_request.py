"""Requests of a model as `LLM` resolves them: types, defaults, names; the engine is not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spectrie import _core
from spectrie.errors import InvalidArgument, ModelError
from spectrie.types import SpeculationOptions
from tests.tiny_model import write_tiny_model


def refuse(kind: str, text: str | list[str] | None) -> _core.Grammar:
    raise _core.EngineError(f"{kind} cannot be used: {text}")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> _core.Tokenizer:
    return _core.Tokenizer.from_folder(write_tiny_model(tmp_path_factory.mktemp("request")))


def resolver(
    tokenizer: _core.Tokenizer, generation_config: bytes | None = None
) -> _core.RequestResolver:
    return _core.RequestResolver(
        tokenizer,
        model="tiny",
        vocabulary_size=tokenizer.vocabulary_size,
        max_context=64,
        compile=refuse,
        generation_config=generation_config,
    )


@pytest.mark.parametrize(
    ("options", "field", "given"),
    [
        ({"temperature": "hot"}, "temperature", "'hot', allowed a number"),
        ({"top_k": 1.5}, "top_k", "1.5, allowed a whole number from 0 to 4294967295"),
        ({"seed": -1}, "seed", "-1, allowed a whole number"),
        ({"logprobs": True}, "logprobs", "True"),
        ({"ignore_eos": 1}, "ignore_eos", "1, allowed True or False"),
        ({"stop": 3}, "stop", "3, allowed a text or a list of texts"),
        ({"stop": ["a", 3]}, "stop[1]", "3, allowed text"),
        ({"stop_token_ids": "ab"}, "stop_token_ids", "'ab', allowed a list of token ids"),
        ({"stop_token_ids": [1, None]}, "stop_token_ids[1]", "None"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "{'x': 1}, allowed numbers by token id"),
        ({"prediction": Path("/no/such/file")}, "prediction", "/no/such/file"),
        ({"speculation": "yes"}, "speculation", "'yes'"),
        ({"speculation": SpeculationOptions(mode="fast")}, "speculation.mode", "'fast'"),  # type: ignore[arg-type]
        ({"json_schema": {"a": {1}}}, "json_schema", "{'a': {1}}"),
        ({"regex": "a", "grammar": "b"}, "grammar", "together with regex"),
        ({"model": 3}, "model", "3, allowed text"),
        ({"request_id": "a b"}, "request_id", "not printable"),
        ({"timeout": float("inf")}, "timeout", "inf"),
        ({"regex": "("}, "regex", "cannot be used: ("),
    ],
)
def test_wrong_value_is_refused_by_field_and_value(
    tokenizer: _core.Tokenizer, options: dict[str, Any], field: str, given: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolver(tokenizer).resolve("a", None, None, options)
    (violation,) = caught.value.field_violations
    assert violation.field == field
    assert given in violation.description


def test_wrong_types_and_values_are_named_together(tokenizer: _core.Tokenizer) -> None:
    options = {"temperature": "hot", "top_p": 7, "stop": ["", 3], "n": 9, "seed": None}
    with pytest.raises(InvalidArgument) as caught:
        resolver(tokenizer).resolve(None, None, [{"role": "user"}], options, 9)
    fields = [violation.field for violation in caught.value.field_violations]
    assert fields == ["messages[0].content", "temperature", "stop[1]", "top_p", "n"]


def test_choices_share_a_request_and_have_its_seed(tokenizer: _core.Tokenizer) -> None:
    choices = resolver(tokenizer).resolve("a", None, None, {"seed": 5, "timeout": 2}, 2)
    assert [choice.index for choice in choices] == [0, 1]
    assert {(choice.seed, choice.timeout_s) for choice in choices} == {(5, 2.0)}
    assert choices[0].request_id.startswith("local-")
    assert choices[1].request(9, 0.0).handle == 9
    assert (choices[0].text, choices[0].token_ids, choices[0].logprobs) == ("", [], None)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"top_p": "high"}', b'{"top_k": true}'])
def test_unreadable_generation_config_is_an_error_that_names_it(
    tokenizer: _core.Tokenizer, content: bytes
) -> None:
    with pytest.raises(ModelError, match=r"generation_config\.json"):
        resolver(tokenizer, content)
    assert resolver(tokenizer, b'{"temperature": 0.2, "top_p": 7}').resolve("a", None, None, {})
