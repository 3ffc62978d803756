"""Recourse: ways to find it, and `explain`, which checks and certifies whatever they find."""

from holdfast.generators.base import Generator, Proposals, Task

__all__ = ["Generator", "Proposals", "Task"]
