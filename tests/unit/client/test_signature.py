"""What a job may say about a flow's parameters, and what becomes of it."""

import pytest

from omniflow import Text, flow, use
from omniflow.client.signature import Signature, encode_parameters
from omniflow.errors import InvalidArgument
from omniflow.roles import Role, method
from omniflow.v1 import value_pb2


class Llm(Role):
    @method
    def chat(self, question: Text, *, max_tokens: int = 64, style: str = "plain") -> Text:
        raise NotImplementedError


llm = use(Llm)


@flow
def twice(question: Text, *, words: int = 32) -> Text:
    return llm.chat(llm.chat(question, max_tokens=words), max_tokens=words)


SIGNATURE = Signature.of(twice.to_proto())


def test_a_parameter_of_the_flow_sets_every_node_that_it_goes_to() -> None:
    encoded = encode_parameters({"words": 7}, SIGNATURE)
    assert encoded == {
        "llm.chat.max_tokens": value_pb2.Value(integer=7),
        "llm.chat#2.max_tokens": value_pb2.Value(integer=7),
    }


def test_a_nodes_own_parameter_is_stronger_and_may_be_any() -> None:
    encoded = encode_parameters({"llm.chat.max_tokens": 9, "words": 7, "llm.chat.style": "short"}, SIGNATURE)
    assert encoded["llm.chat.max_tokens"].integer == 9
    assert encoded["llm.chat#2.max_tokens"].integer == 7
    assert encoded["llm.chat.style"].text == "short"


def test_a_wrong_one_is_named_before_anything_is_sent() -> None:
    with pytest.raises(InvalidArgument, match="has no parameter 'wrods'") as caught:
        encode_parameters({"wrods": 7}, SIGNATURE)
    assert "its parameters: words" in caught.value.cure
    with pytest.raises(InvalidArgument, match="wants int, got str"):
        encode_parameters({"words": "seven"}, SIGNATURE)
