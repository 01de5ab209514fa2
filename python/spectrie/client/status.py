"""Converts failed calls to Spectrie's errors, with the details that the server attached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from spectrie import errors
from spectrie.errors import (
    ConnectFailed,
    DeadlineExceeded,
    FieldViolation,
    SpectrieError,
    StatusError,
)

__all__ = ["error_of"]

_CLASSES: dict[str, type[StatusError]] = {
    cls.code: cls
    for cls in (getattr(errors, name) for name in errors.__all__)
    if isinstance(cls, type) and issubclass(cls, StatusError) and cls is not StatusError
}
# gRPC reports a failed connection with the server's own code, distinguished only by its text.
_CONNECT_FAILURES = ("failed to connect", "dns resolution failed", "name resolution", "no address")
_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(slots=True)
class _Details:
    """The google.rpc details of a status."""

    reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    field_violations: tuple[FieldViolation, ...] = ()
    retry_after_s: float | None = None
    request_id: str | None = None


def error_of(
    code: grpc.StatusCode,
    message: str,
    trailers: Iterable[tuple[str, str | bytes]],
    *,
    target: str,
    timeout_s: float | None,
) -> SpectrieError:
    """The error for a call that ended with `code`.

    Args:
        code: The call's status code.
        message: The status message.
        trailers: The call's trailing metadata.
        target: The address of the call.
        timeout_s: The time limit of the call in seconds.
    """
    details = _read_details(dict(trailers))
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        limit = "" if timeout_s is None else f" within {timeout_s:g} s"
        text = f"no complete answer{limit} (deadline exceeded)"
        return DeadlineExceeded(text, timeout_s=timeout_s, request_id=details.request_id)
    lowered = message.lower()
    if code is grpc.StatusCode.UNAVAILABLE and any(text in lowered for text in _CONNECT_FAILURES):
        cause = message.rsplit(": ", 1)[-1] or message
        return ConnectFailed(f"cannot connect to {target}: {cause}", target=target)
    cls = _CLASSES.get(code.name, errors.Unknown)
    return cls(
        message or f"the server answered {code.name}",
        reason=details.reason,
        field_violations=details.field_violations,
        retry_after_s=details.retry_after_s,
        request_id=details.request_id,
        metadata=details.metadata,
    )


def _read_details(trailers: dict[str, str | bytes]) -> _Details:
    details = _Details()
    given_id = trailers.get("x-request-id")
    details.request_id = given_id if isinstance(given_id, str) else None
    packed = trailers.get(_DETAILS_KEY)
    if not isinstance(packed, bytes):
        return details
    try:
        status = status_pb2.Status.FromString(packed)
    except DecodeError:
        return details
    for item in status.details:
        _add_detail(details, item)
    return details


def _add_detail(details: _Details, item: object) -> None:
    name = item.TypeName().rsplit(".", 1)[-1]  # type: ignore[attr-defined]
    message_class = getattr(error_details_pb2, name, None)
    if message_class is None:
        return
    message = message_class()
    try:
        item.Unpack(message)  # type: ignore[attr-defined]
    except DecodeError:
        return
    if name == "ErrorInfo":
        details.reason = message.reason or None
        details.metadata = dict(message.metadata)
    elif name == "BadRequest":
        details.field_violations = tuple(
            FieldViolation(violation.field, violation.description)
            for violation in message.field_violations
        )
    elif name == "RetryInfo":
        delay = message.retry_delay
        details.retry_after_s = delay.seconds + delay.nanos / 1e9
    elif name == "RequestInfo":
        details.request_id = message.request_id or None
