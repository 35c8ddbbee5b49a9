"""Every key that a cure tells an operator to change exists, where the cure says."""

import re
from pathlib import Path

import pytest

from omniflow.config import LimitsConfig
from omniflow_scheduler.config import SchedulerSettings

ROOT = Path(__file__).parents[3]
SOURCES = [
    *(ROOT / "core-rs").glob("*/src/**/*.rs"),
    *(ROOT / "omniflow").glob("**/*.py"),
    *(ROOT / "scheduler").glob("**/*.py"),
    *(ROOT / "workers").glob("**/*.py"),
]
LIMIT = re.compile(r'scheduler\.limits\.(\w+)\b(?!\()|\bkey\("(\w+)"\)')


def named_limits() -> set[str]:
    found = (match for source in SOURCES for match in LIMIT.finditer(source.read_text()))
    return {match[1] or match[2] for match in found}


def test_the_sources_name_limits() -> None:
    assert {"max_input_bytes", "max_deadline_s", "result_ttl_s", "queue_limit"} <= named_limits()


@pytest.mark.parametrize("limit", sorted(named_limits()))
def test_a_limit_that_a_cure_names_is_one_of_the_cluster_file(limit: str) -> None:
    assert limit in LimitsConfig.model_fields


@pytest.mark.parametrize("limit", sorted(LimitsConfig.model_fields))
def test_a_limit_of_the_cluster_file_is_one_of_the_scheduler(limit: str) -> None:
    assert limit in SchedulerSettings.model_fields
