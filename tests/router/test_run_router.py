"""`_core.run_router`: configuration, addresses and the end."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from spectrie import _core
from spectrie._proto import inference_pb2, inference_pb2_grpc

PATIENCE = 60.0


class Router:
    """A router on a thread of this process."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.handle = _core.RouterHandle()
        self.addresses: dict[str, str | None] = {}
        self.code: int | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(json.dumps(config),), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self, config: str) -> None:
        self.code = _core.run_router(config, self._announce, self.handle)

    def _announce(self, addresses: str) -> None:
        self.addresses = json.loads(addresses)
        self._ready.set()

    def stop(self) -> int | None:
        self.handle.shutdown()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.code


def config(folder: Path, **listen: Any) -> dict[str, Any]:
    addresses = {
        "http": "127.0.0.1:0",
        "grpc": "127.0.0.1:0",
        "worker": f"unix:{folder}/worker.sock",
    }
    return {
        "listen": addresses | listen,
        "runtime": {"handle_signals": False},
        "log": {"level": "error"},
    }


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    router = Router(config(tmp_path))
    yield router
    router.stop()


def test_addresses_are_the_real_ones_and_the_end_is_0(router: Router) -> None:
    assert set(router.addresses) == {"http", "grpc", "worker", "metrics", "admin"}
    target = router.addresses["grpc"]
    assert target is not None and not target.endswith(":0")
    with grpc.insecure_channel(target) as channel:
        stub = inference_pb2_grpc.InferenceStub(channel)
        answer = stub.ListModels(inference_pb2.ListModelsRequest(), timeout=PATIENCE)
    assert list(answer.models) == []
    assert router.stop() == 0


def test_port_in_use_names_option_and_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = f"127.0.0.1:{held.getsockname()[1]}"
        bad = json.dumps(config(tmp_path, grpc=address))
        with pytest.raises(_core.RouterError, match=rf"{address} \(--grpc\)"):
            _core.run_router(bad, print)


def test_unknown_member_is_refused_by_name() -> None:
    with pytest.raises(_core.RouterError, match="no_such_member"):
        _core.run_router('{"limits": {"no_such_member": 1}}', print)


def test_worker_socket_is_private_and_goes_with_the_router(tmp_path: Path) -> None:
    router = Router(config(tmp_path))
    path = tmp_path / "worker.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    router.stop()
    assert not path.exists()


def test_exception_of_on_ready_ends_the_router(tmp_path: Path) -> None:
    def refuse(_addresses: str) -> None:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        _core.run_router(json.dumps(config(tmp_path)), refuse)
