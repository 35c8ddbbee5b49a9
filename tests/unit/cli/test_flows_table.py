"""What `omniflow flows` says of a flow."""

import json

import pytest

from omniflow import Stream, Text, flow, use
from omniflow.cli import flows
from omniflow.roles import Role, method
from omniflow.v1 import flow_pb2


class Writer(Role):
    @method
    def words(self, text: Text, *, most: int = 9) -> Stream[Text]:
        raise NotImplementedError


writer = use(Writer)


@flow
def few_words(text: Text, *, most: int = 3) -> Stream[Text]:
    """A few words."""
    return writer.words(text, most=most)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> flow_pb2.Flow:
    """The only flow of the cluster."""
    compiled = few_words.to_proto()
    monkeypatch.setattr("omniflow.cli.remote.ask", lambda *_: [compiled])
    return compiled


def test_the_parameters_that_a_job_may_set_are_shown_with_their_defaults(
    registered: flow_pb2.Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    flows.flows(address="127.0.0.1:1", as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["flow"] == registered.name == "few_words"
    assert (shown["takes"], shown["parameters"]) == ("text: Text", "most: int = 3")
