"""One family of exceptions: catch `HoldfastError` and you have caught everything holdfast raises on purpose."""

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
    """A likely mistake in the request; the call goes on."""


class UndecidedColumnWarning(HoldfastWarning):
    """Advice changes a column, and the space does not state how people may change it."""


class InvalidInputError(HoldfastError, ValueError):
    """An argument is wrong; the message names the argument, the fault and the way out."""


class UnsupportedModelError(HoldfastError, TypeError):
    """A model that cannot be represented exactly; the message names the layer or operator."""


class FileFormatError(HoldfastError, ValueError):
    """A file is corrupted, incomplete, or of another format than its name says."""


class DownloadError(HoldfastError, OSError):
    """A file could not be fetched from the network."""


class DatasetNotFoundError(HoldfastError, FileNotFoundError):
    """A table was not found and cannot be downloaded; the message names the places and the way out."""


class MissingExtraError(HoldfastError, ImportError):
    """An optional package is not installed; the message names the install command."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}: pip install 'holdfast[{extra}]'"
        )


class UntrustedFileError(HoldfastError):
    """A file can run code when opened, and the user has not allowed it."""
