"""Local paths and URLs, opened and listed the same way. Only URLs need fsspec."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from piaa.errors import InputError, UnknownNameError

LOCAL_SCHEMES: Final = ("file", "memory")
"""Schemes of this machine; they need not be allowed."""
REMOTE_SCHEMES: Final = ("s3", "gs", "gcs", "az", "abfs", "http", "https")
"""Schemes that are read once they are allowed; no other one is, whatever fsspec knows."""

_VERSIONS: Final = ("ETag", "etag", "md5Hash", "generation", "mtime", "LastModified", "created")


def scheme_of(place: str) -> str | None:
    """`s3` of `s3://bucket/key`; None for a local path.

    >>> scheme_of("s3://photos/a.jpg"), scheme_of("photos/a.jpg")
    ('s3', None)
    """
    scheme, found, _ = place.partition("://")
    return scheme.lower() if found and scheme.replace("+", "").isalnum() else None


def check_allowed(place: str, allow: Collection[str]) -> None:
    """Refuse a URL whose scheme is unknown or was not allowed; nothing is fetched unasked."""
    scheme = scheme_of(place)
    if scheme is None or scheme in LOCAL_SCHEMES:
        return
    if scheme not in REMOTE_SCHEMES or "::" in place:
        raise UnknownNameError("kind of URL", scheme, REMOTE_SCHEMES)
    if scheme not in allow:
        raise InputError(
            f"{place!r} is read over the network, which has to be allowed by name: --allow {scheme} on the "
            f"command line, allow=[{scheme!r}] in Python."
        )


def open_place(place: str) -> BinaryIO:
    """A local file or an object, from its beginning; raises an OSError."""
    if scheme_of(place) is None:
        return Path(place).open("rb")
    with _failing_as_files_do():
        return cast(BinaryIO, file_system(place).open(place, "rb"))


def read_place(place: str) -> bytes:
    """All bytes of an object or a local file."""
    with _failing_as_files_do(), open_place(place) as file:
        return file.read()


def place_fingerprint(place: str) -> str:
    """Changes when the content does: size and time of a file, what a store tells of an object."""
    if scheme_of(place) is None:
        status = Path(place).stat()
        return f"{status.st_size}.{status.st_mtime_ns}"
    with _failing_as_files_do():
        told = file_system(place).info(place)
    # Not all of it: stores tell more of an object that is asked for than of one in a listing.
    version = next((str(told[name]) for name in _VERSIONS if told.get(name)), "")
    return f"{told.get('size')}.{version}"


def list_place(place: str) -> list[str]:
    """URLs of everything below a URL, or matching its pattern, sorted."""
    system = file_system(place)
    with _failing_as_files_do():
        found = system.glob(place) if any(char in place for char in "*?[") else system.find(place)
    return sorted(str(system.unstrip_protocol(name)) for name in found)


def file_system(place: str) -> Any:
    """fsspec's file system of a URL."""
    try:
        import fsspec

        return fsspec.filesystem(scheme_of(place))
    except ImportError as error:
        raise InputError(
            f"{place!r} needs a package that is not installed ({error}). Install piaa[scale] and the "
            "store's own: s3fs, gcsfs, adlfs, or aiohttp for https."
        ) from error


def store_errors() -> tuple[type[Exception], ...]:
    """What clients of object stores raise that is no OSError; of those in use."""
    names = {
        "botocore.exceptions": ("BotoCoreError", "ClientError"),
        "aiohttp": ("ClientError",),
        "gcsfs.retry": ("HttpError",),
        "azure.core.exceptions": ("AzureError",),
    }
    modules = {module: sys.modules[module] for module in names if module in sys.modules}
    return tuple(
        getattr(found, name) for module, found in modules.items() for name in names[module]
    )


@contextmanager
def _failing_as_files_do() -> Iterator[None]:
    try:
        yield
    except store_errors() as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
