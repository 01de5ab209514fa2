"""Requests of a model as `LLM` resolves them: types, defaults, names; the engine is not asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spectrie import LLM, _core
from spectrie.errors import DeadlineExceeded, InvalidArgument, ModelError
from spectrie.types import SpeculationOptions
from tests.tiny_model import write_tiny_model


def refuse(kind: str, text: str | list[str] | None, timeout_s: float | None) -> _core.Grammar:
    if text == "slow":
        raise TimeoutError(f"{kind} took {timeout_s} s")
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
        generation_config=_core.GenerationConfig(generation_config) if generation_config else None,
    )


@pytest.mark.parametrize(
    ("options", "field", "given"),
    [
        ({"temperature": "hot"}, "temperature", "'hot'; allowed: a number"),
        ({"top_k": 1.5}, "top_k", "1.5; allowed: a whole number from 0 to 2147483647"),
        ({"top_k": 2**31}, "top_k", "2147483648; allowed: a whole number from 0 to 2147483647"),
        ({"top_p": 1.00000001}, "top_p", "1.00000001; allowed: above 0, up to 1"),
        ({"temperature": -1e-60}, "temperature", "allowed: 0 to 100"),
        ({"seed": -1}, "seed", "-1; allowed: a whole number"),
        ({"logprobs": True}, "logprobs", "True"),
        ({"ignore_eos": 1}, "ignore_eos", "1; allowed: True or False"),
        ({"stop": 3}, "stop", "3; allowed: a text or a list of texts"),
        ({"stop": ["a", 3]}, "stop[1]", "3; allowed: text"),
        ({"stop_token_ids": "ab"}, "stop_token_ids", "'ab'; allowed: a list of token ids"),
        ({"stop_token_ids": [1, None]}, "stop_token_ids[1]", "None"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "{'x': 1}; allowed: numbers by token id"),
        ({"prediction": Path("/no/such/file")}, "prediction", "/no/such/file"),
        ({"speculation": "yes"}, "speculation", "'yes'"),
        ({"speculation": SpeculationOptions(mode="fast")}, "speculation.mode", "'fast'"),  # type: ignore[arg-type]
        ({"json_schema": {"a": {1}}}, "json_schema", "{'a': {1}}"),
        ({"regex": "a", "grammar": "b"}, "grammar", "together with regex"),
        ({"model": 3}, "model", "3; allowed: text"),
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


@pytest.mark.parametrize(
    "options",
    [{"top_p": 1e-60}, {"top_k": 2**31 - 1}, {"temperature": 100.0}, {"namespace": ""}],
    ids=str,
)
def test_value_at_its_limit_is_taken(tokenizer: _core.Tokenizer, options: dict[str, Any]) -> None:
    assert len(resolver(tokenizer).resolve("a", None, None, options)) == 1


def test_every_bias_out_of_range_is_named(tokenizer: _core.Tokenizer) -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolver(tokenizer).resolve("a", None, None, {"logit_bias": {7: 101, 9: 1, 8: -500.0}})
    violations = {
        violation.field: violation.description for violation in caught.value.field_violations
    }
    assert violations == {
        "logit_bias[7]": "given 101; allowed: -100 to 100",
        "logit_bias[8]": "given -500; allowed: -100 to 100",
    }


def test_other_members_of_a_message_are_not_looked_at(tokenizer: _core.Tokenizer) -> None:
    message = {"role": "user", "content": "two", "name": "ann", "tags": [1]}
    assert len(resolver(tokenizer).resolve(None, None, [message], {})) == 1


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"top_p": "high"}', b'{"top_k": true}'])
def test_unreadable_generation_config_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("the model is loaded before its generation_config.json is read")

    monkeypatch.setattr("spectrie.llm.llm.EngineHost", start)
    path = write_tiny_model(tmp_path) / "generation_config.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^{re.escape(str(path))}: "):
        LLM(tmp_path)


def test_a_grammar_in_line_costs_at_most_the_requests_own_time(
    tokenizer: _core.Tokenizer,
) -> None:
    with pytest.raises(DeadlineExceeded, match=r"no answer within 2.5 s") as caught:
        resolver(tokenizer).resolve("one", None, None, {"regex": "slow", "timeout": 2.5})
    assert caught.value.timeout_s == 2.5


def test_a_grammar_is_known_once_it_was_compiled(tokenizer: _core.Tokenizer) -> None:
    compiler = _core.GrammarCompiler(tokenizer, [2])
    assert compiler.cached("regex", "[a-z]+") is None
    # What is known takes no time, so that a limit of none holds.
    compiler.compile("regex", "[a-z]+")
    assert compiler.cached("regex", "[a-z]+") is not None
    assert compiler.compile("regex", "[a-z]+", 0.0) is not None
    with pytest.raises(_core.EngineError, match="kind of a constraint"):
        compiler.cached("xml", "a")


def test_generation_config_decides_what_a_request_leaves_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_tiny_model(tmp_path) / "generation_config.json"
    path.write_bytes(b'{"temperature": 0, "top_p": 7}')
    with LLM(tmp_path, dtype="float32", threads=1, kv_memory_bytes=64 << 20) as llm:
        (warning,) = [record.message for record in caplog.records if record.name == "spectrie.llm"]
        assert "top_p is 7.0" in warning

        def answers(temperature: float | None = None) -> set[tuple[int, ...]]:
            given = [
                llm.generate("one two", seed=seed, max_tokens=16, temperature=temperature)
                for seed in (1, 2)
            ]
            return {answer.token_ids for answer in given}

        assert answers() == answers(0.0)
        assert len(answers()) == 1
        assert len(answers(1.0)) == 2
