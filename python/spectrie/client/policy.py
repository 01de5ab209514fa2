"""Settings of a client: target, limits, credentials, retries."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from spectrie.errors import (
    ConfigError,
    ConnectFailed,
    ResourceExhausted,
    SpectrieError,
    Unavailable,
)

__all__ = ["Attempts", "ClientConfig", "check_target", "does_not_answer"]

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 8.0
_LONGEST_SERVER_DELAY_S = 60.0


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings of one client.

    Attributes:
        targets: `HOST:PORT` or `unix:PATH` of the gRPC address of each server, the preferred one first.
        api_key: Sent as a bearer token when given.
        timeout: Seconds for a whole request, retries included; None waits indefinitely.
        connect_timeout: Seconds for opening a connection.
        max_retries: Maximum retries after a transient failure; each time that a stream is cut again.
        model: The model for requests that name none.
        tls: Whether to use TLS.
        root_certificates: PEM of the authorities to trust, instead of gRPC's own list.
        private_key: PEM of the key of `certificate_chain`.
        certificate_chain: PEM of the client's own certificate, for servers that ask for one.
        max_message_bytes: Maximum size of a message sent or received.
    """

    targets: tuple[str, ...]
    api_key: str | None = field(default=None, repr=False)
    timeout: float | None = 600.0
    connect_timeout: float = 5.0
    max_retries: int = 2
    model: str | None = None
    tls: bool = False
    root_certificates: bytes | None = None
    private_key: bytes | None = field(default=None, repr=False)
    certificate_chain: bytes | None = None
    max_message_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        if not self.targets:
            raise ConfigError("target: no address is given: give one or more")
        for target in self.targets:
            check_target(target)
        for name, value in (("timeout", self.timeout), ("connect_timeout", self.connect_timeout)):
            if value is not None and not value > 0:
                raise ConfigError(f"{name}: {value!r} is not allowed: give seconds above 0")
        if self.max_retries < 0:
            raise ConfigError(f"max_retries: {self.max_retries!r} is not allowed: give 0 or more")
        if (self.private_key is None) != (self.certificate_chain is None):
            raise ConfigError("private_key and certificate_chain: give both or neither")


def check_target(target: str) -> None:
    """Refuses a target that is neither `HOST:PORT` nor `unix:PATH`.

    Raises:
        ConfigError: The target has another form; the message lists the allowed ones.
    """
    forms = "give HOST:PORT or unix:PATH"
    if not isinstance(target, str):
        raise ConfigError(f"target: {target!r} is not an address: {forms}")
    if target.startswith(("http://", "https://")):
        raise ConfigError(
            f"target: {target!r} is an HTTP address: {forms} of the server's gRPC address"
            " (for HTTP use any OpenAI client)"
        )
    if target.startswith("unix:"):
        if len(target) > len("unix:"):
            return
        raise ConfigError(f"target: {target!r} has no path: {forms}")
    host, colon, port = target.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ConfigError(f"target: {target!r} is not an address: {forms}")


class Attempts:
    """The attempts of one request: how long each may take, and whether and when to retry.

    Args:
        max_retries: Retries after transient failures, each after a wait.
        timeout_s: Seconds for the whole request; None waits indefinitely.
        num_targets: Servers that it may go to. After a failure each of them is tried at once, beside
            the retries, before anything waits.
    """

    def __init__(self, max_retries: int, timeout_s: float | None, num_targets: int = 1) -> None:
        self._num_moves = num_targets if num_targets > 1 and max_retries > 0 else 0
        self._moves_left = self._num_moves
        self._max_retries = self._retries_left = max_retries
        self._next_delay_s = _FIRST_DELAY_S
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.timeout_s = timeout_s

    def remaining_s(self) -> float | None:
        """Seconds left for the request; None without a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def renew(self) -> None:
        """Gives the request all its retries again, after one that got on."""
        self._retries_left = self._max_retries
        self._moves_left = self._num_moves
        self._next_delay_s = _FIRST_DELAY_S

    def delay_before_retry(self, error: SpectrieError) -> float | None:
        """Seconds to wait before trying again after `error`, or None to give up.

        Retries follow a failed connection, UNAVAILABLE, and RESOURCE_EXHAUSTED with a retry time.
        The server's delay is used as sent. Ours doubles from 0.5 s to 8 s, less up to a quarter at
        random, so that clients do not return all at once.
        """
        if self._moves_left > 0 and does_not_answer(error):
            self._moves_left -= 1
            return 0.0
        if self._retries_left == 0 or not _is_transient(error):
            return None
        told = getattr(error, "retry_after_s", None)
        delay = told if told is not None else self._next_delay_s * random.uniform(0.75, 1.0)
        remaining = self.remaining_s()
        if delay > _LONGEST_SERVER_DELAY_S or (remaining is not None and delay >= remaining):
            return None
        self._retries_left -= 1
        self._next_delay_s = min(self._next_delay_s * 2, _LONGEST_DELAY_S)
        return float(delay)


def does_not_answer(error: SpectrieError) -> bool:
    """Whether another server may answer what this one does not."""
    return isinstance(error, ConnectFailed | Unavailable)


def _is_transient(error: SpectrieError) -> bool:
    if isinstance(error, ResourceExhausted):
        return error.retry_after_s is not None
    return does_not_answer(error)
