"""Where a pool is found: abstract Unix addresses, which the kernel frees with their process."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from omniflow_core import ArenaLayout
from omniflow_workers.arenas.devices import host_name_of

_PROTOCOL = 1
_SOCKETS = Path("/proc/net/unix")


@dataclass(frozen=True, slots=True)
class PoolAddress:
    """Of the pool of a user, device, layout and cluster. The keeper of its book listens at `name`."""

    name: str

    @staticmethod
    def of(layout: ArenaLayout, cluster: str) -> PoolAddress:
        """Raises `DeviceUnavailableError`."""
        what = "\0".join((host_name_of(layout.device), str(layout.page_bytes), cluster))
        digest = hashlib.blake2b(layout.fingerprint + what.encode(), digest_size=16).hexdigest()
        return PoolAddress(f"omniflow-pool/{_PROTOCOL}/{os.getuid()}/{digest}")

    @property
    def keeper(self) -> str:
        """As `ArenaListener` and `ArenaChannel` take it."""
        return f"@{self.name}"

    def show(self, owner: int) -> socket.socket:
        """Lets newcomers see that a member lives, while the socket is open: whoever finds no keeper must not make a
        second pool then."""
        shown = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        shown.bind(f"\0{self.name}/{owner}")
        return shown

    def has_members(self) -> bool:
        """Whether a member lives. A system that does not say: no."""
        try:
            names = _SOCKETS.read_text(errors="replace").splitlines()
        except OSError:
            return False
        return any(line.rpartition(" ")[2].startswith(f"@{self.name}/") for line in names)
