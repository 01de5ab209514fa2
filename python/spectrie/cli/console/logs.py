"""Log lines of the Python processes: on stderr, as text or as one JSON object each."""

from __future__ import annotations

import json
import logging
import sys
import time

__all__ = ["configure_logs"]

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}


class _TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z  INFO spectrie.worker: text`, as the router writes its lines."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_timestamp(record)} {_level(record):>5} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _JsonFormatter(logging.Formatter):
    """One object a line: timestamp, level, target, message, and error where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "timestamp": _timestamp(record),
            "level": _level(record),
            "target": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content)


def configure_logs(level: str, form: str) -> None:
    """Sends the log lines of `spectrie.*` from `level` up to stderr.

    Args:
        level: `error`, `warn`, `info`, `debug` or `trace`.
        form: `text` or `json`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logger = logging.getLogger("spectrie")
    logger.handlers[:] = [handler]
    logger.setLevel(_LEVELS[level])
    logger.propagate = False


def _timestamp(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _level(record: logging.LogRecord) -> str:
    return "WARN" if record.levelno == logging.WARNING else record.levelname
