"""What every test relies on: one thread per worker, the same examples on every run, and where the data are."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]

# Here, before any test module imports numpy, which reads these once.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# A slow machine is not a failed test, and a failure has to come back: examples follow from the test, not from chance.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", parent=settings.get_profile("default"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public datasets: $HOLDFAST_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("HOLDFAST_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "MANIFEST.json").is_file():
        pytest.skip(f"expected the datasets in {folder}; set HOLDFAST_DATA to where they are")
    return folder
