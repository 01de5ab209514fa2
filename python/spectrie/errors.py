"""Everything Spectrie raises: one tree under `SpectrieError`, one class per status code."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "ConfigError",
    "ConnectFailed",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "FieldViolation",
    "Internal",
    "InvalidArgument",
    "ModelError",
    "NotFound",
    "OutOfRange",
    "PartialFailure",
    "PermissionDenied",
    "RankLost",
    "ResourceExhausted",
    "SpectrieError",
    "StatusError",
    "StreamInterrupted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "WorkerFailure",
]


class SpectrieError(Exception):
    """Base of all errors of Spectrie; `str()` of one is a sentence fit for a user."""


class ConfigError(SpectrieError):
    """An option, configuration file or environment variable that cannot be used as given."""


class ModelError(SpectrieError):
    """A model that cannot be found, read, converted or run."""


class RankLost(SpectrieError):
    """A rank of a model that several share is gone or does not answer: the model cannot go on."""


class ConnectFailed(SpectrieError):
    """No connection to the server could be made; nothing was sent.

    Attributes:
        target: The address that was dialled.
    """

    def __init__(self, message: str, *, target: str) -> None:
        super().__init__(message)
        self.target = target


class DeadlineExceeded(SpectrieError):
    """The answer did not come within the time allowed; the request was cancelled.

    Attributes:
        timeout_s: The limit in seconds that this client set, or None for the server's own.
        request_id: The server's name for the request, when it told one.
    """

    def __init__(
        self, message: str, *, timeout_s: float | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.timeout_s = timeout_s
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that the server refused.

    Attributes:
        field: Path of the field, such as `sampling.top_p`.
        description: What was given and what is allowed.
    """

    field: str
    description: str


class StatusError(SpectrieError):
    """An answer with a status other than OK; each status code has a class of its own below.

    Attributes:
        code: Name of the gRPC status code, such as `INVALID_ARGUMENT`.
        message: The server's message.
        reason: Machine-readable reason, such as `CONTEXT_LENGTH_EXCEEDED`, when the server gave one.
        field_violations: The fields at fault, for a request that was refused for its content.
        retry_after_s: Seconds after which trying again is worthwhile, when the server said so.
        request_id: The server's name for the request, when it told one.
        metadata: Further facts that came with `reason`.
    """

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        field_violations: tuple[FieldViolation, ...] = (),
        retry_after_s: float | None = None,
        request_id: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.field_violations = field_violations
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        """The message, with every refused field that it does not already name and describe."""
        missing = [
            violation
            for violation in self.field_violations
            if violation.field not in self.message or violation.description not in self.message
        ]
        details = "; ".join(f"{violation.field}: {violation.description}" for violation in missing)
        if not details or [violation.description for violation in missing] == [self.message]:
            return details or self.message
        return f"{self.message} ({details})"


class Cancelled(StatusError):
    """The request was cancelled."""

    code = "CANCELLED"


class Unknown(StatusError):
    """The server failed without saying how."""

    code = "UNKNOWN"


class InvalidArgument(StatusError):
    """A field of the request is not allowed; see `field_violations`."""

    code = "INVALID_ARGUMENT"


class NotFound(StatusError):
    """The named model, corpus or namespace does not exist on this server."""

    code = "NOT_FOUND"


class AlreadyExists(StatusError):
    """A request of the same `request_id` is still running, or a corpus of this name is loaded."""

    code = "ALREADY_EXISTS"


class PermissionDenied(StatusError):
    """The key is known, and not allowed to do this."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(StatusError):
    """A queue, rate or size limit was reached; see `retry_after_s`."""

    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(StatusError):
    """The server is not in a state in which the request makes sense."""

    code = "FAILED_PRECONDITION"


class Aborted(StatusError):
    """The request lost against another one."""

    code = "ABORTED"


class OutOfRange(StatusError):
    """A value or a message is beyond the limit."""

    code = "OUT_OF_RANGE"


class Unimplemented(StatusError):
    """This server does not offer the method or option."""

    code = "UNIMPLEMENTED"


class Internal(StatusError):
    """The server has a bug; `request_id` finds its log line."""

    code = "INTERNAL"


class Unavailable(StatusError):
    """The server is starting, draining, or lost the worker; see `retry_after_s`."""

    code = "UNAVAILABLE"


class DataLoss(StatusError):
    """Stored data cannot be read back."""

    code = "DATA_LOSS"


class Unauthenticated(StatusError):
    """The key is missing or not known."""

    code = "UNAUTHENTICATED"


class StreamInterrupted(SpectrieError):
    """A stream ended before its answer was complete; the cause is `__cause__`.

    Attributes:
        text: What had arrived, per choice.
        token_ids: The token ids that had arrived, per choice.
    """

    def __init__(
        self, message: str, *, text: tuple[str, ...], token_ids: tuple[tuple[int, ...], ...]
    ) -> None:
        super().__init__(message)
        self.text = text
        self.token_ids = token_ids


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """A worker that did not do what it was asked to.

    Attributes:
        worker: Its name, as in metrics and logs.
        code: Number of a gRPC status code.
        message: Why not, in one sentence.
    """

    worker: str
    code: int
    message: str


class PartialFailure(SpectrieError):
    """Some workers did what was asked, others did not.

    Attributes:
        failures: The workers that did not, and why.
        result: What the call would have given, from the workers that did.
    """

    def __init__(self, failures: tuple[WorkerFailure, ...], result: object) -> None:
        named = "; ".join(f"{failure.worker}: {failure.message}" for failure in failures)
        super().__init__(f"{len(failures)} of the workers failed: {named}")
        self.failures = failures
        self.result = result
