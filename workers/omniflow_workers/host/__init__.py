"""What runs role methods: threads between a role's ready queue and its code."""

from omniflow_workers.host.loading import LoadedRole, load_roles, resolve_roles
from omniflow_workers.host.serving import serve

__all__ = ["LoadedRole", "load_roles", "resolve_roles", "serve"]
