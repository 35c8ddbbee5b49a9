"""One job of a load test. Times are seconds on the client's clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """`intended`: when the job should have arrived, which in an open loop may be before it could be sent."""

    intended: float
    sent: float
    ended: float
    first_frame: float | None = None
    first_audio: float | None = None
    audio_seconds: float = 0.0
    jct_s: float | None = None
    """The job's completion time as the scheduler measured it."""
    failure: str = ""
    """The error's code, such as "DEADLINE_EXCEEDED"; empty for a job that has its result."""

    @property
    def latency(self) -> float:
        """From the intended arrival to the last frame: waiting to be sent counts."""
        return self.ended - self.intended

    @property
    def first_frame_latency(self) -> float | None:
        """From the intended arrival to the first frame."""
        return None if self.first_frame is None else self.first_frame - self.intended

    @property
    def first_audio_latency(self) -> float | None:
        """From the intended arrival to the first frame of sound."""
        return None if self.first_audio is None else self.first_audio - self.intended
