"""Parquet tables with a column of pictures: their bytes, or the paths of their files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from piaa.errors import InputError
from piaa.images import ImageSource, StoredImage
from piaa.scale.sources.base import SourceError
from piaa.scale.sources.places import (
    LOCAL_SCHEMES,
    check_allowed,
    open_place,
    place_fingerprint,
    read_place,
    scheme_of,
    store_errors,
)

PARQUET_SUFFIXES: Final = (".parquet",)
_BYTES_NAMES: Final = (
    "image",
    "img",
    "bytes",
    "image_bytes",
    "jpg",
    "jpeg",
    "png",
    "webp",
    "content",
)
_PATH_NAMES: Final = (
    "path",
    "image_path",
    "file",
    "file_path",
    "file_name",
    "filename",
    "url",
    "uri",
)
_ROWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Some rows of a table.

    Attributes:
        first: number of its first row in the table.
        allow: URL schemes that paths in the table may have.
    """

    place: str
    number: int
    first: int
    rows: int
    column: str
    allow: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.place}#{self.first}-{self.first + self.rows - 1}"

    @property
    def count(self) -> int:
        return self.rows

    def fingerprint(self) -> str:
        return f"{place_fingerprint(self.place)}.{self.column}"

    def images(self) -> Iterator[ImageSource]:
        from pyarrow import ArrowException

        row = self.first
        try:
            with open_place(self.place) as file:
                batches = _open(file).iter_batches(
                    _ROWS_AT_ONCE, row_groups=[self.number], columns=[self.column]
                )
                for batch in batches:
                    for value in batch.column(0).to_pylist():
                        yield self._image(value, row)
                        row += 1
        except (OSError, UnicodeError, ArrowException, *store_errors()) as error:
            raise SourceError(
                f"The table {self.place!r} cannot be read on at row {row} ({error})."
            ) from error

    def _image(self, value: Any, row: int) -> ImageSource:
        name = f"{self.place}#{row}"
        if isinstance(value, dict):  # as the datasets library has it: bytes, or where they are
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes):
            return StoredImage(name, lambda: value)
        return self._at(value) if isinstance(value, str) else StoredImage(name, _missing)

    def _at(self, path: str) -> ImageSource:
        try:
            check_allowed(path, self.allow)
            place = _resolved(self.place, path)
        except InputError as error:
            return StoredImage(path, partial(_refuse, str(error)))
        if scheme_of(place) is None:
            return place
        return StoredImage(place, partial(read_place, place))


def row_groups(place: str, *, column: str | None, allow: Collection[str]) -> list[RowGroup]:
    """The parts of a table. `column` holds the pictures; None finds it by type and name."""
    try:
        from pyarrow import ArrowException
    except ImportError as error:
        raise InputError(
            f"Reading {place!r} needs pyarrow. Install it with: pip install 'piaa[scale]'."
        ) from error
    try:
        with open_place(place) as file:
            table = _open(file)
            column = _column(place, table.schema_arrow, column)
            counts = [
                table.metadata.row_group(i).num_rows for i in range(table.metadata.num_row_groups)
            ]
    except (OSError, UnicodeError, ArrowException, *store_errors()) as error:
        raise InputError(f"{place!r} is no Parquet table that can be read ({error}).") from error
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [
        RowGroup(place, number, start, rows, column, tuple(sorted(allow)))
        for number, (start, rows) in enumerate(zip(starts, counts, strict=True))
        if rows
    ]


def _open(file: BinaryIO) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(file)


def _column(place: str, schema: Any, asked: str | None) -> str:
    fits: dict[str, str] = {field.name: kind for field in schema if (kind := _kind(field.type))}
    if asked is not None:
        if asked not in fits:
            raise InputError(
                f"The table {place!r} has no column {asked!r} of picture bytes or paths; it has "
                f"{_described(schema)}."
            )
        return asked
    named = [name for name in (*_BYTES_NAMES, *_PATH_NAMES) if name in fits]
    of_bytes = [name for name, kind in fits.items() if kind == "bytes"]
    found = [*named, *(of_bytes if len(of_bytes) == 1 else [])]
    if not found:
        raise InputError(
            f"In the table {place!r} no column is known to hold pictures: it has {_described(schema)}. "
            "Name the one that does: --column NAME."
        )
    return found[0]


def _kind(type: Any) -> str | None:
    import pyarrow.types as types

    if types.is_binary(type) or types.is_large_binary(type):
        return "bytes"
    if types.is_struct(type):
        return "bytes" if "bytes" in {type.field(i).name for i in range(type.num_fields)} else None
    return "path" if types.is_string(type) or types.is_large_string(type) else None


def _described(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _resolved(table: str, path: str) -> str:
    """A path of a table is relative to the table's own folder; a remote table names no local file."""
    scheme, home = scheme_of(path), scheme_of(table)
    if scheme is None and home is None:
        return str(Path(table).parent / path)
    relative = PurePosixPath(path)
    if scheme is None:
        outside = relative.is_absolute() or ".." in relative.parts
    else:
        outside = scheme in LOCAL_SCHEMES and home not in (None, scheme)
    if outside:
        raise InputError(f"{path!r} in the remote table {table!r} leads out of the table's folder.")
    return path if scheme is not None else f"{table.rpartition('/')[0]}/{relative}"


def _missing() -> bytes:
    raise OSError("the row holds no picture")


def _refuse(reason: str) -> bytes:
    raise OSError(reason)
