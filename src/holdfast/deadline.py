"""How long something may take, in seconds of its own processor time: a busy machine makes no answer worse."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """A moment of this thread's processor clock, or None for no limit."""

    moment: float | None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """So many seconds from now."""
        return cls(None if seconds is None else time.thread_time() + seconds)

    def left(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self.moment is None else max(self.moment - time.thread_time(), 0.0)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.moment is not None and time.thread_time() >= self.moment
