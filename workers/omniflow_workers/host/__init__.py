"""What runs role methods: threads between a role's ready queue and its code."""

from omniflow_workers.host.loading import LoadedRole, load_roles, resolve_roles
from omniflow_workers.host.serving import serve
from omniflow_workers.host.stuck import RoleStuck

__all__ = ["LoadedRole", "RoleStuck", "load_roles", "resolve_roles", "serve"]
