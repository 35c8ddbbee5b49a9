"""What can go wrong between a process and the registry."""

from collections.abc import Sequence


class RegistryError(Exception):
    """The root of every error of the registry."""


class RegistryUnreachable(RegistryError):  # noqa: N818 - named after what happened
    """No etcd endpoint answered in time. Running jobs don't need etcd; starting, joining and looking up does."""

    def __init__(self, endpoints: Sequence[str], doing: str, cause: str) -> None:
        self.endpoints = tuple(endpoints)
        super().__init__(
            f"etcd is not reachable at {', '.join(endpoints)} ({doing}: {cause}). Check that etcd runs there and that "
            f"`etcd.endpoints` of the cluster's configuration names it; `omniflow up` starts an embedded one."
        )


class EtcdFailed(RegistryError):  # noqa: N818 - named after what happened
    """The embedded etcd did not start, or ended by itself."""


class PortTaken(EtcdFailed):
    """Another process listens on the port that the embedded etcd was given."""

    def __init__(self, host: str, port: int) -> None:
        self.port = port
        super().__init__(
            f"port {port} of {host}, meant for the embedded etcd, is in use by another process. Is this cluster up "
            f"already (`omniflow status`)? Else set `etcd.client_port` and `etcd.peer_port` to free ports, or leave "
            f"them out."
        )


class NameTaken(RegistryError):  # noqa: N818 - named after what happened
    """A living incarnation of another process holds this name in the cluster."""

    def __init__(self, cluster: str, name: str, holder: str) -> None:
        self.name = name
        self.holder = holder
        super().__init__(
            f"the name {name!r} is taken in cluster {cluster!r} by {holder}, which is alive. Names are unique in a "
            f"cluster: give this worker another one, or stop that process first."
        )


class NoLeader(RegistryError):  # noqa: N818 - named after what happened
    """No scheduler leads the cluster."""

    def __init__(self, cluster: str, waited: float) -> None:
        super().__init__(
            f"no scheduler leads cluster {cluster!r} (waited {waited:.1f} s). Start one (`omniflow up`, or "
            f"`python -m omniflow_scheduler --config FILE`), and check that the cluster's name is right."
        )
