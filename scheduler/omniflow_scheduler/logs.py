"""Logging of the process: one line an event, to standard error, never at the price of the process."""

import json
import logging
import sys
from typing import Literal


def set_up_logging(level: str, form: Literal["text", "json"]) -> None:
    """A full disk under the log costs lines, nothing else: errors of writing are swallowed."""
    logging.raiseExceptions = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123 INFO omniflow.x: message`; line ends are escaped, so that an event is a line."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", "\\n ")


class _JsonLines(_TextLines):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
