"""Why a cluster does not start, or does not stop."""
# ruff: noqa: N818  named after what happened, not "…Error"

from omniflow.errors import OmniFlowError


class LaunchError(OmniFlowError):
    """The root of what launchers raise."""


class AlreadyRunning(LaunchError):
    """A cluster runs on this run folder."""


class AddressInUse(LaunchError):
    """Another process listens where the scheduler should."""


class StartFailed(LaunchError):
    """A process ended while the cluster was starting, or it did not become ready in time."""


class StopTimeout(LaunchError):
    """The cluster is still draining."""


class NoCluster(LaunchError):
    """Nothing was started on this run folder, or it has ended."""
