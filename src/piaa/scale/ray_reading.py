"""Units read and decoded by Ray Data, ahead of the actor that encodes them.

Each unit is a dataset of its own: its slices are the rows, a task reads a slice, pictures stream in order.
The batches of a unit, and so its bits, are those it has without Ray; a unit that is done again is read again;
and what is in the object store at a time is bounded, however large a unit is.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from piaa.errors import PiaaError
from piaa.scale.job import MANIFEST
from piaa.scale.read_images import Reader, ReadImage, Row, unpacked
from piaa.scale.units import Unit, cut
from piaa.scale.watching import Watch

SLICE: Final = 64
"""Pictures that one task reads."""
BLOCK_BYTES: Final = 8 * 2**20
STORE_BYTES: Final = 32 * 2**20
"""Of pictures that wait in the object store, for each task that may run at a time and two more."""
_TABLES_AHEAD: Final = 4
_ROWS: Final = 16


@dataclass(frozen=True)
class Place:
    """Where the driver is: names of pictures may be relative, and results go to its job's folder."""

    cwd: Path
    folder: Path

    def enter(self) -> None:
        """Be there; raises a PiaaError on a machine that does not see it."""
        try:
            os.chdir(self.cwd)
            shared = (self.folder / MANIFEST).is_file()
        except OSError:
            shared = False
        if not shared:
            raise PiaaError(
                f"{socket.gethostname()} does not see {self.cwd / self.folder}. Run piaa in a folder, "
                "and let the output be in one, that all nodes of the cluster see under the same name."
            )


@dataclass(frozen=True)
class Reading:
    """How units are read.

    Attributes:
        tasks: at a time, for one unit.
        cpus: that each asks for. 0: those that the actors leave.
    """

    place: Place
    tasks: int
    cpus: float

    def tables(self, unit: Unit, reader: Reader) -> Iterator[Any]:
        """Arrow tables of the unit's `Row`s, in order."""
        data = import_module("ray.data")
        logging.getLogger("ray.data").setLevel(logging.ERROR)  # it tells of every dataset
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.target_max_block_size = BLOCK_BYTES
        context.execution_options.preserve_order = True
        context.execution_options.resource_limits = data.ExecutionResources(
            object_store_memory=(self.tasks + 2) * STORE_BYTES
        )
        slices = cut(unit.parts, SLICE)
        # In memory, for a stage that makes the rows would be a task, which asks for a CPU of its own.
        rows = [{"slice": number} for number in range(len(slices))]
        pictures = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _read,
            fn_kwargs={"place": self.place, "reader": reader, "slices": slices},
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=self.cpus,
            compute=data.TaskPoolStrategy(size=self.tasks),
        )
        return iter(pictures.iter_batches(batch_size=None, batch_format="pyarrow"))


class ReadUnit:
    """A unit that is being read from now on, some tables ahead of whoever asks for its pictures."""

    def __init__(self, tables: Callable[[], Iterator[Any]], watch: Watch) -> None:
        self._watch = watch
        self._ready: queue.Queue[Any] = queue.Queue(_TABLES_AHEAD)
        threading.Thread(target=self._read, args=(tables,), daemon=True).start()

    def images(self, on_broken: Callable[[str, str], None]) -> Iterator[ReadImage]:
        """As `Unit.images`."""
        while (table := self._ready.get()) is not None:
            if isinstance(table, Exception):
                raise table
            yield from unpacked(_rows(table), on_broken, self._watch.spend)

    def _read(self, tables: Callable[[], Iterator[Any]]) -> None:
        try:
            for table in tables():
                self._ready.put(table)
            self._ready.put(None)
        except Exception as error:  # it is raised where the pictures are asked for
            self._ready.put(error)


def _rows(table: Any) -> Iterator[Row]:
    columns = (table.column(name) for name in ("about", "data"))
    for about, data in zip(*columns, strict=True):
        yield about.as_py(), data.as_buffer()


def _read(batch: Any, *, place: Place, reader: Reader, slices: list[Unit]) -> Iterator[Any]:
    """The task: slices by number -> tables of their pictures, not many at a time."""
    rows: list[Row] = []
    try:
        place.enter()
        for number in batch.column("slice").to_pylist():
            for row in reader.rows(slices[number]):
                rows.append(row)
                if len(rows) == _ROWS or sum(len(data) for _, data in rows) >= BLOCK_BYTES:
                    yield _table(rows)
                    rows = []
    except PiaaError as error:  # as text: Ray would wrap it in the story of its own stack
        rows.append((json.dumps({"fatal": str(error)}), b""))
    yield _table(rows)


def _table(rows: list[Row]) -> Any:
    import pyarrow as pa

    told, pictures = [told for told, _ in rows], [data for _, data in rows]
    return pa.table(
        {"about": pa.array(told, pa.string()), "data": pa.array(pictures, pa.large_binary())}
    )
