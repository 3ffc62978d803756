"""Modules for libraries that are not there have no examples to run."""

from importlib.util import find_spec

READERS = {"catboost": "_catboost.py", "interpret": "_interpret.py"}
collect_ignore = [
    f"src/holdfast/importers/{module}"
    for library, module in READERS.items()
    if find_spec(library) is None
]
