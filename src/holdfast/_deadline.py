"""The time that is left for a piece of work."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """The time until which a thread may work, in seconds of its own CPU time.

    CPU time is counted instead of the time on the clock: on a busy machine, or next to other workers, a search gets as
    far as it would alone. Therefore the thread that does the work makes its own deadline, and so does each worker,
    a process or a thread.

    Examples
    --------
    >>> Deadline.after(None).left(), Deadline.after(None).over
    (None, False)
    >>> Deadline.after(0.0).left(), Deadline.after(0.0).over
    (0.0, True)
    """

    end: float | None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """End this many seconds of work from now; None: no limit."""
        return cls(None if seconds is None else time.thread_time() + seconds)

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and one that ends after these seconds."""
        return Deadline.after(
            seconds if self.end is None else min(seconds, self.end - time.thread_time())
        )

    def share(self, part: float) -> Deadline:
        """A deadline that ends after a part of the time left."""
        left = self.left()
        return self if left is None else Deadline.after(part * left)

    def left(self) -> float | None:
        """The seconds left, never below 0; None without a limit."""
        return None if self.end is None else max(self.end - time.thread_time(), 0.0)

    @property
    def over(self) -> bool:
        """True if the time is up."""
        return self.end is not None and time.thread_time() >= self.end


NO_LIMIT = Deadline(None)
