"""Starting, losing a worker, draining and stopping, with real processes."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from spectrie.client import Client
from spectrie.errors import StreamInterrupted
from tests.system.interruption import assert_goes_on
from tests.system.server import Program, gone, serve


def test_start_up_tells_addresses_and_ends_with_the_ready_line(tiny: Path) -> None:
    with serve(tiny, "--served-model-name=named") as program:
        facts = program.wait_ready()
        assert facts["model"] == "named"
        (worker,) = facts["workers"]
        assert (worker["dtype"], worker["threads"]) == ("float32", 1)
        for text in (f"http://{facts['http']}/v1", facts["grpc"], "curl http://", "float32"):
            assert text in program.output
        program.signal(signal.SIGTERM)
        assert program.wait() == 0
        assert gone(worker["pid"])


def test_stream_of_a_killed_worker_goes_on_at_its_successor(
    long: Path,
) -> None:
    with serve(long) as program:
        facts = program.wait_ready()
        pid = facts["workers"][0]["pid"]
        with Client(facts["grpc"], max_retries=0) as client:
            assert_goes_on(client, pid)
            answer = client.generate("def", max_tokens=4, ignore_eos=True, timeout=60)
            assert answer.usage.completion_tokens == 4
        program.wait_line("restarting it")
        program.signal(signal.SIGINT)
        assert program.wait() == 0


def test_ctrl_c_lets_a_running_answer_finish(tiny: Path) -> None:
    with serve(tiny) as program:
        facts = program.wait_ready()
        with Client(facts["grpc"], max_retries=0) as client:
            stream = client.stream("def", ignore_eos=True, max_tokens=600, speculation=False)
            next(stream)
            program.signal(signal.SIGINT)
            assert stream.final().usage.completion_tokens == 600
        assert program.wait() == 0
        assert gone(facts["workers"][0]["pid"])


def test_second_ctrl_c_stops_at_once(long: Path) -> None:
    with serve(long) as program:
        facts = program.wait_ready()
        with Client(facts["grpc"], max_retries=0) as client:
            stream = client.stream("def", ignore_eos=True, speculation=False)
            next(stream)
            program.signal(signal.SIGINT)
            program.wait_line("draining")
            program.signal(signal.SIGINT)
            assert program.wait() == 130
            with pytest.raises(StreamInterrupted):
                stream.final()
        assert gone(facts["workers"][0]["pid"])


def test_workers_of_a_killed_serve_end_too(tiny: Path) -> None:
    with serve(tiny) as program:
        facts = program.wait_ready()
        program.process.kill()
        assert gone(facts["workers"][0]["pid"])


def test_two_workers_share_the_machine_and_both_serve(tiny: Path) -> None:
    with serve(tiny, "--workers=2") as program:
        facts = program.wait_ready()
        assert len({worker["pid"] for worker in facts["workers"]}) == 2
        assert len({worker["numeric_fingerprint"] for worker in facts["workers"]}) == 1
        with Client(facts["grpc"]) as client:
            deadline = time.monotonic() + 60
            while client.list_models()[0].workers != 2:
                assert time.monotonic() < deadline, program.output
                time.sleep(0.05)
            assert client.generate("def", max_tokens=3).token_ids
        program.signal(signal.SIGINT)
        assert program.wait() == 0


def test_router_and_worker_find_each_other_in_any_order(tiny: Path, tmp_path: Path) -> None:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    listen = f"unix:{tmp_path}/worker.sock"
    router = ("router", "--http=off", "--grpc=127.0.0.1:0", f"--worker-listen={listen}")
    worker_flags = (f"--router={listen}", f"--health=unix:{tmp_path}/health.sock", "--threads=1")
    with Program("worker", str(tiny), "--dtype=float32", *worker_flags) as worker:
        with grpc.insecure_channel(f"unix:{tmp_path}/health.sock") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest()
            deadline = time.monotonic() + 120
            status: Any = None
            while status != health_pb2.HealthCheckResponse.SERVING:
                assert time.monotonic() < deadline, worker.output
                try:
                    reply = stub.Check(request, timeout=10, wait_for_ready=True)
                    status = reply.status
                except grpc.RpcError:
                    pass
                time.sleep(0.05)
        for _ in range(2):
            # The second round is a router that was restarted.
            with Program(*router) as running:
                facts = running.wait_ready()
                with Client(facts["grpc"], max_retries=8, timeout=120) as client:
                    assert client.generate("def", max_tokens=3).token_ids
                running.signal(signal.SIGTERM)
                assert running.wait() == 0
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serve", "/no/such/model"), "no model '/no/such/model'"),
        (("serve", "{empty}"), "has no config.json"),
        (("serve", "{broken}"), "config.json"),
        (("serve", "{tiny}", "--http=127.0.0.1:{taken}"), "{taken}"),
        (("serve", "{tiny}", "--kv-memory=10"), "kv_memory_bytes is 10"),
        (("serve", "{tiny}", "--grpc=nonsense"), "--grpc: 'nonsense' is not an address"),
        (("serve", "{tiny}", "--api-keys=/no/keys"), "/no/keys"),
        (("serve", "{tiny}", "--corpus=/no/such.corpus"), "no corpus '/no/such.corpus'"),
        (("serve", "{tiny}", "--tensor-parallel=0"), "--tensor-parallel: 0 is out of range"),
        (("serve", "{tiny}", "--tensor-parallel=5"), "tensor_parallel is 5; "),
        (("worker", "{tiny}"), "--router is required"),
        (("router", "--worker-listen=127.0.0.1:0"), "token"),
    ],
)
def test_what_cannot_start_ends_with_one_clear_line(
    tiny: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {
            "empty": str(tmp_path / "empty"),
            "broken": str(tmp_path / "broken"),
            "tiny": str(tiny),
            "taken": str(taken.getsockname()[1]),
        }
        free = () if arguments[0] == "worker" else ("--grpc=127.0.0.1:0",)
        filled = [argument.format(**values) for argument in arguments]
        if not any(argument.startswith("--http") for argument in filled) and free:
            filled.append("--http=127.0.0.1:0")
        if not any(argument.startswith("--grpc") for argument in filled):
            filled.extend(free)
        with Program(*filled) as program:
            assert program.wait() in (1, 2)
            (line,) = [li for li in program.output.splitlines() if message.format(**values) in li]
            assert "spectrie: " in line
            assert "Traceback" not in program.output
