"""Answers of the real model held to schemas, regular expressions, grammars and lists of texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from spectrie.errors import InvalidArgument
from spectrie.llm import LLM
from spectrie.types import Completion, Message, SpeculationOptions

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["kind", "shy", "loud"]}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
            },
            "required": ["city", "zip"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "age", "tags", "address"],
    "additionalProperties": False,
}
SUM = """
start: NUMBER (OPERATOR NUMBER)+
OPERATOR: " + " | " - "
NUMBER: /[1-9][0-9]?/
"""
ASK: list[Message] = [{"role": "user", "content": "Describe a person you know, as JSON."}]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM("smollm2-135m", dtype="float32", bigrams="off", max_context=512) as llm:
        yield llm


def ask(llm: LLM, **options: Any) -> Completion:
    """An answer, which must be the same with drafts as without, and in a batch."""
    options = {"temperature": 0.0, "max_tokens": 120, **options}
    # What one request learns, another would draft from.
    off, on = (SpeculationOptions(enabled=drafts, learn=False) for drafts in (False, True))
    plain = llm.chat(ASK, speculation=off, **options)
    first, *others = llm.chat(ASK, n=2, speculation=on, **options).choices
    assert first.token_ids == plain.token_ids
    assert first.finish_reason == plain.finish_reason
    assert len(others) == 1
    assert plain.speculation.drafted_tokens == 0
    return first


def person(answer: Completion) -> None:
    assert answer.finish_reason == "stop"
    assert answer.stop_token_id is None
    jsonschema.validate(json.loads(answer.text), PERSON)


def test_json_fits_its_schema_and_what_the_schema_forces_is_free(llm: LLM) -> None:
    answer = ask(llm, json_schema=PERSON)
    person(answer)
    assert answer.speculation.accepted_by_source["grammar"] >= 8
    assert answer.speculation.verify_steps < 0.7 * len(answer.token_ids)


def test_sampled_json_fits_its_schema(llm: LLM) -> None:
    person(ask(llm, json_schema=json.dumps(PERSON), temperature=1.0, top_p=0.95, seed=0))


def test_any_object_is_an_object(llm: LLM) -> None:
    answer = ask(llm, json_object=True, max_tokens=30)
    assert answer.text.startswith("{")
    if answer.finish_reason == "stop":
        assert isinstance(json.loads(answer.text), dict)


def test_a_regular_expression_matches_the_whole_answer(llm: LLM) -> None:
    answer = ask(llm, regex=r"\(\d{3}\) \d{3}-\d{4}")
    assert re.fullmatch(r"\(\d{3}\) \d{3}-\d{4}", answer.text)


def test_a_grammar_rules_the_answer(llm: LLM) -> None:
    answer = ask(llm, grammar=SUM, max_tokens=12)
    assert re.match(r"[1-9][0-9]?( [+-] [1-9][0-9]?)* ?[+-]? ?", answer.text)


def test_one_of_several_texts_is_chosen(llm: LLM) -> None:
    texts = ["a very kind person", "a very loud person", "nobody"]
    answer = ask(llm, choice=texts, temperature=0.8, seed=3)
    assert answer.text in texts
    assert answer.finish_reason == "stop"


def test_every_option_at_once_changes_nothing_about_exactness(llm: LLM) -> None:
    answer = ask(
        llm,
        json_schema=PERSON,
        temperature=0.9,
        top_p=0.95,
        top_k=80,
        min_p=0.01,
        typical_p=0.95,
        frequency_penalty=0.2,
        presence_penalty=0.1,
        repetition_penalty=1.05,
        logit_bias={31: -1.0},
        bad_words=["John"],
        logprobs=2,
        min_tokens=20,
        stop=["\n"],
        seed=7,
    )
    person(answer)
    assert "John" not in answer.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"json_schema": "{"}, "not JSON"),
        ({"json_schema": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
        ({"json_schema": 3}, "a schema as text or mapping"),
        ({"regex": "(a"}, "unclosed"),
        ({"regex": "a" * 70_000}, "65536"),
        ({"grammar": "start: " + "(" * 50_000}, "nested"),
        ({"grammar": "start: start"}, "no text"),
        ({"choice": []}, "a list of texts"),
        ({"choice": "yes"}, "a list of texts"),
        ({"json_object": 1}, "True or False"),
        ({"regex": "a", "choice": ["a"]}, "together with regex"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    llm: LLM, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        llm.generate("Hello", **options)
    assert caught.value.field_violations[0].field == list(options)[-1]
    # json_object=False asks for nothing.
    assert llm.generate("Hello", max_tokens=1, json_object=False).token_ids
