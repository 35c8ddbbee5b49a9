"""The launcher writes what the processes read: their own models accept every file, and no default is written twice."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from omniflow.config import ClusterConfig, load_cluster
from omniflow.config import WorkerConfig as WorkerSection
from omniflow.launch.plan import Plan, make_plan, write_files
from omniflow.launch.told import write_told
from omniflow.registry import ports
from omniflow_scheduler.config import SchedulerSettings
from omniflow_workers.addresses import advertised
from omniflow_workers.config import WorkerConfig
from omniflow_workers.host import resolve_roles

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "clusters.md"


def _shown_under(heading: str) -> list[Any]:
    """The YAML files under that heading of the docs."""
    section = DOCS.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)]


def _check(plan: Plan) -> dict[str, WorkerConfig]:
    contents = {file.stem: content for file, content in plan.files.items()}
    for name in plan.config.scheduler_names:
        SchedulerSettings.model_validate(contents.pop(name))
    return {name: WorkerConfig.model_validate(content) for name, content in contents.items()}


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/cluster.yaml")), ids=lambda file: file.parent.name)
def test_every_example_becomes_valid_process_files(file: Path) -> None:
    config = load_cluster(file)
    assert set(_check(make_plan(config))) == set(config.worker_names)


def test_the_file_in_the_docs_is_valid_and_shows_every_key(tmp_path: Path) -> None:
    smallest, content = _shown_under("The file")
    assert set(_check(make_plan(ClusterConfig.model_validate(smallest)))) == {"reader-0", "reader-1", "rest"}
    workers = _check(make_plan(ClusterConfig.model_validate(content)))
    assert workers["llm-0"].roles[1].options == {"steps": 8}
    assert workers["llm-1"].listen == ["tcp:0.0.0.0:0"]
    assert workers["llm-1"].advertise == "gpu1.example.org"
    assert workers["llm-1"].heartbeat_limit_s == 10
    assert set(content["workers"][0]) == {field.alias or name for name, field in WorkerSection.model_fields.items()}
    assert set(content) == set(ClusterConfig.model_fields)
    [elsewhere, _] = _shown_under("A second scheduler on another machine")
    shown = set(content["scheduler"]) | set(elsewhere["scheduler"])
    assert shown == set(type(ClusterConfig.model_fields["scheduler"].default).model_fields)


def test_the_files_of_a_second_scheduler_on_another_machine_in_the_docs_are_valid(tmp_path: Path) -> None:
    first, second = _shown_under("A second scheduler on another machine")
    workers = [{"name": "one", "roles": ["roles:One"]}]
    plan = make_plan(ClusterConfig.model_validate({**first, "run": tmp_path, "workers": workers}))
    told = SchedulerSettings.model_validate(plan.files[tmp_path / "config" / "scheduler.json"])
    assert told.journal_address == "tcp:head-1.example.org:7072"
    other = SchedulerSettings.model_validate(second)
    assert other.journal_address == "tcp:head-2.example.org:7072"
    assert (other.cluster, other.etcd) == (told.cluster, told.etcd)


def test_the_file_of_a_worker_on_another_machine_in_the_docs_is_valid() -> None:
    [content] = _shown_under("Workers on other machines")
    worker = WorkerConfig.model_validate(content)
    assert advertised(["tcp:0.0.0.0:7100"], worker.advertise) == ["tcp:gpu2.example.org:7100"]
    assert resolve_roles(worker.roles)[0].name == "llm"


def test_what_is_not_set_is_left_to_the_process(tmp_path: Path) -> None:
    config = ClusterConfig.model_validate(
        {"cluster": "x", "run": tmp_path, "workers": [{"name": "one", "roles": ["roles:One"]}]}
    )
    contents = {file.stem: content for file, content in make_plan(config).files.items()}
    assert set(contents["scheduler"]) == {"cluster", "etcd", "name", "listen", "journal"}
    assert set(contents["one"]) == {"cluster", "etcd", "name", "listen", "roles"}


def test_scheduler_and_workers_have_the_same_heartbeat_limit(tmp_path: Path) -> None:
    limits = {"heartbeat_s": 15, "heartbeat_limit_s": 60}
    config = ClusterConfig.model_validate(
        {
            "cluster": "x",
            "run": tmp_path,
            "scheduler": {"limits": limits},
            "workers": [{"name": "one", "roles": ["roles:One"]}],
        }
    )
    contents = {file.stem: content for file, content in make_plan(config).files.items()}
    settings = SchedulerSettings.model_validate(contents["scheduler"])
    worker = WorkerConfig.model_validate(contents["one"])
    assert worker.heartbeat_limit_s == settings.heartbeat_limit_s == 60


def test_a_scheduler_behind_a_wildcard_says_where_it_is(tmp_path: Path) -> None:
    config = ClusterConfig.model_validate(
        {
            "cluster": "x",
            "run": tmp_path,
            "scheduler": {"listen": "0.0.0.0:0", "advertise": "fd00::7"},
            "workers": [{"name": "one", "roles": ["roles:One"]}],
        }
    )
    plan = make_plan(config)
    port = plan.listens[0].rpartition(":")[2]
    assert plan.address == f"127.0.0.1:{port}"
    scheduler = next(content for file, content in plan.files.items() if file.stem == "scheduler")
    assert scheduler["advertise"] == f"[fd00::7]:{port}"


def test_only_this_user_may_read_what_processes_are_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = ClusterConfig.model_validate(
        {"cluster": "x", "run": run, "workers": [{"name": "one", "roles": ["roles:One"]}]}
    )
    (run / "config").mkdir(parents=True, mode=0o755)
    (run / "config" / "one.json").write_text("of an earlier version, for everybody to read")
    plan = make_plan(config)
    write_files(plan)
    write_told(config, run)
    files = list((run / "config").iterdir())
    assert {file.name for file in files} == {"one.json", "scheduler.json", "cluster.json"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    write_files(make_plan(config.model_copy(update={"run": tmp_path / "fresh"})))
    folders = [tmp_path / "fresh", tmp_path / "fresh" / "logs", tmp_path / "fresh" / "config"]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_a_run_folder_too_deep_for_sockets_gets_a_short_one_with_a_stable_name(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["folder"] * 15)
    config = ClusterConfig.model_validate(
        {"cluster": "x", "run": deep, "workers": [{"name": "one", "roles": ["roles:One"]}]}
    )
    first, second = make_plan(config), make_plan(config)
    assert first.sockets == second.sockets
    assert len(str(first.sockets / "one.sock")) < 108
    shallow = make_plan(config.model_copy(update={"run": Path("/run/x")}))
    assert shallow.sockets == Path("/run/x/sockets")


def test_an_operators_own_etcd_is_not_started(tmp_path: Path) -> None:
    config = ClusterConfig.model_validate(
        {
            "cluster": "x",
            "run": tmp_path,
            "etcd": {"endpoints": ["10.0.0.1:2379"]},
            "workers": [{"name": "one", "roles": ["roles:One"]}],
        }
    )
    plan = make_plan(config)
    assert plan.etcd is None
    assert plan.etcd_endpoints == ("10.0.0.1:2379",)
    assert [spec.name for spec in plan.specs] == ["scheduler", "one"]


def _two_schedulers(tmp_path: Path, **scheduler: str) -> Plan:
    return make_plan(
        ClusterConfig.model_validate(
            {
                "cluster": "x",
                "run": tmp_path,
                "schedulers": 2,
                "scheduler": scheduler,
                "workers": [{"name": "one", "roles": ["roles:One"]}],
            }
        )
    )


def test_two_schedulers_have_names_logs_ports_and_journals_of_their_own(tmp_path: Path) -> None:
    plan = _two_schedulers(tmp_path, listen="127.0.0.1:7080")
    assert [spec.name for spec in plan.specs] == ["etcd", "scheduler", "scheduler-2", "one"]
    assert [spec.log.name for spec in plan.schedulers] == ["scheduler.log", "scheduler-2.log"]
    contents = {file.stem: content for file, content in plan.files.items()}
    told = [SchedulerSettings.model_validate(contents[name]) for name in ("scheduler", "scheduler-2")]
    assert [settings.name for settings in told] == ["scheduler", "scheduler-2"]
    assert [settings.listen for settings in told] == ["127.0.0.1:7080", "127.0.0.1:7081"]
    assert [settings.journal for settings in told] == [tmp_path / "journal", tmp_path / "journal-2"]
    follow = [settings.journal_address for settings in told]
    assert follow == [f"unix:{plan.sockets / name}.journal.sock" for name in ("scheduler", "scheduler-2")]
    assert plan.address == "127.0.0.1:7080,127.0.0.1:7081"


def test_the_second_schedulers_journal_lies_where_it_is_told(tmp_path: Path) -> None:
    plan = _two_schedulers(tmp_path, journal="/disk-1/jobs", standby_journal="/disk-2/jobs")
    told = [
        SchedulerSettings.model_validate(plan.files[tmp_path / "config" / f"{spec.name}.json"])
        for spec in plan.schedulers
    ]
    assert [settings.journal for settings in told] == [Path("/disk-1/jobs"), Path("/disk-2/jobs")]


def test_a_second_scheduler_elsewhere_follows_the_journal_where_this_one_is_advertised(tmp_path: Path) -> None:
    scheduler = {
        "listen": "0.0.0.0:7070",
        "advertise": "head.example.org",
        "journal_listen": "tcp:0.0.0.0:7072",
        "standby_limit_s": 3,
    }
    plan = make_plan(
        ClusterConfig.model_validate(
            {
                "cluster": "x",
                "run": tmp_path,
                "etcd": {"endpoints": ["10.0.0.1:2379"]},
                "scheduler": scheduler,
                "workers": [{"name": "one", "roles": ["roles:One"]}],
            }
        )
    )
    told = SchedulerSettings.model_validate(plan.files[tmp_path / "config" / "scheduler.json"])
    assert told.journal_address == "tcp:head.example.org:7072"
    assert told.standby_limit_s == 3


def test_the_second_scheduler_listens_where_it_is_told(tmp_path: Path) -> None:
    plan = _two_schedulers(
        tmp_path, listen="127.0.0.1:7080", standby_listen="0.0.0.0:7090", advertise="head.example.org"
    )
    contents = {file.stem: content for file, content in plan.files.items()}
    assert plan.address == "127.0.0.1:7080,127.0.0.1:7090"
    assert "advertise" not in contents["scheduler"]
    assert contents["scheduler-2"]["advertise"] == "head.example.org:7090"


def test_etcd_is_not_given_a_port_that_a_scheduler_will_listen_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_candidates", lambda: iter((7_080, 7_090, 7_100, 7_110)))
    plan = _two_schedulers(tmp_path, listen="127.0.0.1:7080", standby_listen="127.0.0.1:7090")
    assert plan.etcd_endpoints == ("127.0.0.1:7100",)


def test_two_schedulers_on_any_free_port_do_not_choose_the_same(tmp_path: Path) -> None:
    first, second = _two_schedulers(tmp_path, listen="127.0.0.1:0").listens
    assert first != second
    assert not first.endswith(":0")
    assert not second.endswith(":0")
