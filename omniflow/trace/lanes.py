"""What runs at once needs tracks of its own: slices of one track must not overlap."""

# A slice that is shorter is not seen.
SHORTEST_US = 1


class Lanes:
    """Gives each slice the first lane that is free by then. Slices come in order of their starts."""

    def __init__(self) -> None:
        self._free_at: list[int] = []

    def place(self, start: int, end: int) -> int:
        """The lane's number, from 0."""
        end = max(end, start + SHORTEST_US)
        for lane, free_at in enumerate(self._free_at):
            if free_at <= start:
                self._free_at[lane] = end
                return lane
        self._free_at.append(end)
        return len(self._free_at) - 1

    def __len__(self) -> int:
        return len(self._free_at)
