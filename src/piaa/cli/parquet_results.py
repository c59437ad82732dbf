"""Predictions as a Parquet table, for pandas, DuckDB and whatever reads columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from piaa.errors import InputError

if TYPE_CHECKING:
    from piaa.cli.results import Tagged

ROWS: Final = 16_384
"""In a row group: what is held until it is written, and what readers take at a time."""


def check_parquet(out: Path | None) -> None:
    """Before any work: whether such a table can be written, and where."""
    if out is None:
        raise InputError("A Parquet table is no text for standard output. Give --out FILE.")
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Writing Parquet needs pyarrow. Install it with: pip install 'piaa[scale]'."
        ) from error


class ParquetResults:
    """A row a picture: path, width, height, tags and their scores, best first, as two lists of one length."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        class Table(ParquetWriter):  # type: ignore[misc]
            def __del__(self) -> None:
                """Not to end a table that was broken off: its file is closed, and goes."""

        self._schema: Any = pa.schema(
            [
                ("path", pa.string()),
                ("width", pa.int32()),
                ("height", pa.int32()),
                ("tags", pa.list_(pa.string())),
                ("scores", pa.list_(pa.float32())),
            ]
        )
        self._table = pa.Table
        self._rows: list[dict[str, Any]] = []
        self._writer: Any = Table(file, self._schema, compression="zstd")

    def add(self, prediction: Tagged, heatmaps: Mapping[str, Path]) -> None:  # noqa: ARG002
        height, width = prediction.size or (None, None)
        source = prediction.source
        self._rows.append(
            {
                # Names of files may hold what is not valid text, and a column of text may not.
                "path": source and source.encode("utf-8", "backslashreplace").decode(),
                "width": width,
                "height": height,
                "tags": [name for name, _ in prediction.tags],
                "scores": [score for _, score in prediction.tags],
            }
        )
        if len(self._rows) == ROWS:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        if self._rows:
            self._writer.write_table(self._table.from_pylist(self._rows, schema=self._schema))
            self._rows = []
