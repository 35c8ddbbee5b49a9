"""A cluster file is read strictly: every mistake is named with its line, its key and a cure."""

from pathlib import Path

import pytest

from omniflow.config import ConfigError, load_cluster
from omniflow.errors import InvalidArgument

SMALL = """
cluster: small
workers:
  - name: one
    roles: [roles:One]
"""


def _write(folder: Path, text: str) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return file


def _mistakes(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_cluster(_write(folder, text))
    return str(caught.value)


def test_a_small_file_gets_the_defaults(tmp_path: Path) -> None:
    config = load_cluster(_write(tmp_path, SMALL))
    assert config.etcd.embedded
    assert config.scheduler.listen == "127.0.0.1:7070"
    assert config.worker_names == ("one",)
    assert config.workers[0].roles[0].class_path == "roles:One"
    assert config.run is None
    assert config.file == tmp_path / "cluster.yaml"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = SMALL + "run: here\ncache: ../cache\netcd: {data: etcd}\nflows: [flow.py, flow.py:one, module:two]\n"
    config = load_cluster(_write(tmp_path, text))
    assert config.run == tmp_path / "here"
    assert config.cache == tmp_path / "../cache"
    assert config.etcd.data == tmp_path / "etcd"
    assert config.flows == (f"{tmp_path}/flow.py", f"{tmp_path}/flow.py:one", "module:two")


def test_count_makes_numbered_names(tmp_path: Path) -> None:
    config = load_cluster(_write(tmp_path, SMALL + "  - {name: two, count: 3, roles: [roles:Two]}\n"))
    assert config.worker_names == ("one", "two-0", "two-1", "two-2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cluster: small", "clutser: small", ":2: unknown key 'clutser'; did you mean 'cluster'?"),
        ("roles: [", "role: [", ":5: unknown key 'workers[0].role'; did you mean 'roles'?"),
        ("name: one", "nmae: one", "'workers[0].name' is missing"),
        (
            "name: one",
            "name: one\n    count: some",
            ":5: 'workers[0].count' is \"some\": input should be a valid integer",
        ),
        ("roles:One", "roles.One", ":5: 'workers[0].roles[0].class': 'roles.One' names no class"),
        ("cluster: small", "cluster: small\ncluster: big", ":3: 'cluster' is set twice (first in line 2)"),
        ("cluster: small", "cluster: [", "not valid YAML"),
        ("name: one", "name: scheduler", "a worker cannot be called 'scheduler'"),
        (
            "name: one",
            "name: one\n    listen: ['tcp:0.0.0.0:0']",
            "'workers[0]': 'listen' has tcp:0.0.0.0:0, which others cannot dial; add 'advertise: HOST'",
        ),
        (
            "name: one",
            "name: one\n    data_listen: ['unix:/run/pages']",
            "'workers[0]': 'data_listen' has unix:/run/pages; write tcp:HOST:PORT",
        ),
        (
            "name: one",
            "name: one\n    data_listen: ['tcp:0.0.0.0:0']",
            "'workers[0]': 'listen' has tcp:0.0.0.0:0, which others cannot dial; add 'advertise: HOST'",
        ),
        (
            "name: one",
            "name: one\n    advertise: 10.0.0.7",
            "'workers[0]': 'advertise' stands for a wildcard in 'listen' such as 0.0.0.0, and there is none",
        ),
        (
            "name: one",
            "name: one\n    listen: ['tcp:[::]:0']\n    advertise: '10.0.0.7:7000'",
            "'workers[0].advertise': '10.0.0.7:7000' is nothing to dial",
        ),
        (
            "cluster: small",
            "cluster: small\nscheduler: {listen: '0.0.0.0:7070'}",
            ":3: 'scheduler': 'listen' has 0.0.0.0:7070, which others cannot dial; add 'advertise: HOST'",
        ),
        (
            "cluster: small",
            "cluster: small\nscheduler: {limits: {heartbeat_s: 15}}",
            "'scheduler.limits': heartbeat_s (15) must be less than heartbeat_limit_s (10)",
        ),
        ("name: one", "name: a/b", "'workers[0].name': a name is 1 to 63 letters"),
        (
            "cluster: small",
            "cluster: small\nschedulers: 3",
            ":3: 'schedulers' is 3: input should be less than or equal to 2",
        ),
        (
            "cluster: small",
            "cluster: small\nschedulers: 0",
            ":3: 'schedulers' is 0: input should be greater than or equal to 1",
        ),
        (
            "cluster: small",
            "cluster: small\nscheduler: {standby_listen: '127.0.0.1:7072'}",
            "'scheduler.standby_listen' is for 'schedulers: 2'; add that, or remove it",
        ),
        (
            "cluster: small",
            "cluster: small\nscheduler: {standby_journal: /disk-2}",
            "'scheduler.standby_journal' is for 'schedulers: 2'; add that, or remove it",
        ),
        (
            "cluster: small",
            "cluster: small\nscheduler: {journal_listen: 'tcp:10.0.0.7:7072'}",
            "does not reach the embedded etcd; name yours in 'etcd.endpoints'",
        ),
        (
            "cluster: small",
            "cluster: small\nschedulers: 2\nscheduler: {journal_listen: 'tcp:10.0.0.7:7072'}",
            "'schedulers: 2' starts it on this one; remove one of the two",
        ),
        (
            "cluster: small",
            "cluster: small\nscheduler: {journal_listen: 'tcp:10.0.0.7:0'}",
            "nobody would know the port; name one, e.g. tcp:0.0.0.0:7072",
        ),
        (
            "cluster: small",
            "cluster: small\nschedulers: 2\nscheduler: {listen: '127.0.0.1:65535'}",
            "there is no port after 65535 for the second scheduler; set 'scheduler.standby_listen'",
        ),
        (
            "cluster: small",
            "cluster: small\nschedulers: 2\nscheduler: {listen: '127.0.0.1:7070', standby_listen: '127.0.0.1:7070'}",
            "both schedulers would listen on port 7070; give 'standby_listen' another one",
        ),
        (
            "cluster: small",
            "cluster: small\nschedulers: 2\nscheduler: {standby_listen: '0.0.0.0:7071'}",
            "'scheduler': 'listen' has 0.0.0.0:7071, which others cannot dial; add 'advertise: HOST'",
        ),
    ],
)
def test_a_mistake_is_named_with_line_key_and_cure(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = _mistakes(tmp_path, SMALL.replace(old, new))
    assert message in text
    assert text.startswith(str(tmp_path / "cluster.yaml"))


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = _mistakes(tmp_path, SMALL + "schedulr: {}\netcd: {endpoints: [nowhere]}\n")
    assert len(text.splitlines()) == 2
    assert "did you mean 'scheduler' or 'schedulers'?" in text
    assert "'etcd.endpoints[0]': 'nowhere' is no address" in text


def test_a_strange_key_lists_the_known_ones(tmp_path: Path) -> None:
    assert "known here: listen, standby_listen, advertise, policy" in _mistakes(
        tmp_path, SMALL + "scheduler: {zzz: 1}\n"
    )


def test_two_workers_of_one_name_are_refused(tmp_path: Path) -> None:
    text = _mistakes(tmp_path, SMALL + "  - {name: one, roles: [roles:Two]}\n")
    assert "two workers are called 'one'" in text


def test_equal_workers_cannot_share_a_fixed_address(tmp_path: Path) -> None:
    worker = "  - {name: two, count: 2, roles: [r:R], listen: ['tcp:10.0.0.7:7000']}\n"
    assert "2 workers cannot all listen on tcp:10.0.0.7:7000" in _mistakes(tmp_path, SMALL + worker)


def test_a_missing_or_empty_file_says_so(tmp_path: Path) -> None:
    assert "a mapping of keys is expected, found nothing" in _mistakes(tmp_path, "# nothing yet\n")
    with pytest.raises(InvalidArgument, match="no such file"):
        load_cluster(tmp_path / "none.yaml")


def test_a_config_that_was_read_does_not_change(tmp_path: Path) -> None:
    config = load_cluster(_write(tmp_path, SMALL))
    with pytest.raises(ValueError, match="frozen"):
        config.cluster = "other"
