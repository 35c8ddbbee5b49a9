"""Where everything lies in etcd, and how a process tells where it runs."""

import hashlib
import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one cluster."""

    cluster: str

    @property
    def root(self) -> str:
        return f"/omniflow/{self.cluster}/"

    @property
    def workers(self) -> str:
        return f"{self.root}workers/"

    @property
    def flows(self) -> str:
        return f"{self.root}flows/"

    @property
    def leader(self) -> str:
        return f"{self.root}leader"

    @property
    def term(self) -> str:
        return f"{self.root}term"

    @property
    def in_sync(self) -> str:
        return f"{self.root}in_sync"

    def worker(self, name: str) -> str:
        return f"{self.workers}{name}"

    def flow_versions(self, name: str) -> str:
        return f"{self.flows}{name}/"

    def flow(self, name: str, version: bytes) -> str:
        return f"{self.flow_versions(name)}{version.hex()}"


@cache
def this_host() -> str:
    """Equal for processes that can see each other's process ids: host name, boot and pid namespace.

    The host name alone won't do: containers on the host's network share it and see other process ids.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, space = "", ""
    digest = hashlib.blake2b(f"{boot} {space}".encode(), digest_size=4).hexdigest()
    return f"{socket.gethostname()}-{digest}"


def process_is_gone(host: str, pid: int) -> bool:
    """True only when it is certain: the process ran on this host and its id is free again."""
    if pid <= 0 or host != this_host():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return _is_gone_or_zombie(pid)
    except PermissionError:
        return False
    return _is_gone_or_zombie(pid)


def _is_gone_or_zombie(pid: int) -> bool:
    """A zombie, dead but not yet waited for by its parent, holds nothing either."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}
