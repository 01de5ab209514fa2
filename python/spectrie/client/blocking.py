"""Calls with retries over one channel, for clients that block until the answer."""

from __future__ import annotations

import time
from typing import Any, Self

import grpc

from spectrie.client.base import BaseClient
from spectrie.client.channel import channel_options, credentials
from spectrie.client.policy import Attempts

__all__ = ["BlockingClient"]


class BlockingClient(BaseClient):
    """A client over one synchronous channel; safe to share between threads."""

    def close(self) -> None:
        """Closes the connection; running streams end. Does nothing for a `with_options` copy."""
        for channel in self._disconnected():
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, request: Any, attempts: Attempts) -> Any:
        while True:
            target = self.target
            try:
                return getattr(self._stub(target), method)(
                    request, timeout=attempts.remaining_s(), metadata=self._metadata()
                )
            except grpc.RpcError as failure:
                error = self._error_of(failure, attempts.timeout_s, target)
                self._move_on(target, error)
                delay = attempts.delay_before_retry(error)
                if delay is None:
                    raise error from None
                time.sleep(delay)

    def _make_channel(self, target: str) -> grpc.Channel:
        options = channel_options(self._config, target)
        secure = credentials(self._config)
        if secure is not None:
            return grpc.secure_channel(target, secure, options)
        return grpc.insecure_channel(target, options)
