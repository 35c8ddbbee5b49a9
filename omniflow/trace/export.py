"""Spans to an OpenTelemetry collector, by OTLP over HTTP. Needs the extra `otel`."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from omniflow.errors import InvalidArgument, Unavailable

# A collector's own limit is on bytes; spans are about half a kilobyte.
_BATCH = 512
_TIMEOUT_S = 10.0
_PATH = "/v1/traces"


def traces_endpoint(url: str) -> str:
    """The full address: a collector's base gets the path that OTLP prescribes. Raises `InvalidArgument`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidArgument(
            f"{url!r} is no address of a collector", field="--otlp", cure="write it as http://HOST:4318"
        )
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}{_PATH}"


def export_spans(spans: Sequence[ReadableSpan], url: str) -> None:
    """Sends them all. Headers, certificates and compression are as the OTEL_EXPORTER_OTLP_* variables say.

    Raises `Unavailable` when the collector does not take them.
    """
    endpoint = traces_endpoint(url)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S)
    try:
        with _words() as words:
            for start in range(0, len(spans), _BATCH):
                if exporter.export(spans[start : start + _BATCH]) is not SpanExportResult.SUCCESS:
                    raise Unavailable(
                        f"the collector at {endpoint} did not take the spans",
                        field="--otlp",
                        cause=words[-1] if words else "",
                        cure="check the address, and that it takes OTLP over HTTP (port 4318 by custom)",
                    )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())


@contextmanager
def _words() -> Iterator[list[str]]:
    """What the exporter says of a failure: it logs it, and we tell it as an error."""
    logger, listener = logging.getLogger("opentelemetry.exporter"), _Listener()
    logger.addHandler(listener)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield listener.words
    finally:
        logger.propagate = propagates
        logger.removeHandler(listener)
