"""Tar shards, as WebDataset lays them out: pictures among other files, read front to back.

Nothing is unpacked to disk; links, devices and whatever else is no plain file are passed over.
"""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Self

from piaa.images import ImageSource, StoredImage
from piaa.images.formats import SUFFIXES
from piaa.scale.sources.base import SourceError
from piaa.scale.sources.places import open_place, place_fingerprint, store_errors

TAR_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MOST_BYTES: Final = 2**30
"""Of one picture in an archive. What claims to be larger is skipped, not read into memory."""
MOST_NAME_BYTES: Final = 2**20
"""Of what stands before a member in place of its header, such as a long name."""
_NAMING: Final = (*"xgXLK",)


class _Member(tarfile.TarInfo):
    """A header that is damaged in the middle of an archive is an error, not the archive's end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            member = super().frombuf(buf, encoding, errors)
        except (tarfile.TruncatedHeaderError, tarfile.InvalidHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from error
        # These the library reads into memory whatever their size, which a few bytes can unpack to.
        if member.type.decode("latin-1") in _NAMING and member.size > MOST_NAME_BYTES:
            raise tarfile.ReadError(f"a name of {member.size:,} bytes")
        return member


@dataclass(frozen=True, slots=True)
class TarPart:
    """All pictures of one archive, told by their suffix; compressed ones too."""

    name: str

    @property
    def count(self) -> None:
        return None

    def fingerprint(self) -> str:
        return place_fingerprint(self.name)

    def images(self) -> Iterator[ImageSource]:
        last = "its start"
        try:
            with (
                open_place(self.name) as file,
                tarfile.open(fileobj=file, mode="r|*", tarinfo=_Member) as archive,
            ):
                for member in archive:
                    if not _is_picture(member):
                        continue
                    yield self._stored(archive, member)
                    last = member.name
                    archive.members.clear()  # type: ignore[attr-defined]  # it would remember all
        except _broken() as error:
            raise SourceError(
                f"The archive {self.name!r} cannot be read on after {last} ({error})."
            ) from error

    def _stored(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> StoredImage:
        name = f"{self.name}/{member.name}"
        content = archive.extractfile(member) if member.size <= MOST_BYTES else None
        if content is None:
            return StoredImage(name, lambda: _refuse(member.size))
        data = content.read()
        if len(data) < member.size:
            raise tarfile.ReadError(f"{member.name} is cut short")
        return StoredImage(name, lambda: data)


def _is_picture(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    return member.isreg() and path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _refuse(size: int) -> bytes:
    raise OSError(f"it has {size:,} bytes, more than the limit of {MOST_BYTES:,}")


def _broken() -> tuple[type[Exception], ...]:
    # The last ones are what the library itself stumbles into over damaged headers.
    damaged = (ValueError, TypeError, IndexError, KeyError, OverflowError, RecursionError)
    return (
        tarfile.TarError,
        OSError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        *damaged,
        *store_errors(),
    )
