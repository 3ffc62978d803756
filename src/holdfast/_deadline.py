"""How much time is left for a piece of work."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """Up to when a thread may work, in seconds of its own work.

    What counts is the CPU time of the thread that asks, not the clock on the wall: on a busy machine, or beside other
    workers, a search gets as far as it would alone. So it is made by the thread that does the work: a worker, be it a
    process or a thread, makes its own.

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
        """So many seconds of work from now on; None: no limit."""
        return cls(None if seconds is None else time.thread_time() + seconds)

    def within(self, seconds: float) -> Deadline:
        """This one, or so many seconds from now, whichever comes first."""
        return Deadline.after(
            seconds if self.end is None else min(seconds, self.end - time.thread_time())
        )

    def share(self, part: float) -> Deadline:
        """The end of a part of the time that is left."""
        left = self.left()
        return self if left is None else Deadline.after(part * left)

    def left(self) -> float | None:
        """The seconds left, never below 0; None without a limit."""
        return None if self.end is None else max(self.end - time.thread_time(), 0.0)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.end is not None and time.thread_time() >= self.end


NO_LIMIT = Deadline(None)
