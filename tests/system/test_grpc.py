"""The served gRPC API, as seen by clients that do not have this package."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool

from spectrie.client import Client

WAIT_S = 60.0


@pytest.fixture
def channel(server: dict[str, Any]) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server["grpc"]) as channel:
        yield channel


class Reflected:
    """A client built from reflection alone."""

    def __init__(self, channel: grpc.Channel) -> None:
        from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
            ProtoReflectionDescriptorDatabase,
        )

        self._channel = channel
        self._database: Any = ProtoReflectionDescriptorDatabase(channel)
        self._pool = DescriptorPool(self._database)

    def services(self) -> list[str]:
        return list(self._database.get_services())

    def call(self, method_name: str, fields: dict[str, Any]) -> Any:
        """The reply, or the list of replies of a stream."""
        service = self._pool.FindServiceByName("spectrie.v1.Inference")
        method = service.methods_by_name[method_name]
        request = message_factory.GetMessageClass(method.input_type)(**fields)
        make: Any = self._channel.unary_unary
        if method.server_streaming:
            make = self._channel.unary_stream
        reply = message_factory.GetMessageClass(method.output_type)
        answer = make(
            f"/{service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )(request, timeout=WAIT_S)
        return list(answer) if method.server_streaming else answer


REQUEST = {"text": "def print", "stopping": {"max_tokens": 12}, "sampling": {"seed": 3}}


def test_client_that_knows_only_reflection_generates_and_streams(channel: grpc.Channel) -> None:
    client = Reflected(channel)
    services = client.services()
    assert {"spectrie.v1.Inference", "grpc.health.v1.Health"} <= set(services)
    whole = client.call("Generate", REQUEST)
    (choice,) = whole.choices
    assert 0 < len(choice.token_ids) <= 12
    events = client.call("GenerateStream", REQUEST)
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[0] == "started"
    assert kinds[-1] == "finished"
    deltas = [event.delta for event in events if event.WhichOneof("event") == "delta"]
    assert "".join(delta.text for delta in deltas) == choice.text
    assert [token for delta in deltas for token in delta.token_ids] == list(choice.token_ids)


def test_health_is_serving_for_the_server_and_its_service(channel: grpc.Channel) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "spectrie.v1.Inference"):
        reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
        assert reply.status == health_pb2.HealthCheckResponse.SERVING


def test_client_and_server_agree_on_models_tokens_and_chat(server: dict[str, Any]) -> None:
    with Client(server["grpc"]) as client:
        (model,) = client.list_models()
        assert (model.name, model.max_context, model.workers) == ("tiny", 4096, 1)
        ids = client.tokenize("the class")
        assert client.detokenize(ids) == "the class"
        answer = client.chat([{"role": "user", "content": "hi"}], max_tokens=5, temperature=0)
        assert answer.usage.completion_tokens <= 5


def test_eight_mixed_requests_at_once_answer_as_each_would_alone(server: dict[str, Any]) -> None:
    requests: list[dict[str, Any]] = [
        {
            "prompt": "def " * (1 + 9 * index),
            "max_tokens": 30 + index,
            "seed": index,
            "temperature": 0.0 if index % 2 else 0.9,
            "speculation": index % 3 != 0,
            "prediction": "def the class" if index % 4 == 0 else None,
        }
        for index in range(8)
    ]
    with Client(server["grpc"]) as client:
        alone = [client.generate(**request).token_ids for request in requests]
        got: dict[int, tuple[int, ...]] = {}

        def ask(index: int) -> None:
            got[index] = client.generate(**requests[index]).token_ids

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
    assert [got[index] for index in range(8)] == alone


def test_cancelled_stream_leaves_the_server_idle(server: dict[str, Any]) -> None:
    with Client(server["grpc"]) as client:
        with client.stream("def", ignore_eos=True, speculation=False) as stream:
            next(stream)
        # Far fewer tokens than the rest of the context: this waits for nothing but the cancel.
        again = client.generate("def", max_tokens=3, ignore_eos=True)
        assert again.usage.completion_tokens == 3
    assert running(server) == 0


def running(server: dict[str, Any]) -> float:
    """The gauge of running requests, once it is 0 or after a while."""
    import time
    import urllib.request

    deadline = time.monotonic() + WAIT_S
    value = float("nan")
    while time.monotonic() < deadline and value != 0:
        with urllib.request.urlopen(f"http://{server['http']}/metrics", timeout=WAIT_S) as reply:
            lines = reply.read().decode().splitlines()
        values = [
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith("spectrie_requests_running")
        ]
        assert values, "no such gauge"
        value = sum(values)
        time.sleep(0.05)
    return value
