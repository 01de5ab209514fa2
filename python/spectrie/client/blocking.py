"""Calls with retries over one channel, for clients that block until the answer."""

from __future__ import annotations

import time
from collections.abc import Callable
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
        channel = self._disconnected()
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Callable[..., Any], request: Any, attempts: Attempts) -> Any:
        while True:
            try:
                return method(request, timeout=attempts.remaining_s(), metadata=self._metadata())
            except grpc.RpcError as failure:
                error = self._error_of(failure, attempts.timeout_s)
                delay = attempts.delay_before_retry(error)
                if delay is None:
                    raise error from None
                time.sleep(delay)

    def _make_channel(self) -> grpc.Channel:
        options = channel_options(self._config)
        secure = credentials(self._config)
        if secure is not None:
            return grpc.secure_channel(self._config.target, secure, options)
        return grpc.insecure_channel(self._config.target, options)
