"""Tiny models of several families, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster_fixtures.tiny_model import save_model

FAMILIES = ("llama", "qwen2", "qwen3", "gpt_neox")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tiny tensors gain nothing from threads, and other processes may want the cores."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder for each family of `FAMILIES`, made when first asked for."""
    made: dict[str, Path] = {}

    def model(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            save_model(family, made[family])
        return made[family]

    return model


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of a run keep converted models."""
    return tmp_path_factory.mktemp("cache")
