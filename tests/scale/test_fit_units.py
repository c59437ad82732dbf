"""Fitting in units: the same bits as at once, whatever happens on the way."""

from __future__ import annotations

import os
import queue
import signal
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from shaky_encoder import OtherThreads, ShakyEncoder, save_pictures, shaky_recognizer

from piaa import Recognizer
from piaa.encoders.base import Encoder
from piaa.errors import ArtifactError, InputError, PiaaError
from piaa.scale import fit as fit_module
from piaa.scale.fit import FitWork, fit_units, unfinished
from piaa.scale.job import DamagedUnitWarning, Job
from piaa.scale.local import Here, Processes, WorkOf, _do_units, _listen
from piaa.scale.sources import find_parts
from piaa.scale.units import Unit, cut
from piaa.scale.watching import Tally, Watch

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")
N, BATCH = 21, 4


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    save_pictures(tmp_path / "photos", N)
    return tmp_path / "photos"


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What `Recognizer.fit` saves."""
    folder = tmp_path_factory.mktemp("at-once")
    recognizer = shaky_recognizer()
    with warnings.catch_warnings(action="ignore"):  # there may be little evidence in a few squares
        recognizer.fit(save_pictures(folder, N), batch_size=BATCH)
    recognizer.save(folder / "model")
    return (folder / "model").read_bytes()


class Interrupted(Here):
    """Does some units and stops."""

    def __init__(self, units: int) -> None:
        self.units = units

    def run(
        self, work_of: WorkOf, encoder: Encoder, job: Job, units: Sequence[Unit], watch: Watch
    ) -> None:
        super().run(work_of, encoder, job, units[: self.units], watch)
        raise KeyboardInterrupt


def units_of(photos: Path, size: int = 8) -> list[Unit]:
    return cut(find_parts([photos]), size)


def fit(
    photos: Path, *, engine: object = None, watch: Tally | None = None, **options: object
) -> Path:
    out = photos.parent / "model"
    units = units_of(photos)
    watch = watch or Tally(N, len(units))
    recognizer = shaky_recognizer()
    fit_units(recognizer, units, out, watch=watch, engine=engine, batch_size=BATCH, **options)
    return out


def test_as_at_once(photos: Path, at_once: bytes) -> None:
    watch = Tally(N, 3)
    out = fit(photos, watch=watch)
    assert out.read_bytes() == at_once
    assert not unfinished(out).exists()
    assert (watch.images, watch.finished, watch.earlier) == (N, 3, 0)
    assert list(watch.stages) == ["encode", "learn", "save"]
    assert all(stage.images == N and stage.seconds > 0 for stage in watch.stages.values())


def test_interrupted_twice(photos: Path, at_once: bytes) -> None:
    (photos / "bad.jpg").write_bytes(b"")  # the last one by name, so that batches stay the same
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fit(photos, engine=Interrupted(1))
    watch = Tally(N + 1, 3)
    out = fit(photos, watch=watch)
    assert out.read_bytes() == at_once
    assert (watch.images, watch.earlier, watch.finished) == (N, 16, 3)
    assert [(Path(name).name, reason) for name, reason in watch.skipped] == [
        ("bad.jpg", "the file is empty (0 bytes)")
    ]


def test_a_result_that_cannot_be_written(
    photos: Path, at_once: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread writes it while the next unit is worked on; the error is the job's."""
    save, saved = fit_module.save_gathered, []

    def full(path: Path, *what: object) -> None:
        saved.append(path)
        if len(saved) == 2:
            raise ArtifactError(f"{path} cannot be written: No space left on device.")
        save(path, *what)

    monkeypatch.setattr(fit_module, "save_gathered", full)
    watch = Tally(N, 3)
    with pytest.raises(ArtifactError, match="No space left"):
        fit(photos, watch=watch)
    assert watch.finished == 1
    monkeypatch.undo()
    watch = Tally(N, 3)
    assert fit(photos, watch=watch).read_bytes() == at_once
    assert watch.earlier == 8


def test_skipped_pictures_are_told_again_after_an_interruption(photos: Path) -> None:
    (photos / "000.png").write_bytes(b"no picture")
    with pytest.raises(KeyboardInterrupt):
        fit(photos, engine=Interrupted(2))
    watch = Tally(N, 3)
    fit(photos, watch=watch)
    assert [Path(name).name for name, _ in watch.skipped] == ["000.png"]
    assert watch.images == N - 1


def test_damaged_units_are_done_again(photos: Path, at_once: bytes) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(photos, engine=Interrupted(2))
    first, second = sorted(unfinished(photos.parent / "model").glob("unit-*"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    second.write_bytes(b"")
    with pytest.warns(DamagedUnitWarning, match=r"unit-00000. is done again"):
        assert fit(photos).read_bytes() == at_once


def test_killed_after_saving(photos: Path, at_once: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is there and the job too: the same call tidies up."""

    def interrupt(_: Job) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "remove", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(photos)
    monkeypatch.undo()
    out = photos.parent / "model"
    assert out.read_bytes() == at_once
    watch = Tally(N, 3)
    assert fit(photos, watch=watch).read_bytes() == at_once
    assert watch.earlier == N
    assert not unfinished(out).exists()


def test_another_run_is_refused(photos: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(photos, engine=Interrupted(1))
    other = Recognizer(shaky_recognizer().encoder, ["red", "yellow"])
    out = photos.parent / "model"
    with pytest.raises(InputError, match=r"classes names was .*; config bank_floor"):
        fit_units(other, units_of(photos), out, watch=Tally(N, 3), batch_size=BATCH)
    fit_units(other, units_of(photos), out, watch=Tally(N, 3), batch_size=BATCH, restart=True)
    assert Recognizer.load(out, other.encoder).classes.names == ("red", "yellow")


def test_other_text_vectors_in_the_last_bit(photos: Path, at_once: bytes) -> None:
    """A job goes on with those that it began with."""
    with pytest.raises(KeyboardInterrupt):
        fit(photos, engine=Interrupted(2))
    first = shaky_recognizer()
    other = Recognizer(OtherThreads(), first.classes, config=first.config)
    assert not torch.equal(other.text, first.text)
    out, watch = photos.parent / "model", Tally(N, 3)
    fit_units(other, units_of(photos), out, watch=watch, batch_size=BATCH)
    assert watch.earlier == 16
    assert out.read_bytes() == at_once


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "bad.jpg").write_bytes(b"")
    with pytest.raises(InputError, match="not one of the pictures could be read"):
        fit(tmp_path / "photos")
    assert not (tmp_path / "model").exists()
    assert not unfinished(tmp_path / "model").exists()


class TestProcesses:
    def test_the_same_bytes(self, photos: Path, at_once: bytes) -> None:
        (photos / "bad.jpg").write_bytes(b"")
        watch = Tally(N + 1, 3)
        out = fit(photos, engine=Processes(2, OtherThreads), watch=watch)
        assert out.read_bytes() == at_once
        assert (watch.images, watch.finished, len(watch.skipped)) == (N, 3, 1)

    def test_a_worker_that_dies(self, photos: Path, at_once: bytes) -> None:
        with pytest.raises(PiaaError, match=r"ended by itself .*-9"):
            fit(photos, engine=Processes(1, dying))
        assert fit(photos).read_bytes() == at_once

    def test_a_worker_that_fails(self, photos: Path, tmp_path: Path) -> None:
        """Its error is the job's; without a process here, as starting one takes seconds."""
        said: queue.Queue[tuple[str, object]] = queue.Queue()
        before = signal.getsignal(signal.SIGINT)
        _do_units(
            partial(FitWork, recognizer=tmp_path, batch_size=None), failing, 1, queue.Queue(), said
        )
        signal.signal(signal.SIGINT, before)
        with pytest.raises(PiaaError, match="no such encoder"):
            _listen(said, [], 1, Tally(N, 1))

    def test_numbers(self) -> None:
        with pytest.raises(InputError, match="count of processes"):
            Processes(0, ShakyEncoder)


def failing() -> Encoder:
    raise PiaaError("There is no such encoder.")


def dying() -> Encoder:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
