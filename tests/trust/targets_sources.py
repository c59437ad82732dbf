"""Fuzz targets: tar shards and Parquet tables."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from target import Target

from piaa.images import StoredImage
from piaa.scale.sources.parquet import row_groups
from piaa.scale.sources.tar import TarPart


def tar_sources(folder: Path) -> Target:
    seeds = []
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
            for name in ("a/one.jpg", f"{'long' * 40}/two.png", "notes.txt"):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = 9, 1.5
                archive.addfile(member, io.BytesIO(b"not a jpg"))
            link = tarfile.TarInfo("link.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        seeds.append(file.getvalue())

    def accepts(data: bytes, place: Path) -> bool:
        (place / "shard.tar").write_bytes(data)
        for stored in TarPart(str(place / "shard.tar")).images():
            assert isinstance(stored, StoredImage)
            assert b"root:" not in stored.read()
        return True

    return Target(seeds, accepts)


def parquet_sources(folder: Path) -> Target:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: list[dict[str, object]] = [
        {"image": [b"not a jpg", b"", None] * 9, "id": list(range(27))},
        {"path": ["a.jpg", "../b.png", "s3://c/d.jpg"] * 9},
        {"image": [{"bytes": b"abc", "path": "a.jpg"}, {"bytes": None, "path": "/etc/passwd"}]},
    ]
    seeds = []
    for packing in ("none", "snappy", "zstd"):
        for number, table in enumerate(columns):
            file = folder / f"{packing}-{number}.parquet"
            pq.write_table(pa.table(table), file, compression=packing, row_group_size=10)
            seeds.append(file.read_bytes())

    def accepts(data: bytes, place: Path) -> bool:
        (place / "table.parquet").write_bytes(data)
        for part in row_groups(str(place / "table.parquet"), column=None, allow=()):
            for image in part.images():
                if isinstance(image, StoredImage):
                    try:
                        assert isinstance(image.read(), bytes)
                    except OSError:  # a row without a picture, or of a scheme that was not allowed
                        continue
        return True

    return Target(seeds, accepts)
