"""The synchronous client against a scripted server on a real socket."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2 as details

import spectrie
from spectrie import errors
from spectrie._proto import inference_pb2 as pb
from tests.client.scripted import Server, delta, fail, finished, started

RETRY_IN_2_S = details.RetryInfo(retry_delay=Duration(seconds=2))
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def whole_answer() -> pb.GenerateResponse:
    return pb.GenerateResponse(
        started=started().started,
        choices=[
            pb.Choice(
                text="abcd",
                token_ids=[1, 2, 3, 4],
                sources=[
                    pb.SOURCE_MODEL,
                    pb.SOURCE_PREDICTION,
                    pb.SOURCE_PREDICTION,
                    pb.SOURCE_MODEL,
                ],
                finished=finished().finished,
            )
        ],
    )


def test_generate_gives_text_tokens_usage_and_speculation(server: Server) -> None:
    server.script.unary = [whole_answer()]
    with spectrie.Client(server.target) as client:
        completion = client.generate("hello", max_tokens=4)
    assert completion.text == "abcd"
    assert completion.token_ids == (1, 2, 3, 4)
    assert completion.finish_reason == "length"
    assert completion.usage.total_tokens == 7
    assert completion.usage.accepted_prediction_tokens == 2
    assert completion.speculation.tokens_per_step == 3.0
    assert completion.speculation.accepted_by_source == {"prediction": 2}
    assert completion.sources[1] is spectrie.Source.PREDICTION
    assert (completion.seed, completion.request_id, completion.model) == (7, "r1", "m")
    assert not completion.numerics_changed


def test_completion_says_that_its_numerics_changed(server: Server) -> None:
    answer = whole_answer()
    answer.choices[0].finished.numerics_changed = True
    server.script.unary = [answer]
    with spectrie.Client(server.target) as client:
        assert client.generate("hello", max_tokens=4).numerics_changed


def test_options_reach_the_wire_and_absent_ones_stay_absent(server: Server, tmp_path: Path) -> None:
    server.script.unary = [whole_answer()]
    draft = tmp_path / "draft.py"
    draft.write_text("x = 1\n")
    with spectrie.Client(server.target, api_key="k1", model="m1") as client:
        client.generate(
            "hello",
            temperature=0,
            seed=2**63,
            stop="\n\n",
            logit_bias={5: -1.5},
            prediction=draft,
            speculation=spectrie.SpeculationOptions(max_draft_tokens=8, mode="bfs", learn=False),
        )
    request = server.script.requests[0]
    assert request.text == "hello"
    assert request.model == "m1"
    assert request.sampling.HasField("temperature") and request.sampling.temperature == 0
    assert not request.sampling.HasField("top_p")
    assert request.sampling.seed == 2**63
    assert dict(request.sampling.logit_bias) == {5: -1.5}
    assert list(request.stopping.stop) == ["\n\n"]
    assert not request.stopping.HasField("max_tokens")
    assert request.speculation.prediction.text == "x = 1\n"
    assert request.speculation.mode == pb.SPECULATION_MODE_BFS
    assert not request.speculation.HasField("enabled")
    assert request.speculation.learn is False
    assert server.script.metadata[0]["authorization"] == "Bearer k1"


def test_chat_sends_messages_in_order(server: Server) -> None:
    server.script.unary = [whole_answer()]
    with spectrie.Client(server.target) as client:
        client.chat([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}])
    sent = server.script.requests[0].chat.messages
    assert [(m.role, m.content) for m in sent] == [("system", "be brief"), ("user", "hi")]


@pytest.mark.parametrize(
    ("options", "field", "given"),
    [
        ({"temperature": "hot"}, "sampling.temperature", "'hot'"),
        ({"top_k": -1}, "sampling.top_k", "-1"),
        ({"top_k": True}, "sampling.top_k", "True"),
        ({"max_tokens": 1.5}, "stopping.max_tokens", "1.5"),
        ({"seed": 2**64}, "sampling.seed", str(2**64)),
        ({"ignore_eos": 1}, "stopping.ignore_eos", "1"),
        ({"stop": ["a", 3]}, "stopping.stop[1]", "3"),
        ({"stop_token_ids": [1, -2]}, "stopping.stop_token_ids[1]", "-2"),
        ({"logit_bias": {-1: 0.5}}, "sampling.logit_bias", "-1"),
        ({"speculation": "yes"}, "speculation", "'yes'"),
        ({"prediction": Path("/no/such/file")}, "speculation.prediction", "/no/such/file"),
        ({"model": 3}, "model", "3"),
        ({"bad_words": "no"}, "sampling.bad_words", "'no'"),
        ({"logprobs": True}, "output.logprobs", "True"),
        ({"regex": "a", "choice": ["b"]}, "structured", "['regex', 'choice']"),
        ({"choice": ["b", 1]}, "structured.choice[1]", "1"),
        ({"json_schema": {"a": {1}}}, "structured.json_schema", "{'a': {1}}"),
    ],
)
def test_wrong_type_is_refused_by_field_and_value(
    options: dict[str, Any], field: str, given: str
) -> None:
    client = spectrie.Client("127.0.0.1:1")
    with pytest.raises(errors.InvalidArgument, match="is not allowed: give") as caught:
        client.generate("x", **options)
    assert caught.value.field_violations[0].field == field
    assert given in str(caught.value)


def test_exactly_one_prompt_is_wanted() -> None:
    client = spectrie.Client("127.0.0.1:1")
    for given in ({}, {"prompt": "a", "prompt_token_ids": [1]}):
        with pytest.raises(errors.InvalidArgument, match="exactly one of prompt"):
            client.generate(**given)  # type: ignore[arg-type]


def test_unknown_option_names_the_nearest() -> None:
    client = spectrie.Client("127.0.0.1:1")
    with pytest.raises(TypeError, match="'temprature'; did you mean 'temperature'"):
        client.generate("x", temprature=1.0)  # type: ignore[call-arg]


def test_refusal_carries_fields_reason_and_request_id(server: Server) -> None:
    violation = details.BadRequest.FieldViolation(
        field="sampling.top_p", description="2 is above 1"
    )
    server.script.unary = [
        fail(
            grpc.StatusCode.INVALID_ARGUMENT,
            "bad request",
            details.BadRequest(field_violations=[violation]),
            details.ErrorInfo(reason="CONTEXT_LENGTH_EXCEEDED", metadata={"limit": "64"}),
            details.RequestInfo(request_id="r9"),
        )
    ]
    with spectrie.Client(server.target) as client, pytest.raises(errors.InvalidArgument) as caught:
        client.generate("x", top_p=2.0)
    error = caught.value
    assert error.field_violations == (errors.FieldViolation("sampling.top_p", "2 is above 1"),)
    assert (error.reason, error.metadata) == ("CONTEXT_LENGTH_EXCEEDED", {"limit": "64"})
    assert error.request_id == "r9"
    assert str(error) == "bad request (sampling.top_p: 2 is above 1)"
    assert len(server.script.requests) == 1


def test_text_of_a_refusal_names_each_field_once() -> None:
    one = (errors.FieldViolation("stopping.stop", "given 20; allowed: 16"),)
    shown = str(errors.InvalidArgument("given 20; allowed: 16", field_violations=one))
    assert shown == "stopping.stop: given 20; allowed: 16"
    whole = "stopping.stop: given 20; allowed: 16"
    assert str(errors.InvalidArgument(whole, field_violations=one)) == whole
    assert str(errors.InvalidArgument("no", field_violations=one)) == f"no ({whole})"
    assert str(errors.Unavailable("loading")) == "loading"


@pytest.mark.parametrize(
    "code", [c for c in grpc.StatusCode if c.name not in ("OK", "DEADLINE_EXCEEDED")]
)
def test_every_status_code_has_its_class(server: Server, code: grpc.StatusCode) -> None:
    server.script.unary = [fail(code, "because")]
    client = spectrie.Client(server.target, max_retries=0)
    with client, pytest.raises(errors.StatusError, match="because") as caught:
        client.list_models()
    assert caught.value.code == code.name
    assert type(caught.value) is not errors.StatusError


def test_unavailable_is_retried_with_growing_delays(server: Server, sleeps: list[float]) -> None:
    server.script.unary = [
        fail(UNAVAILABLE, "loading"),
        fail(UNAVAILABLE, "loading"),
        whole_answer(),
    ]
    with spectrie.Client(server.target) as client:
        assert client.generate("x").text == "abcd"
    assert len(server.script.requests) == 3
    assert 0.375 <= sleeps[0] <= 0.5
    assert 0.75 <= sleeps[1] <= 1.0


def test_retries_end_with_the_last_error(server: Server, sleeps: list[float]) -> None:
    server.script.unary = [fail(UNAVAILABLE, "loading", RETRY_IN_2_S)]
    with spectrie.Client(server.target) as client, pytest.raises(errors.Unavailable) as caught:
        client.generate("x")
    assert caught.value.retry_after_s == 2.0
    assert sleeps == [2.0, 2.0]
    assert len(server.script.requests) == 3


def test_exhausted_is_retried_only_when_the_server_says_when(
    server: Server, sleeps: list[float]
) -> None:
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    server.script.unary = [
        fail(exhausted, "queue full", RETRY_IN_2_S),
        fail(exhausted, "too large"),
    ]
    with spectrie.Client(server.target) as client, pytest.raises(errors.ResourceExhausted):
        client.generate("x")
    assert sleeps == [2.0]
    assert len(server.script.requests) == 2


def test_no_retry_outlives_the_deadline(server: Server, sleeps: list[float]) -> None:
    later = details.RetryInfo(retry_delay=Duration(seconds=59))
    server.script.unary = [fail(UNAVAILABLE, "loading", later)]
    with spectrie.Client(server.target) as client, pytest.raises(errors.Unavailable):
        client.generate("x", timeout=58)
    assert sleeps == []


def test_deadline_is_named(server: Server) -> None:
    gate = threading.Event()
    server.script.unary = [lambda context: gate.wait(60)]
    with spectrie.Client(server.target) as client:
        with pytest.raises(errors.DeadlineExceeded, match=r"within 0\.2 s") as caught:
            client.generate("x", timeout=0.2)
        gate.set()
    assert caught.value.timeout_s == 0.2


def test_no_server_is_a_failed_connection(sleeps: list[float]) -> None:
    with (
        spectrie.Client("127.0.0.1:1") as client,
        pytest.raises(errors.ConnectFailed, match=r"cannot connect to 127\.0\.0\.1:1") as caught,
    ):
        client.list_models()
    assert caught.value.target == "127.0.0.1:1"
    assert len(sleeps) == 2


@pytest.mark.parametrize(
    "target", ["", "localhost", "host:", ":1", "h:0", "h:70000", "unix:", "http://h:1", 5]
)
def test_bad_target_says_what_is_allowed(target: Any) -> None:
    with pytest.raises(errors.ConfigError, match=r"give HOST:PORT or unix:PATH"):
        spectrie.Client(target)


def test_bad_settings_are_refused() -> None:
    for settings in ({"timeout": 0}, {"connect_timeout": -1.0}, {"max_retries": -1}):
        with pytest.raises(errors.ConfigError, match="is not allowed"):
            spectrie.Client("h:1", **settings)


def test_with_options_shares_the_connection(server: Server) -> None:
    server.script.unary = [fail(UNAVAILABLE, "loading")]
    with spectrie.Client(server.target) as client:
        quick = client.with_options(max_retries=0, timeout=None, model="m2")
        with pytest.raises(errors.Unavailable):
            quick.generate("x")
        quick.close()
        with pytest.raises(errors.Unavailable):
            client.with_options(max_retries=0).list_models()
    assert server.script.requests[0].model == "m2"


def test_tokenize_detokenize_template_and_models(server: Server) -> None:
    model = pb.Model(name="m", max_context=64, vocabulary_size=9, workers=2)
    server.script.unary = [
        pb.TokenizeResponse(token_ids=[4, 5]),
        pb.DetokenizeResponse(text="hi"),
        pb.ApplyChatTemplateResponse(text="<user>hi"),
        pb.ListModelsResponse(models=[model]),
    ]
    with spectrie.Client(server.target) as client:
        assert client.tokenize("hi", add_special_tokens=True) == [4, 5]
        assert client.detokenize([4, 5]) == "hi"
        assert client.apply_chat_template([{"role": "user", "content": "hi"}]) == "<user>hi"
        assert client.list_models()[0].max_context == 64
    assert list(server.script.requests[1].token_ids) == [4, 5]
    assert server.script.requests[0].add_special_tokens


def test_key_is_not_shown_by_the_settings() -> None:
    client = spectrie.Client("h:1", api_key="secret")
    assert "secret" not in repr(client._config)


def test_unix_socket_target(tmp_path: Path) -> None:
    client = spectrie.Client(f"unix:{tmp_path}/none.sock", max_retries=0)
    with client, pytest.raises(errors.ConnectFailed, match="No such file"):
        client.list_models()


def test_stream_and_delta_types(server: Server) -> None:
    server.script.streams = [[started(), delta("ab", 1, 2), delta("cd", 3, 4), finished()]]
    with spectrie.Client(server.target) as client, client.stream("x") as stream:
        deltas = list(stream)
        assert stream.text_so_far == "abcd"
        completion = stream.final()
    assert [d.text for d in deltas] == ["ab", "cd"]
    assert deltas[0].sources == (spectrie.Source.REQUEST,) * 2
    assert completion.token_ids == (1, 2, 3, 4)
    assert stream.request_id == "r1"


def test_answer_tells_what_was_thought_of_its_tokens_and_the_prompts(server: Server) -> None:
    answer = whole_answer()
    choice = answer.choices[0]
    for token in choice.token_ids:
        top = [pb.TopLogprob(token_id=token, logprob=-0.5), pb.TopLogprob(token_id=9, logprob=-1)]
        choice.logprobs.add(token_id=token, logprob=-0.5, top=top, text="x")
    choice.finished.prompt_logprobs.add(token_id=7)
    choice.finished.prompt_logprobs.add(token_id=8, logprob=-2)
    server.script.unary = [answer, whole_answer()]
    with spectrie.Client(server.target) as client:
        completion = client.generate("hello", logprobs=2, prompt_logprobs=0)
        silent = client.generate("hello")
    output = server.script.requests[0].output
    assert (output.logprobs, output.prompt_logprobs) == (2, 0)
    assert output.HasField("prompt_logprobs")
    assert completion.logprobs is not None
    assert [entry.token_id for entry in completion.logprobs] == [1, 2, 3, 4]
    assert completion.logprobs[0] == spectrie.TokenLogprobs(1, -0.5, {1: -0.5, 9: -1.0})
    assert completion.prompt_logprobs == (None, spectrie.TokenLogprobs(8, -2.0, {}))
    assert (silent.logprobs, silent.prompt_logprobs) == (None, None)
    assert not server.script.requests[1].output.HasField("logprobs")


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        ({"json_schema": {"type": "object"}}, "json_schema", '{"type": "object"}'),
        ({"json_schema": "{}"}, "json_schema", "{}"),
        ({"json_object": True}, "json_object", True),
        ({"regex": "a+"}, "regex", "a+"),
        ({"grammar": 'start: "a"'}, "grammar", 'start: "a"'),
        ({"choice": ["yes", "no"]}, "choice", pb.Choices(texts=["yes", "no"])),
    ],
)
def test_form_of_the_answer_reaches_the_wire(
    server: Server, options: Any, field: str, expected: object
) -> None:
    server.script.unary = [whole_answer()]
    with spectrie.Client(server.target) as client:
        client.generate("hello", typical_p=0.5, bad_words=["no", " so"], **options)
    request = server.script.requests[0]
    assert request.structured.WhichOneof("constraint") == field
    assert getattr(request.structured, field) == expected
    assert request.sampling.typical_p == 0.5
    assert list(request.sampling.bad_words) == ["no", " so"]
