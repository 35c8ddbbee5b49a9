"""Errors: one tree, the same on both sides of the wire, readable."""

import pytest

from omniflow.errors import (
    BadFlow,
    InvalidArgument,
    JobError,
    NotNow,
    OmniFlowError,
    Problem,
    RequestError,
    ResourceExhausted,
    RoleFailed,
    Source,
    TooLarge,
    from_proto,
)
from omniflow.v1 import error_pb2

CODES = [code for code in error_pb2.ErrorCode.values() if code != error_pb2.ERROR_UNSPECIFIED]


@pytest.mark.parametrize("code", CODES, ids=error_pb2.ErrorCode.Name)
def test_every_code_has_a_class_that_survives_the_wire(code: error_pb2.ErrorCode.ValueType) -> None:
    sent = error_pb2.Error(
        code=code, message="m", field="f", node="n", worker="w", cause="c", cure="do", retry_after_ms=0
    )
    error = from_proto(sent)
    assert type(error) is not OmniFlowError
    assert error.to_proto() == sent
    assert error.code_name == error_pb2.ErrorCode.Name(code)


def test_a_code_of_a_later_version_is_still_an_error_of_ours() -> None:
    error = from_proto(error_pb2.Error(code=error_pb2.ErrorCode.ValueType(77), message="new"))
    assert type(error) is OmniFlowError
    assert error.message == "new"


def test_retry_after_is_seconds_here_and_milliseconds_on_the_wire() -> None:
    error = from_proto(ResourceExhausted("full", retry_after=1.25).to_proto())
    assert isinstance(error, NotNow)
    assert error.retry_after == 1.25


def test_the_tree_can_be_caught_at_any_height() -> None:
    for height in (TooLarge, InvalidArgument, RequestError, OmniFlowError):
        with pytest.raises(height):
            raise TooLarge("20000 x 20000 pixels")
    assert issubclass(RoleFailed, JobError)


def test_a_message_says_what_where_why_and_how_to_mend_it() -> None:
    error = RoleFailed(
        "the role raised ValueError", node="llm.chat", worker="llm-0", cause="line 1\nline 2", cure="see the log"
    )
    assert str(error) == (
        "the role raised ValueError\n"
        "  --> node llm.chat, worker llm-0\n"
        "   = cause: line 1\n"
        "            line 2\n"
        "   = cure: see the log"
    )


def test_a_bad_flow_shows_each_problem_with_its_line() -> None:
    here = Source(__file__, 1, "f")
    error = BadFlow.of("f", [Problem("code-a", "what", "how", here), Problem("code-b", "more", "so")])
    text = str(error)
    assert "2 problems" in text
    assert "error[code-a]: what" in text
    assert "test_error_tree.py:1 in f" in text
    assert '1 | """Errors: one tree' in text
    assert "= cure: how" in text
    assert [problem.code for problem in error.problems] == ["code-a", "code-b"]
