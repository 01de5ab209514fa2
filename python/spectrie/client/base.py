"""Settings, requests and errors that the synchronous and the asynchronous client share."""

from __future__ import annotations

import dataclasses
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, Unpack, cast

import grpc

from spectrie._proto import inference_pb2 as pb
from spectrie._proto.inference_pb2_grpc import InferenceStub
from spectrie.client.channel import metadata
from spectrie.client.policy import Attempts, ClientConfig, does_not_answer
from spectrie.client.requests import generate_request
from spectrie.client.status import error_of
from spectrie.client.stream import OpenCall, ReadError, ResumeCall
from spectrie.errors import ConfigError, SpectrieError
from spectrie.options import GenerateOptions
from spectrie.types import Message

__all__ = ["DEFAULT_TARGET", "BaseClient"]

DEFAULT_TARGET = "127.0.0.1:50051"
"""Where `spectrie serve` listens for gRPC by default."""


class _Unset:
    """Marks an argument that was not given, where None means something."""


UNSET = _Unset()


@dataclass(slots=True)
class _Connection:
    """The channels that a client and its `with_options` copies share, once one of them made them."""

    pid: int
    channels: dict[str, Any] = field(default_factory=dict)
    place: int = 0
    """Of the server that is asked next."""
    lock: threading.Lock = field(default_factory=threading.Lock)


def _targets(target: object) -> tuple[Any, ...]:
    """One address or several; what is neither is checked, and refused, with them."""
    is_one = isinstance(target, str) or not isinstance(target, Sequence)
    return (target,) if is_one else tuple(cast(Sequence[Any], target))


class BaseClient(ABC):
    """Settings and request building of a client; it opens no connection itself."""

    def __init__(
        self,
        target: str | Sequence[str] = DEFAULT_TARGET,
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeout: float | None = 600.0,
        connect_timeout: float = 5.0,
        max_retries: int = 2,
        tls: bool = False,
        root_certificates: bytes | None = None,
        private_key: bytes | None = None,
        certificate_chain: bytes | None = None,
    ) -> None:
        """Creates a client; it connects on first use.

        Args:
            target: `HOST:PORT` or `unix:PATH` of the server's gRPC address. Of several ones the first
                is asked, and the next while one does not answer. With `--redis`, a stream whose
                server is lost goes on at another one.
            api_key: Key to send; the environment variable SPECTRIE_API_KEY by default.
            model: Model for requests that name none; the only served one by default.
            timeout: Seconds for a whole request, retries included; None waits indefinitely.
            connect_timeout: Seconds for opening a connection.
            max_retries: Maximum retries after a failed connection, UNAVAILABLE, or
                RESOURCE_EXHAUSTED with a retry time: before the first token, and each time that
                a stream is cut behind it.
            tls: Whether to use TLS; implied by each of the following.
            root_certificates: PEM of the authorities to trust.
            private_key: PEM of the key of `certificate_chain`.
            certificate_chain: PEM of the client's own certificate, for servers that ask for one.

        Raises:
            ConfigError: A setting is not allowed.
        """
        self._config = ClientConfig(
            targets=_targets(target),
            api_key=api_key or os.environ.get("SPECTRIE_API_KEY") or None,
            timeout=timeout,
            connect_timeout=connect_timeout,
            max_retries=max_retries,
            model=model,
            tls=tls or root_certificates is not None or certificate_chain is not None,
            root_certificates=root_certificates,
            private_key=private_key,
            certificate_chain=certificate_chain,
        )
        self._connection = _Connection(os.getpid())
        self._owns_connection = True

    @property
    def target(self) -> str:
        """The address of the server that is asked next."""
        return self._config.targets[self._connection.place]

    def with_options(
        self,
        *,
        timeout: float | _Unset | None = UNSET,
        max_retries: int | None = None,
        model: str | None = None,
    ) -> Self:
        """Returns a client with other settings over the same connection."""
        changes: dict[str, Any] = {}
        if not isinstance(timeout, _Unset):
            changes["timeout"] = timeout
        if max_retries is not None:
            changes["max_retries"] = max_retries
        if model is not None:
            changes["model"] = model
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._config = dataclasses.replace(self._config, **changes)
        other._owns_connection = False
        return other

    def _connected(self, target: str) -> Any:
        """The channel to a server, made on first use.

        Raises:
            SpectrieError: The process forked since; gRPC channels do not survive that.
        """
        connection = self._connection
        if os.getpid() != connection.pid:
            raise SpectrieError("this client was made before a fork: make one in each process")
        with connection.lock:
            if target not in connection.channels:
                connection.channels[target] = self._make_channel(target)
            return connection.channels[target]

    def _disconnected(self) -> list[Any]:
        """The channels that this client must close; none if another client owns them."""
        if not self._owns_connection:
            return []
        with self._connection.lock:
            channels, self._connection.channels = self._connection.channels, {}
        return list(channels.values())

    def _move_on(self, target: str, error: SpectrieError) -> None:
        """Asks the next server from now on, if this one does not answer."""
        connection, targets = self._connection, self._config.targets
        if not does_not_answer(error):
            return
        with connection.lock:
            # Another call may have moved on already.
            if targets[connection.place] == target:
                connection.place = (connection.place + 1) % len(targets)

    @abstractmethod
    def _make_channel(self, target: str) -> Any:
        """A synchronous or asynchronous channel to a server."""

    def _stub(self, target: str) -> Any:
        return InferenceStub(self._connected(target))

    def _generate_request(
        self,
        prompt: str | None,
        prompt_token_ids: Sequence[int] | None,
        messages: Sequence[Message] | None,
        options: GenerateOptions,
        n: int | None = None,
    ) -> pb.GenerateRequest:
        if options.get("model") is None:
            options = cast(GenerateOptions, {**options, "model": self._config.model})
        return generate_request(prompt, prompt_token_ids, messages, options, n)

    def _stream_call(
        self,
        prompt: str | None,
        prompt_token_ids: Sequence[int] | None,
        messages: Sequence[Message] | None,
        options: GenerateOptions,
    ) -> tuple[OpenCall, ResumeCall, ReadError, Attempts]:
        """The arguments of a stream."""
        request = self._generate_request(prompt, prompt_token_ids, messages, options)
        attempts = self._attempts(**options)
        asked = self.target

        def open_call(timeout_s: float | None) -> Any:
            nonlocal asked
            asked = self.target
            call = self._stub(asked).GenerateStream
            return call(request, timeout=timeout_s, metadata=self._metadata())

        def resume_call(place: pb.ResumeStreamRequest, timeout_s: float | None) -> Any:
            nonlocal asked
            asked = self.target
            call = self._stub(asked).ResumeStream
            return call(place, timeout=timeout_s, metadata=self._metadata())

        def read_error(failure: grpc.RpcError, was_read: bool) -> SpectrieError:
            error = self._error_of(failure, attempts.timeout_s, asked)
            # One that gave a part of the answer may only have lost the connection.
            if not was_read:
                self._move_on(asked, error)
            return error

        return open_call, resume_call, read_error, attempts

    def _attempts(self, **options: Unpack[GenerateOptions]) -> Attempts:
        timeout = options.get("timeout")
        if timeout is None:
            timeout = self._config.timeout
        elif not timeout > 0:
            raise ConfigError(f"timeout: {timeout!r} is not allowed: give seconds above 0")
        return Attempts(self._config.max_retries, timeout, len(self._config.targets))

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return metadata(self._config)

    def _error_of(
        self, failure: grpc.RpcError, timeout_s: float | None, target: str
    ) -> SpectrieError:
        call: Any = failure
        return error_of(
            call.code(),
            call.details() or "",
            call.trailing_metadata() or (),
            target=target,
            timeout_s=timeout_s,
        )
