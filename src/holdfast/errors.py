"""All exceptions of holdfast: `HoldfastError` catches every error that holdfast raises on purpose."""

__all__ = [
    "DatasetNotFoundError",
    "DownloadError",
    "FileFormatError",
    "HoldfastError",
    "HoldfastWarning",
    "InvalidInputError",
    "MissingExtraError",
    "UndecidedColumnWarning",
    "UnsupportedModelError",
    "UntrustedFileError",
]


class HoldfastError(Exception):
    """Base class of every error that holdfast raises on purpose."""


class HoldfastWarning(UserWarning):
    """The call succeeded, but an argument looks unintended."""


class UndecidedColumnWarning(HoldfastWarning):
    """Advice changes a column, and the space does not state how people may change it."""


class InvalidInputError(HoldfastError, ValueError):
    """An argument is invalid; the message names the expected and the given value."""


class UnsupportedModelError(HoldfastError, TypeError):
    """A model that cannot be represented exactly; the message names the layer or operator."""


class FileFormatError(HoldfastError, ValueError):
    """A file is corrupted, incomplete, or in another format than its name says."""


class DownloadError(HoldfastError, OSError):
    """A file could not be fetched from the network."""


class DatasetNotFoundError(HoldfastError, FileNotFoundError):
    """A table is not available; the message names the places searched and what to do."""


class MissingExtraError(HoldfastError, ImportError):
    """An optional package is not installed; the message names the install command."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}: pip install 'holdfast[{extra}]'"
        )


class UntrustedFileError(HoldfastError):
    """A file could run code when opened, and the caller has not allowed that."""
