"""A worker that is registered and not there: each prompt would ask it."""

from __future__ import annotations

import logging

import pytest

from omniflow_workers.transfer import PeerLost, links
from tests.cluster_fixtures.data_plane import Plane, info_of
from tests.cluster_fixtures.tiny_source import MODEL, TinySource, keys_of

NOBODY = "unix:@omniflow-data/nobody"


def test_who_cannot_be_reached_is_told_of_once_and_whoever_asks_gets_an_error_of_their_own(
    plane: Plane, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_AGAIN_S", 600.0)
    source = TinySource()
    plane.directory.put(info_of("gone", [NOBODY], source))
    peers = plane.borrow()
    caplog.set_level(logging.INFO, "omniflow_workers")
    errors = []
    for _ in range(3):
        with pytest.raises(PeerLost) as caught:
            peers.acquire("gone", MODEL, source.layout, keys_of(1, 1))
        errors.append(caught.value)
        assert peers.best(MODEL, source.layout, keys_of(1, 1)) is None
    assert len(set(map(id, errors))) == len(errors), "one that is raised again and again would grow"
    assert {error.cause.count(NOBODY) for error in errors} == {1}
    assert len(caplog.records) == 1
