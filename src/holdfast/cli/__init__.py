"""The command ``holdfast``: `app` has what it asks, `tables` what it reads and writes, `screens` what it shows."""

from holdfast.cli.app import app, main

__all__ = ["app", "main"]
