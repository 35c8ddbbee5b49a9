"""Without the extra `otel` everything but sending spans works."""

import subprocess
import sys

import pytest

from omniflow.cli.trace import _export
from omniflow.errors import InvalidArgument
from omniflow.trace import trace_of
from tests.unit.trace.examples import pdf_job


def test_sending_spans_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("omniflow.trace.export", "omniflow.trace.spans"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidArgument) as caught:
        _export(trace_of(pdf_job()), "speak", "http://127.0.0.1:4318")
    assert "omniflow-serving[otel]" in caught.value.cure


def test_a_picture_needs_no_sdk() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import omniflow.trace, omniflow.cli.trace\n"
        "from omniflow.v1.job_pb2 import JobStatus\n"
        "assert omniflow.trace.chrome_trace(omniflow.trace.trace_of(JobStatus(job='1')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
