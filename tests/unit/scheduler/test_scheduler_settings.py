"""The scheduler's file: a mistake is named, and defaults are enough."""

from pathlib import Path

import pytest

from omniflow.config import ConfigError
from omniflow_scheduler.config import load_settings


def write(folder: Path, text: str) -> Path:
    file = folder / "scheduler.yaml"
    file.write_text(text)
    return file


def test_a_cluster_and_an_etcd_are_enough(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "cluster: c\netcd: [127.0.0.1:2379]\n"))
    assert settings.etcd == ("127.0.0.1:2379",)
    assert settings.listen == "127.0.0.1:7070"


@pytest.mark.parametrize(
    ("more", "address"),
    [
        ("journal_listen: tcp:10.0.0.7:7072", "tcp:10.0.0.7:7072"),
        ("journal_listen: tcp:0.0.0.0:7072\nadvertise: head.example.org:7070", "tcp:head.example.org:7072"),
        ("journal_listen: unix:/run/journal.sock", "unix:/run/journal.sock"),
        ("", ""),
    ],
)
def test_a_standby_dials_what_it_can_dial(tmp_path: Path, more: str, address: str) -> None:
    base = "cluster: c\netcd: ['127.0.0.1:2379']\njournal: /var/journal\n"
    assert load_settings(write(tmp_path, base + more)).journal_address == address


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("journal_listen: tcp:10.0.0.7:7072", "there is none; set 'journal'"),
        ("journal: /j\njournal_listen: tcp:0.0.0.0:7072", "add 'advertise'"),
        ("journal: /j\njournal_listen: tcp:10.0.0.7:0", "name one"),
    ],
)
def test_a_journal_that_cannot_be_followed_is_refused(tmp_path: Path, more: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_settings(write(tmp_path, f"cluster: c\netcd: ['127.0.0.1:2379']\n{more}\n"))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("quene_limit: 3", "queue_limit"),
        ("listen: nowhere", "listen"),
        ("max_attempts: 0", "max_attempts"),
        ("etcd: [nowhere]", "nowhere"),
        ("drain_timeout_s: -1", "drain_timeout_s"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, line: str, named: str) -> None:
    base = "cluster: c\n" if line.startswith("etcd") else "cluster: c\netcd: ['127.0.0.1:2379']\n"
    with pytest.raises(ConfigError, match=named) as raised:
        load_settings(write(tmp_path, base + line + "\n"))
    assert f"scheduler.yaml:{base.count(chr(10)) + 1}" in str(raised.value)
