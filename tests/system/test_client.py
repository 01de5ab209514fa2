"""Clients and commands against real servers: in process and over the wire the answers are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spectrie
from spectrie import errors
from spectrie.cli import main
from tests.system.server import serve

PROMPT = "one two three one two"


def test_llm_and_server_give_the_same_sampled_answer(server: dict[str, Any], tiny: Path) -> None:
    # No other file sends it to this server: nothing of it is cached.
    prompt = f"zebra {PROMPT}"
    options: dict[str, Any] = {"max_tokens": 24, "temperature": 0.8, "top_p": 0.95, "seed": 11}
    with spectrie.LLM(tiny, dtype="float32", threads=1, kv_memory_bytes=64 << 20) as llm:
        here = llm.generate(prompt, **options)
    with spectrie.Client(server["grpc"]) as client:
        there = client.generate(prompt, **options)
    assert there.token_ids == here.token_ids
    assert (there.text, there.finish_reason, there.seed) == (here.text, here.finish_reason, 11)
    assert there.usage == here.usage


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"regex": "[a-z]{3} [a-z]{3,12}"},
        {"choice": ["two", "one two three"]},
        {"json_schema": {"type": "object", "properties": {"n": {"enum": [1, 2]}}}},
    ],
)
def test_llm_and_server_agree_on_every_option(
    server: dict[str, Any], tiny: Path, form: dict[str, Any]
) -> None:
    options: dict[str, Any] = {
        "max_tokens": 40,
        "temperature": 0.9,
        "top_p": 0.97,
        "typical_p": 0.95,
        "frequency_penalty": 0.3,
        "bad_words": ["three one"],
        "seed": 12,
        "logprobs": 3,
        "prompt_logprobs": 2,
        **form,
    }
    with spectrie.LLM(tiny, dtype="float32", threads=1, kv_memory_bytes=64 << 20) as llm:
        here = llm.generate(PROMPT, **options)
    with spectrie.Client(server["grpc"]) as client:
        there = client.generate(PROMPT, **options)
        pieces = list(client.stream(PROMPT, **options))
    assert there.token_ids == here.token_ids
    assert (there.text, there.finish_reason) == (here.text, here.finish_reason)
    assert here.logprobs is not None and len(here.logprobs) == len(here.token_ids)
    assert there.logprobs == here.logprobs
    assert here.prompt_logprobs is not None and here.prompt_logprobs[0] is None
    assert there.prompt_logprobs == here.prompt_logprobs
    streamed = [entry for piece in pieces for entry in piece.logprobs or ()]
    assert tuple(streamed) == here.logprobs


def test_form_that_cannot_be_compiled_is_refused_with_the_reason(server: dict[str, Any]) -> None:
    with spectrie.Client(server["grpc"]) as client:
        with pytest.raises(errors.InvalidArgument, match="regex cannot be used"):
            client.generate(PROMPT, regex="(a")
        assert client.generate(PROMPT, choice=["two"]).text == "two"


def test_choices_differ_and_the_first_is_the_single_answer(server: dict[str, Any]) -> None:
    with spectrie.Client(server["grpc"]) as client:
        single = client.generate(PROMPT, max_tokens=16, temperature=1.0, seed=5)
        choices = client.generate_choices(PROMPT, n=3, max_tokens=16, temperature=1.0, seed=5)
    assert [choice.index for choice in choices] == [0, 1, 2]
    assert choices[0].token_ids == single.token_ids
    assert len({choice.token_ids for choice in choices}) == 3


async def test_async_stream_is_the_whole_answer_in_pieces(server: dict[str, Any]) -> None:
    async with spectrie.AsyncClient(server["grpc"]) as client:
        whole = await client.generate(PROMPT, max_tokens=16, temperature=0.0)
        async with client.stream(PROMPT, max_tokens=16, temperature=0.0, sources=True) as stream:
            deltas = [delta async for delta in stream]
            assert await stream.final()
    assert "".join(delta.text for delta in deltas) == whole.text
    assert [t for delta in deltas for t in delta.token_ids] == list(whole.token_ids)
    assert all(len(delta.sources) == len(delta.token_ids) for delta in deltas)


def test_prediction_counts_do_not_depend_on_speculation(server: dict[str, Any]) -> None:
    with spectrie.Client(server["grpc"]) as client:
        plain = client.generate(PROMPT, max_tokens=24, temperature=0.0)
        counts = {
            (answer.usage.accepted_prediction_tokens, answer.usage.rejected_prediction_tokens)
            for answer in (
                client.generate(
                    PROMPT,
                    max_tokens=24,
                    temperature=0.0,
                    prediction=plain.token_ids,
                    speculation=enabled,
                )
                for enabled in (True, False)
            )
        }
    assert counts == {(24, 0)}


def test_refusals_arrive_as_their_classes(server: dict[str, Any]) -> None:
    with spectrie.Client(server["grpc"]) as client:
        with pytest.raises(errors.NotFound):
            client.generate("x", model="nosuch")
        with pytest.raises(errors.InvalidArgument) as caught:
            client.generate("x", top_p=2.0, min_p=-1.0)
        with pytest.raises(errors.InvalidArgument) as too_long:
            client.generate("x", max_tokens=10**6)
    fields = {violation.field for violation in caught.value.field_violations}
    assert fields == {"sampling.top_p", "sampling.min_p"}
    assert too_long.value.reason == "CONTEXT_LENGTH_EXCEEDED"


def test_keys_are_asked_for_on_a_unix_socket(tiny: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sesame tenant-a\n")
    with serve(tiny, f"--grpc=unix:{tmp_path}/api.sock", f"--api-keys={keys}") as program:
        target = program.wait_ready()["grpc"]
        with spectrie.Client(target) as nobody, pytest.raises(errors.Unauthenticated):
            nobody.list_models()
        with spectrie.Client(target, api_key="sesame") as tenant:
            assert tenant.generate(PROMPT, max_tokens=2).usage.completion_tokens == 2


def test_generate_prints_the_same_here_and_there(
    server: dict[str, Any], tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--max-tokens", "12", "--temperature", "0"]
    local = ["--dtype", "float32", "--threads", "1", "--kv-memory", "64MiB"]
    assert main(["generate", str(tiny), PROMPT, *options, *local]) == 0
    here = capsys.readouterr().out
    assert main(["generate", server["model"], PROMPT, *options, "--server", server["grpc"]]) == 0
    assert capsys.readouterr().out == here


def test_demo_starts_and_stops_its_own_server(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--max-tokens", "16", "--dtype", "float32", "--threads", "1", "--kv-memory", "64MiB"]
    assert main(["demo", str(tiny), *options]) == 0
    output = capsys.readouterr().out
    assert "ready after" in output
    assert output.count(" yes |") == 3
