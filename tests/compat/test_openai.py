"""The newest `openai` package gets from a server what our own client gets."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spectrie.client import Client
from tests.compat.openai_calls import MESSAGES

SCRIPT = Path(__file__).with_name("openai_calls.py")


@pytest.fixture(scope="module")
def results(tools: Path, server: dict[str, Any]) -> dict[str, Any]:
    """What the calls of the script returned."""
    done = subprocess.run(
        [tools / "venv" / "bin" / "python", SCRIPT, f"http://{server['http']}/v1"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"openai {found['version']}")
    return found


@pytest.fixture
def expected(client: Client) -> Any:
    return client.chat(MESSAGES, max_tokens=24, seed=7)


@pytest.mark.parametrize("call", ["whole", "asynchronous", "predicted"])
def test_chat_is_answered_as_by_our_client(
    results: dict[str, Any], expected: Any, call: str
) -> None:
    (choice,) = results[call]["choices"]
    assert choice["message"]["content"] == expected.text
    assert choice["finish_reason"] == ("length" if expected.finish_reason == "length" else "stop")


def test_usage_counts_what_our_client_counts(results: dict[str, Any], expected: Any) -> None:
    for usage in (results["whole"]["usage"], results["streamed"]["usage"]):
        assert usage["prompt_tokens"] == expected.usage.prompt_tokens
        assert usage["completion_tokens"] == expected.usage.completion_tokens
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_stream_is_the_whole_answer(results: dict[str, Any], expected: Any) -> None:
    assert results["streamed"]["text"] == expected.text


def test_prediction_that_was_right_is_accepted(results: dict[str, Any]) -> None:
    details = results["predicted"]["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] > 0


def test_choices_have_log_probabilities_of_their_own_tokens(results: dict[str, Any]) -> None:
    found = results["choices"]["choices"]
    assert [one["index"] for one in found] == [0, 1]
    assert found[0]["message"]["content"] != found[1]["message"]["content"]
    for one in found:
        tokens = one["logprobs"]["content"]
        assert "".join(token["token"] for token in tokens if token["logprob"] <= 0)
        assert {len(token["top_logprobs"]) for token in tokens} == {3}


def test_completion_is_that_of_our_client(results: dict[str, Any], client: Client) -> None:
    expected = client.generate("def the", max_tokens=24, seed=7)
    assert results["completion"]["choices"][0]["text"] == expected.text


@pytest.mark.parametrize("call", ["structured", "from_helper"])
def test_structured_answer_is_of_its_schema(results: dict[str, Any], call: str) -> None:
    (choice,) = results[call]["choices"]
    assert json.loads(choice["message"]["content"]) == {"a": "x"}


def test_models_are_listed(results: dict[str, Any]) -> None:
    assert [one["id"] for one in results["models"]] == ["tiny"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("temperature", ("BadRequestError", 400, "temperature")),
        ("model", ("NotFoundError", 404, "model")),
        ("context", ("BadRequestError", 400, "max_tokens")),
        ("responses", ("NotFoundError", 404, None)),
    ],
)
def test_error_is_of_the_class_that_applications_catch(
    results: dict[str, Any], call: str, error: tuple[str, int, str | None]
) -> None:
    found = results["errors"][call]
    assert (found["class"], found["status"], found["param"]) == error
