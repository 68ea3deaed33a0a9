"""Log formats: one line for each event, without texts of people.

The code logs only ids and counts. But a database error quotes the row, and a model server's error may
quote the prompt. So an exception is cut to 200 characters of its first line, without PostgreSQL's DETAIL.
"""

import json
import logging
import re
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

MAX_ERROR_CHARACTERS = 200
_QUOTED_ROW = re.compile(r"^(DETAIL|CONTEXT|HINT):.*$\n?", re.MULTILINE)
_TOKEN = re.compile(r"(?<=/feeds/|scribe/)[\w:.-]+")  # in an address that works without a sign-in
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OMITTED = _STANDARD_FIELDS | {"request"}  # its URL contains search terms

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def logging_config(log_format: str, level: str) -> dict[str, Any]:
    """Return the value of LOGGING for the format "plain" or "json"."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {"()": "memoryhub.logs.PlainFormatter"},
            "json": {"()": "memoryhub.logs.JsonFormatter"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": log_format}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Its console handler would log everything twice. Its DEBUG level logs the values in SQL.
            "django": {"level": "INFO", "handlers": [], "propagate": True},
            # It logs several lines for each task, and the log of the pass has the results.
            "django-q": {"level": "WARNING"},
            # These log the URLs and the texts that they send.
            "openai": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "slack_sdk": {"level": "WARNING"},
            # It logs a line for each request that waits for a thread.
            "waitress.queue": {"level": "ERROR"},
        },
    }


class PlainFormatter(logging.Formatter):
    """The format for a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _clean(super().formatMessage(record))

    def formatException(self, ei: ExcInfo) -> str:
        """Return the frames, then the class of the error and the beginning of its first line."""
        kind, error, trace = ei
        if kind is None or error is None:
            return ""
        return "".join(traceback.format_tb(trace)) + f"{kind.__name__}: {head_of(error)}"


class JsonFormatter(PlainFormatter):
    """The format for a log collector: a JSON object in each line, with the extra fields as keys."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _clean(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name not in _OMITTED:
                line[name] = value if isinstance(value, int | float | bool) else str(value)
        return json.dumps(line, ensure_ascii=False)


def _clean(text: str) -> str:
    return _TOKEN.sub("…", _QUOTED_ROW.sub("", text)).rstrip()


def head_of(error: BaseException) -> str:
    """Return the first line of an error's text, at most 200 characters."""
    lines = str(error).splitlines()
    return lines[0][:MAX_ERROR_CHARACTERS] if lines else ""
