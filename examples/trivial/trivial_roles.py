"""The smallest role there is: what comes in goes out. What a job costs with it is the system's own cost."""

from collections.abc import Iterator

from omniflow.roles import Role, method
from omniflow.types import Stream, Text


class Echo(Role):
    """Gives back what it gets."""

    concurrency = 1

    @method
    def echo(self, payload: Text) -> Text:
        """The payload, unchanged."""
        return payload

    @method
    def words(self, payload: Text) -> Stream[Text]:
        """The payload word by word."""
        return self._words(payload)

    def _words(self, payload: str) -> Iterator[str]:
        yield from payload.split()
