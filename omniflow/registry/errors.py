"""What can go wrong between a process and the registry: a branch of the one exception tree."""
# ruff: noqa: N818  named after what happened, not "…Error"

from collections.abc import Sequence

from omniflow.errors import InvalidArgument, OmniFlowError, Unavailable


class RegistryError(OmniFlowError):
    """The root of every error of the registry."""


class RegistryUnreachable(RegistryError, Unavailable):
    """No etcd endpoint answered in time. Running jobs don't need etcd; starting, joining and looking up does."""

    def __init__(self, endpoints: Sequence[str], doing: str, cause: str) -> None:
        self.endpoints = tuple(endpoints)
        super().__init__(
            f"etcd is not reachable at {', '.join(endpoints)} ({doing})",
            field="etcd.endpoints",
            cause=cause,
            cure="check that etcd runs there and that the configuration names it; `omniflow up` starts an embedded one",
        )


class EtcdFailed(RegistryError, Unavailable):
    """The embedded etcd did not start, or ended by itself."""


class PortTaken(EtcdFailed):
    """Another process listens on the port that the embedded etcd was given."""

    def __init__(self, host: str, port: int) -> None:
        self.port = port
        super().__init__(
            f"port {port} of {host}, meant for the embedded etcd, is in use by another process",
            cure="is this cluster up already (`omniflow status`)? Else choose free ports",
        )


class NameTaken(RegistryError, InvalidArgument):
    """A living incarnation of another process holds this name in the cluster."""

    def __init__(self, cluster: str, name: str, holder: str) -> None:
        self.name = name
        self.holder = holder
        super().__init__(
            f"the name {name!r} is taken in cluster {cluster!r} by {holder}, which is alive",
            field="name",
            cure="names are unique in a cluster: give this worker another one, or stop that process first",
        )


class NoLeader(RegistryError, Unavailable):
    """No scheduler leads the cluster."""

    def __init__(self, cluster: str, waited: float) -> None:
        super().__init__(
            f"no scheduler leads cluster {cluster!r} (waited {waited:.1f} s)",
            field="cluster",
            cure="start one (`omniflow up`), or mend the cluster's name",
        )
