"""All errors that Spectrie raises: one tree under `SpectrieError`, one class per status code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Aborted",
    "AlreadyExists",
    "BatchFailed",
    "BatchInterrupted",
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
    """Base of all Spectrie errors; `str()` returns a sentence to show to a user.

    Attributes:
        finished_choices: Where `LLM` was asked for several answers to a prompt and one failed, the
            `Completion` of each that did not.
    """

    finished_choices: tuple[object, ...] = ()


class ConfigError(SpectrieError):
    """An option, configuration file or environment variable that cannot be used as given."""


class ModelError(SpectrieError):
    """A model that cannot be found, read, converted or run."""


class BatchFailed(SpectrieError):
    """Some prompts of a list failed while they ran; nothing that the others gave is lost.

    Attributes:
        answers: For each prompt, in order, its `Completion` or its error.
        errors: The errors, by the index of their prompt.
    """

    def __init__(self, answers: Sequence[object]) -> None:
        self.answers = tuple(answers)
        self.errors = {
            index: answer
            for index, answer in enumerate(self.answers)
            if isinstance(answer, SpectrieError)
        }
        index, first = next(iter(self.errors.items()))
        super().__init__(
            f"{len(self.errors)} of {len(self.answers)} prompts failed; number {index} (from 0):"
            f" {first}"
        )


class BatchInterrupted(KeyboardInterrupt):
    """Ctrl-C while a list of prompts ran: what still ran was cancelled, and what was finished is here.

    Attributes:
        answers: For each prompt, in order, its `Completion`, its error, or None if it had neither yet.
    """

    def __init__(self, answers: Sequence[object]) -> None:
        self.answers = tuple(answers)
        ended = sum(answer is not None for answer in self.answers)
        super().__init__(f"interrupted; {ended} of {len(self.answers)} prompts have ended")


class RankLost(SpectrieError):
    """A rank of a tensor-parallel model ended or does not answer; the model cannot continue."""


class ConnectFailed(SpectrieError):
    """No connection to the server could be made; nothing was sent.

    Attributes:
        target: The address of the failed connection.
    """

    def __init__(self, message: str, *, target: str) -> None:
        super().__init__(message)
        self.target = target


class DeadlineExceeded(SpectrieError):
    """The answer did not arrive in time; the request was cancelled.

    Attributes:
        timeout_s: The limit in seconds that this client set, or None for the server's own.
        request_id: The server's name for the request, if it sent one.
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
        reason: Machine-readable reason, such as `CONTEXT_LENGTH_EXCEEDED`, if the server sent one.
        field_violations: The invalid fields of a refused request.
        retry_after_s: Seconds to wait before retrying, if the server sent it.
        request_id: The server's name for the request, if it sent one.
        metadata: Additional facts that came with `reason`.
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
        """The message, followed by every refused field that it does not already describe."""
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
    """A request with the same `request_id` is running, or a corpus of this name is loaded."""

    code = "ALREADY_EXISTS"


class PermissionDenied(StatusError):
    """The key is known but not allowed to do this."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(StatusError):
    """A queue, rate or size limit was reached; see `retry_after_s`."""

    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(StatusError):
    """The server's state does not allow this request."""

    code = "FAILED_PRECONDITION"


class Aborted(StatusError):
    """The request conflicted with another one."""

    code = "ABORTED"


class OutOfRange(StatusError):
    """A value or a message exceeds the limit."""

    code = "OUT_OF_RANGE"


class Unimplemented(StatusError):
    """This server does not offer the method or option."""

    code = "UNIMPLEMENTED"


class Internal(StatusError):
    """The server hit a bug; search its log for `request_id`."""

    code = "INTERNAL"


class Unavailable(StatusError):
    """The server is starting, draining, or lost the worker; see `retry_after_s`."""

    code = "UNAVAILABLE"


class DataLoss(StatusError):
    """Stored data cannot be read back."""

    code = "DATA_LOSS"


class Unauthenticated(StatusError):
    """The key is missing or unknown."""

    code = "UNAUTHENTICATED"


class StreamInterrupted(SpectrieError):
    """A stream ended before its answer was complete; the cause is `__cause__`.

    Attributes:
        text: Text received so far, per choice.
        token_ids: Token ids received so far, per choice.
    """

    def __init__(
        self, message: str, *, text: tuple[str, ...], token_ids: tuple[tuple[int, ...], ...]
    ) -> None:
        super().__init__(message)
        self.text = text
        self.token_ids = token_ids


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """A worker that failed to carry out a call.

    Attributes:
        worker: Its name, as in metrics and logs.
        code: Number of a gRPC status code.
        message: The reason, in one sentence.
    """

    worker: str
    code: int
    message: str


class PartialFailure(SpectrieError):
    """A call succeeded on some workers and failed on others.

    Attributes:
        failures: The workers that failed, with their reasons.
        result: The combined result of the workers that succeeded.
    """

    def __init__(self, failures: tuple[WorkerFailure, ...], result: object) -> None:
        named = "; ".join(f"{failure.worker}: {failure.message}" for failure in failures)
        super().__init__(f"{len(failures)} of the workers failed: {named}")
        self.failures = failures
        self.result = result
