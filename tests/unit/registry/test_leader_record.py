"""The leader's record is read by processes of other versions."""

from omniflow.registry import Leader
from omniflow.registry.requests import KeyValue


def record(value: bytes) -> KeyValue:
    return KeyValue("/omniflow/c/leader", value, create_revision=7, mod_revision=9, lease=1)


def test_the_first_record_of_a_leader_has_the_revision_that_made_it_as_term() -> None:
    assert Leader.decode(record(Leader("h:1").encode())).term == 7


def test_a_leader_that_came_back_keeps_its_term() -> None:
    assert Leader.decode(record(Leader("h:1", term=3).encode())).term == 3


def test_fields_of_other_versions_are_passed_over() -> None:
    leader = Leader.decode(record(b'{"address": "h:1", "colour": "red"}'))
    assert (leader.address, leader.pid) == ("h:1", 0)
