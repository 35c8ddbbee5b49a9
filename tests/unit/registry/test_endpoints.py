"""Endpoints are checked where they are written."""

import pytest

from omniflow.registry import parse_endpoints


@pytest.mark.parametrize("given", ["a:1,b:2", "http://a:1, b:2/", ["a:1", "b:2"], ("http://a:1", "http://b:2")])
def test_a_list_in_any_usual_form_is_read(given: str | list[str]) -> None:
    assert parse_endpoints(given) == ("a:1", "b:2")


@pytest.mark.parametrize("given", ["localhost", "a:b", "a:70000", ":2379", "https://a:1"])
def test_a_wrong_one_is_named(given: str) -> None:
    with pytest.raises(ValueError, match=given):
        parse_endpoints(given)


@pytest.mark.parametrize("given", ["", [], " , "])
def test_none_at_all_is_an_error(given: str | list[str]) -> None:
    with pytest.raises(ValueError, match="no etcd endpoint"):
        parse_endpoints(given)
