"""Cutting the input into units, and jobs that are picked up or refused."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shaky_encoder import save_pictures, shaky_recognizer

from piaa.errors import InputError
from piaa.scale.job import MANIFEST, Job, has_job, open_job
from piaa.scale.sources import FilePart, find_parts
from piaa.scale.units import Unit, cut


class Part:
    def __init__(self, name: str, count: int | None) -> None:
        self.name, self.count = name, count

    def fingerprint(self) -> str:
        return "same"

    def images(self) -> Any:
        return iter(())


class TestCut:
    @given(
        counts=st.lists(st.one_of(st.none(), st.integers(1, 12)), max_size=30),
        size=st.integers(1, 10),
    )
    def test_every_part_once_in_order(self, counts: list[int | None], size: int) -> None:
        parts = [Part(str(number), count) for number, count in enumerate(counts)]
        units = cut(parts, size)
        assert [part for unit in units for part in unit.parts] == parts
        assert [unit.number for unit in units] == list(range(len(units)))
        for unit in units:
            assert len(unit.parts) == 1 or (unit.count is not None and unit.count <= size)
        for one, other in pairwise(units):  # no unit could have taken more
            first = other.parts[0].count
            assert first is None or one.count is None or one.count + first > size

    def test_files(self) -> None:
        units = cut([FilePart(f"{n}.jpg") for n in range(10)], 4)
        assert [unit.count for unit in units] == [4, 4, 2]

    def test_size(self) -> None:
        with pytest.raises(InputError, match="size of a unit"):
            cut([], 0)


OPTIONS = {"classes": {"names": ["a", "b"]}, "config": {"bank_size": 8}, "device": "cpu"}


@pytest.fixture
def units(tmp_path: Path) -> list[Unit]:
    save_pictures(tmp_path / "photos", 5)
    return cut(find_parts([tmp_path / "photos"]), 2)


def begin(folder: Path, units: list[Unit], **changes: Any) -> Job:
    with open_job(folder, units, {**OPTIONS, **changes}, shaky_recognizer()) as job:
        return job


class TestJob:
    def test_a_job_is_picked_up(self, tmp_path: Path, units: list[Unit]) -> None:
        folder = tmp_path / "job"
        assert not has_job(folder)
        job = begin(folder, units)
        assert has_job(folder)
        job.result(units[1]).write_bytes(b"done")
        (folder / ".unit-000002.1234.part").write_bytes(b"half")
        again = begin(folder, cut(find_parts([tmp_path / "photos"]), 2))
        assert again.result(units[1]).read_bytes() == b"done"
        assert not list(folder.glob("*.part"))
        manifest = json.loads((folder / MANIFEST).read_bytes())
        assert manifest["options"] == OPTIONS
        lines = [json.loads(line) for line in (folder / "inputs.jsonl").read_text().splitlines()]
        assert [line[0] for line in lines] == [0, 0, 1, 1, 2]
        job.remove()
        assert not folder.exists()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"classes": {"names": ["a", "c"]}},
                r'classes names was \["a", "b"\] and is now \["a", "c"\]',
            ),
            ({"config": {"bank_size": 9}}, "config bank_size was 8 and is now 9"),
            ({"device": "cuda"}, 'device was "cpu" and is now "cuda"'),
            ({"more": 1}, "more was null and is now 1"),
        ],
    )
    def test_changed_options(
        self, tmp_path: Path, units: list[Unit], changes: dict[str, Any], message: str
    ) -> None:
        folder = tmp_path / "job"
        begin(folder, units)
        with pytest.raises(InputError, match=f"{message}.*--restart"):
            begin(folder, units, **changes)

    def test_changed_input(self, tmp_path: Path, units: list[Unit]) -> None:
        folder, photos = tmp_path / "job", tmp_path / "photos"
        begin(folder, units).result(units[0]).write_bytes(b"done")

        def check(message: str) -> None:
            with pytest.raises(InputError, match=message):
                begin(folder, cut(find_parts([photos]), 2))

        os.utime(photos / "001.png", (1, 1))
        check(r"of the input, 1 changed \(first: .*001\.png\)")
        save_pictures(photos, 7)
        (photos / "000.png").unlink()
        check(r"2 added \(first: .*005\.png\), 1 removed \(first: .*000\.png\), . changed")
        begin(tmp_path / "other", cut([FilePart(name) for name in "abc"]))
        with pytest.raises(InputError, match="from c on, the input is in another order"):
            begin(tmp_path / "other", cut([FilePart(name) for name in "acb"]))
        with open_job(folder, units, OPTIONS, shaky_recognizer(), restart=True) as job:
            assert not job.result(units[0]).exists()

    def test_other_unit_sizes(self, tmp_path: Path, units: list[Unit]) -> None:
        begin(tmp_path / "job", units)
        with pytest.raises(InputError, match=r"from .*002\.png on, .* other units"):
            begin(tmp_path / "job", cut(find_parts([tmp_path / "photos"]), 3))

    def test_one_process_at_a_time(self, tmp_path: Path, units: list[Unit]) -> None:
        pytest.importorskip("fcntl")
        with (
            open_job(tmp_path / "job", units, OPTIONS, shaky_recognizer()),
            pytest.raises(InputError, match="Another process works on"),
        ):
            begin(tmp_path / "job", units)
        begin(tmp_path / "job", units)

    def test_folders_of_others(self, tmp_path: Path, units: list[Unit]) -> None:
        (tmp_path / "note").write_text("mine")
        with pytest.raises(InputError, match="'note', which is no part of a job"):
            begin(tmp_path, units)
        assert (tmp_path / "note").read_text() == "mine"

    @pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "piaa-job", "version": 1}'])
    def test_a_broken_manifest(self, tmp_path: Path, units: list[Unit], content: str) -> None:
        begin(tmp_path / "job", units)
        (tmp_path / "job" / MANIFEST).write_text(content)
        with pytest.raises(InputError, match="another run"):
            begin(tmp_path / "job", units)
