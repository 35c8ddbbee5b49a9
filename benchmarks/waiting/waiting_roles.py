"""Roles that do nothing: at once, or for ever."""

import threading

from omniflow.roles import Role, method
from omniflow.types import Text


class Echo(Role):
    """Gives back what it gets."""

    @method
    def echo(self, payload: Text) -> Text:
        """The payload, unchanged."""
        return payload


class Busy(Role):
    """Never done: what comes after its first activation waits."""

    @method
    def wait(self, start: Text) -> Text:
        """Blocks until its worker ends."""
        threading.Event().wait()
        return start
