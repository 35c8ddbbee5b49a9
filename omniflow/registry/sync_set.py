"""Which journals hold all that any client was told: only their schedulers may lead (rule 17).

The set is one key without a lease. An election makes the leader's journal the only one in it, in the same transaction;
later the leader admits its standby's and takes it out again. A candidate is elected only if nobody has written the set
since it has read there that it is one of them. So no journal leads that lacks what a leader told while it was alone.
"""

import json
from dataclasses import dataclass
from typing import Self

from omniflow.registry.requests import KeyValue


@dataclass(frozen=True, slots=True)
class SyncSet:
    """Ids of journals."""

    journals: tuple[str, ...]

    def encode(self) -> bytes:
        return json.dumps({"journals": list(self.journals)}).encode()

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """Fields of later versions are passed over."""
        return cls(tuple(str(journal) for journal in json.loads(value)["journals"]))

    def bars(self, journal: str) -> bool:
        """Whether a scheduler with that journal may not lead."""
        return journal not in self.journals


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheduler's journal, as far as elections go."""

    journal: str = ""
    """Its id; empty: it has none, and leaves the set as it is."""
    alone: bool = True
    """It has no standby and is none: it leads whatever the set says."""
    take_over: bool = False
    """It leads whatever the set says, unless somebody is seen to lead: the operator has said so."""

    def may_lead(self, seen: KeyValue | None) -> bool:
        return seen is None or not SyncSet.parse(seen.value).bars(self.journal)
