"""A loaded role says which weights it holds and how its KV lies; a role without a model says nothing."""

from dataclasses import dataclass

from omniflow import Text
from omniflow.roles import HoldsModel, Role, RoleContext, add_facts, describe, method
from omniflow.v1.cluster_pb2 import PageLayout
from omniflow_workers.roles.llm import Llm


@dataclass(frozen=True)
class Named:
    fingerprint: str


@dataclass(frozen=True)
class Latents:
    page_tokens: int = 16
    layers: int = 2
    page_bytes: int = 4096

    def describe(self) -> str:
        return "2xlatent:1x16:float32"


class Thinker(Role):
    def load(self, context: RoleContext) -> None:
        self.model = Named("ab" * 32)
        self.layout = Latents()

    @method
    def think(self, text: Text) -> Text:
        return text


class Seeing(Role):
    def load(self, context: RoleContext) -> None:
        self.model = Named("cd" * 32)

    @method
    def see(self, text: Text) -> Text:
        return text


class Plain(Role):
    @method
    def think(self, text: Text) -> Text:
        return text


def test_a_role_around_a_model_registers_its_weights_and_its_page_layout() -> None:
    role = Thinker()
    role.load(RoleContext())
    info = describe(Thinker)
    add_facts(info, role)
    assert info.weights_fingerprint == "ab" * 32
    expected = PageLayout(page_tokens=16, layers=2, description="2xlatent:1x16:float32", page_bytes=4096)
    assert info.page_layout == expected


def test_a_role_around_weights_without_a_kv_cache_registers_those() -> None:
    role = Seeing()
    role.load(RoleContext())
    info = describe(Seeing)
    add_facts(info, role)
    assert info.weights_fingerprint == "cd" * 32
    assert not info.HasField("page_layout")


def test_a_role_without_a_model_registers_neither() -> None:
    info = describe(Plain)
    add_facts(info, Plain())
    assert info == describe(Plain)


def test_the_llm_role_is_one_that_holds_a_model() -> None:
    assert {"model", "layout"} <= set(dir(Llm))
    assert not isinstance(Plain(), HoldsModel)
