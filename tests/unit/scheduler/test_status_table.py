"""Every error code has its gRPC status."""

from omniflow.v1 import error_pb2
from omniflow_scheduler.status import STATUS_OF


def test_every_code_is_in_the_table() -> None:
    codes = set(error_pb2.ErrorCode.values()) - {error_pb2.ERROR_UNSPECIFIED}
    assert codes == set(STATUS_OF)
