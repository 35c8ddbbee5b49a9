"""A worker registers what others can dial: never a wildcard."""

import pytest

from omniflow.errors import InvalidArgument
from omniflow_workers.addresses import advertised


def test_a_wildcard_is_replaced_by_the_advertised_host() -> None:
    listening = ["unix:/run/one.sock", "tcp:0.0.0.0:7001", "tcp:[::]:7002", "tcp:10.0.0.7:7003"]
    assert advertised(listening, "gpu1") == [
        "unix:/run/one.sock",
        "tcp:gpu1:7001",
        "tcp:gpu1:7002",
        "tcp:10.0.0.7:7003",
    ]
    assert advertised(["tcp:0.0.0.0:7001"], "fd00::7") == ["tcp:[fd00::7]:7001"]


def test_a_wildcard_without_a_host_is_refused_with_the_cure() -> None:
    with pytest.raises(InvalidArgument, match=r"tcp:0\.0\.0\.0:7001") as caught:
        advertised(["tcp:0.0.0.0:7001"], None)
    assert caught.value.field == "advertise"
    assert "host name or address" in caught.value.cure
