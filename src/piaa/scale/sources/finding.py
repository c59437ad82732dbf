"""Names of sources -> their parts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from piaa.errors import InputError
from piaa.images import list_images
from piaa.images.formats import SUFFIXES
from piaa.scale.sources.base import Part
from piaa.scale.sources.files import FilePart
from piaa.scale.sources.parquet import PARQUET_SUFFIXES, row_groups
from piaa.scale.sources.places import check_allowed, list_place, read_place, scheme_of
from piaa.scale.sources.tar import TAR_SUFFIXES, TarPart

LIST_SUFFIXES: Final = (".txt", ".lst")


def is_shard(source: str) -> bool:
    """Whether a name is that of many pictures: an archive or a table."""
    return source.lower().endswith((*TAR_SUFFIXES, *PARQUET_SUFFIXES))


def is_store(source: str) -> bool:
    """Whether a source is more than local files and folders: a URL, an archive, a table, a list."""
    if scheme_of(source) is not None:
        return True
    listed = source.lower().endswith(LIST_SUFFIXES)
    return (listed or is_shard(source)) and Path(source).is_file()


def find_parts(
    sources: Sequence[str | os.PathLike[str]],
    *,
    allow: Collection[str] = (),
    column: str | None = None,
) -> list[Part]:
    """The parts of all sources, in order, each once.

    Args:
        sources: folders, pictures, tar shards (`.tar`, `.tar.gz`...), `.parquet` tables, lists of all these
            (`.txt`, one a line), and URLs of any of them, with patterns such as `s3://bucket/*.tar`.
        allow: schemes of URLs that may be read, such as "s3". Nothing is fetched unasked, whatever a
            list or a table says.
        column: of the tables: bytes of pictures, or paths. Default: by type and name.

    Raises:
        InputError: a source that is not there, holds no picture, or is not allowed.
    """
    parts: dict[str, Part] = {}
    for source in sources:
        for part in _parts(os.fspath(source), allow, column, depth=0):
            parts.setdefault(part.name, part)
    if not parts:
        raise InputError("There are no sources of pictures: the list is empty.")
    return list(parts.values())


def _parts(source: str, allow: Collection[str], column: str | None, depth: int) -> Iterator[Part]:
    check_allowed(source, allow)
    remote = scheme_of(source) is not None
    if not remote and Path(source).is_dir():
        yield from (FilePart(str(path)) for path in list_images(source))
        return
    if not remote and not os.path.lexists(source):
        raise InputError(
            f"There is no file or folder {source!r}. Check the spelling; the current folder is "
            f"{str(Path.cwd())!r}."
        )
    name = source.lower()
    pattern = remote and any(char in source for char in "*?[")
    if pattern or (remote and not PurePosixPath(name).suffix):
        yield from _below(source, allow, column)
    elif name.endswith(TAR_SUFFIXES):
        yield TarPart(source)
    elif name.endswith(PARQUET_SUFFIXES):
        yield from row_groups(source, column=column, allow=allow)
    elif name.endswith(LIST_SUFFIXES):
        yield from _listed(source, allow, column, depth)
    else:
        yield FilePart(source)


def _below(url: str, allow: Collection[str], column: str | None) -> Iterator[Part]:
    """What a prefix or pattern leads to, by suffix; lists among it are not followed."""
    known = (*SUFFIXES, *TAR_SUFFIXES, *PARQUET_SUFFIXES)
    try:
        found = [name for name in list_place(url) if name.lower().endswith(known)]
    except OSError as error:
        raise InputError(f"{url!r} cannot be listed ({error}).") from error
    if not found:
        raise InputError(
            f"{url!r} leads to no picture, tar shard or Parquet table. Check the spelling."
        )
    for name in found:
        yield from _parts(name, allow, column, depth=1)


def _listed(source: str, allow: Collection[str], column: str | None, depth: int) -> Iterator[Part]:
    if depth:
        raise InputError(f"{source!r} is a list in a list; name its files in one list.")
    try:
        lines = read_place(source).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The list {source!r} cannot be read as UTF-8 ({error}).") from error
    entries = [line.strip() for line in lines if line.strip()]
    if not entries:
        raise InputError(f"The list {source!r} is empty; write one path or URL a line.")
    for entry in entries:
        plain = scheme_of(entry) is None and not Path(entry).is_dir()
        if plain and entry.lower().endswith(tuple(SUFFIXES)):
            yield FilePart(entry)  # one that is not there is skipped and listed when its turn comes
        else:
            yield from _parts(entry, allow, column, depth + 1)
