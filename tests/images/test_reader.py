from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_samples import photograph

from piaa.errors import ImageError, InputError
from piaa.images import ImageSource, Preprocessing, open_image, preprocess, reader
from piaa.images.reader import PixelBatch, read_batches

SETTINGS = Preprocessing(16)
TIMEOUT = 20  # seconds; only ever waited for when a test fails


def grey(level: int) -> np.ndarray:
    return np.full((20, 30), level % 256, dtype=np.uint8)


def level_of(pixels: torch.Tensor) -> int:
    mean, std = SETTINGS.mean[0], SETTINGS.std[0]
    return round(float(pixels[0, 0, 0] * std + mean) * 255)


def reader_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("piaa-images")]


def assert_threads_end() -> None:
    for thread in reader_threads():
        thread.join(TIMEOUT)
    assert reader_threads() == []


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert_threads_end()


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 4, 10, 64])
def test_order_and_sizes(batch_size: int, workers: int) -> None:
    batches = list(
        read_batches(map(grey, range(23)), SETTINGS, batch_size=batch_size, workers=workers)
    )
    sizes = [batch_size] * (23 // batch_size) + [23 % batch_size] * (23 % batch_size > 0)
    assert [len(batch) for batch in batches] == sizes
    assert [index for batch in batches for index in batch.indices] == list(range(23))
    assert [level_of(row) for batch in batches for row in batch.pixels] == list(range(23))


def test_order_is_kept_when_the_first_is_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    others_are_done = threading.Event()
    done = itertools.count(1)

    def slow_first(source: Any, **options: Any) -> Any:
        if source[0, 0] == 0:
            assert others_are_done.wait(TIMEOUT)
        elif next(done) == 4:
            others_are_done.set()
        return open_image(source, **options)

    monkeypatch.setattr(reader, "open_image", slow_first)
    (batch,) = read_batches(map(grey, range(5)), SETTINGS, batch_size=5, workers=2)
    assert batch.indices == (0, 1, 2, 3, 4)
    assert [level_of(row) for row in batch.pixels] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("fit", ["crop", "pad"])
def test_equals_one_by_one(tmp_path: Path, fit: Any) -> None:
    settings = Preprocessing((32, 48), fit=fit)
    sources: list[ImageSource] = [photograph(40, 90), np.asarray(photograph(70, 20, seed=1))]
    photograph(64, 64, seed=2).save(tmp_path / "a.png")
    sources += [tmp_path / "a.png", str(tmp_path / "a.png")]
    (batch,) = read_batches(sources, settings, batch_size=8)
    assert batch.pixels.shape == (4, 3, 32, 48)
    assert batch.pixels.dtype == torch.float32
    for source, pixels, placement in zip(sources, batch.pixels, batch.placements, strict=True):
        expected, expected_placement = preprocess(open_image(source), settings)
        assert torch.equal(pixels, expected)
        assert placement == expected_placement


def test_no_sources_give_no_batches() -> None:
    assert list(read_batches([], SETTINGS, batch_size=4)) == []


def test_a_stack_of_pictures_is_an_iterable_of_them() -> None:
    stack = np.zeros((3, 20, 30, 3), dtype=np.uint8)
    (batch,) = read_batches(stack, SETTINGS, batch_size=4)
    assert len(batch) == 3


class TestLookAhead:
    def test_decoding_overlaps_the_consumer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two more batches get decoded while the consumer sits on the first."""
        decoded = threading.Semaphore(0)

        def count(source: Any, **options: Any) -> Any:
            image = open_image(source, **options)
            decoded.release()
            return image

        monkeypatch.setattr(reader, "open_image", count)
        batches = read_batches(map(grey, range(100)), SETTINGS, batch_size=4, workers=2)
        next(batches)
        for _ in range(12):  # four delivered, eight ahead
            assert decoded.acquire(timeout=TIMEOUT), "nothing is decoded ahead"
        batches.close()  # type: ignore[attr-defined]

    def test_batches_are_put_together_ahead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The consumer waits for none but the first: the second is there before it is asked for."""
        stacked = threading.Semaphore(0)
        stack = torch.stack

        def count(pictures: Any) -> torch.Tensor:
            assert threading.current_thread() in reader_threads()
            result = stack(pictures)
            stacked.release()
            return result

        monkeypatch.setattr(torch, "stack", count)
        batches = read_batches(map(grey, range(100)), SETTINGS, batch_size=4, workers=2)
        next(batches)
        for _ in range(2):
            assert stacked.acquire(timeout=TIMEOUT), "the next batch is not put together"
        batches.close()  # type: ignore[attr-defined]

    def test_workers_decode_at_the_same_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        together = threading.Barrier(3)

        def meet(source: Any, **options: Any) -> Any:
            together.wait(TIMEOUT)
            return open_image(source, **options)

        monkeypatch.setattr(reader, "open_image", meet)
        batches = list(read_batches(map(grey, range(6)), SETTINGS, batch_size=6, workers=3))
        assert len(batches) == 1

    def test_endless_sources_are_read_within_bounds(self) -> None:
        taken = 0

        def endless() -> Iterator[np.ndarray]:
            nonlocal taken
            for level in itertools.count():
                taken += 1
                yield grey(level)

        batches = read_batches(endless(), SETTINGS, batch_size=4, workers=2)
        assert taken == 0
        for delivered in range(4, 44, 4):
            next(batches)
            assert taken <= delivered + 2 * 4 + 2
        batches.close()  # type: ignore[attr-defined]

    def test_sources_are_read_in_the_callers_thread(self) -> None:
        threads: set[threading.Thread] = set()

        def sources() -> Iterator[np.ndarray]:
            for level in range(30):
                threads.add(threading.current_thread())
                yield grey(level)

        list(read_batches(sources(), SETTINGS, batch_size=4, workers=2))
        assert threads == {threading.current_thread()}


class TestStopping:
    def test_closing_early_ends_the_threads_and_skips_the_rest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = itertools.count()
        closing = threading.Event()

        def wait_after_seven(source: Any, **options: Any) -> Any:
            if next(opened) >= 7:
                closing.wait(TIMEOUT)
            return open_image(source, **options)

        monkeypatch.setattr(reader, "open_image", wait_after_seven)
        batches = read_batches(map(grey, range(1000)), SETTINGS, batch_size=3, workers=1)
        next(batches)
        assert reader_threads() != []
        batches.close()  # type: ignore[attr-defined]
        assert reader_threads() != [], "whoever closes it does not wait for a picture"
        closing.set()
        assert_threads_end()
        assert next(opened) <= 9, "pictures nobody waits for were still decoded"

    def test_dropping_the_iterator_ends_the_threads(self) -> None:
        batches = read_batches(map(grey, itertools.count()), SETTINGS, batch_size=3, workers=2)
        next(batches)
        del batches
        assert_threads_end()

    def test_never_started_has_no_threads(self) -> None:
        read_batches(map(grey, itertools.count()), SETTINGS, batch_size=3, workers=2)
        assert reader_threads() == []

    def test_consumer_that_raises(self) -> None:
        def consume() -> None:
            for _ in read_batches(map(grey, itertools.count()), SETTINGS, batch_size=3):
                raise KeyError("the consumer's own")

        with pytest.raises(KeyError):
            consume()

    def test_sources_that_raise(self) -> None:
        def failing() -> Iterator[np.ndarray]:
            yield from map(grey, range(50))
            raise OSError("the disk is gone")

        batches = read_batches(failing(), SETTINGS, batch_size=4, workers=2)
        delivered: list[PixelBatch] = []
        with pytest.raises(OSError, match="the disk is gone"):
            delivered.extend(batches)
        assert sum(map(len, delivered)) >= 50 - (4 + 2) - 4, "what was read before is handed out"


class TestErrors:
    @pytest.fixture
    def mixed(self, tmp_path: Path) -> list[ImageSource]:
        """Ten sources; 0, 4 and 9 are bad."""
        sources: list[ImageSource] = [grey(level) for level in range(10)]
        (tmp_path / "text.jpg").write_text("no picture")
        (tmp_path / "empty.jpg").touch()
        sources[0] = tmp_path / "text.jpg"
        sources[4] = tmp_path / "missing.jpg"
        sources[9] = str(tmp_path / "empty.jpg")
        return sources

    def test_first_bad_file_raises(self, mixed: list[ImageSource]) -> None:
        with pytest.raises(ImageError, match=r"text\.jpg"):
            list(read_batches(mixed, SETTINGS, batch_size=4))
        batches = read_batches(mixed[1:], SETTINGS, batch_size=3)
        assert next(batches).indices == (0, 1, 2)
        with pytest.raises(ImageError, match=r"missing\.jpg"):
            next(batches)

    def test_bad_files_are_reported_and_batches_stay_full(self, mixed: list[ImageSource]) -> None:
        reported: list[tuple[int, ImageSource, str]] = []
        threads: set[threading.Thread] = set()

        def report(index: int, source: ImageSource, error: ImageError) -> None:
            reported.append((index, source, str(error)))
            threads.add(threading.current_thread())

        batches = list(read_batches(mixed, SETTINGS, batch_size=3, on_error=report))
        assert [batch.indices for batch in batches] == [(1, 2, 3), (5, 6, 7), (8,)]
        for batch in batches:
            assert [level_of(row) for row in batch.pixels] == list(batch.indices)
        assert [(index, source) for index, source, _ in reported] == [
            (0, mixed[0]),
            (4, mixed[4]),
            (9, mixed[9]),
        ]
        for (_, _, message), name in zip(reported, ("text", "missing", "empty"), strict=True):
            assert f"{name}.jpg" in message
        assert threads == {threading.current_thread()}

    def test_only_bad_files(self, tmp_path: Path) -> None:
        reported: list[int] = []
        sources = [tmp_path / f"{i}.jpg" for i in range(20)]
        batches = read_batches(
            sources, SETTINGS, batch_size=3, on_error=lambda index, *_: reported.append(index)
        )
        assert list(batches) == []
        assert reported == list(range(20))

    def test_on_error_may_stop_the_reading(self, mixed: list[ImageSource]) -> None:
        def stop(index: int, source: ImageSource, error: ImageError) -> None:
            raise StopAsyncIteration(index)

        with pytest.raises(StopAsyncIteration):
            list(read_batches(mixed, SETTINGS, batch_size=3, on_error=stop))

    def test_unexpected_error_names_the_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(source: Any, **options: Any) -> Any:
            raise RuntimeError("a bug")

        monkeypatch.setattr(reader, "open_image", broken)
        with pytest.raises(RuntimeError, match="a bug") as caught:
            list(
                read_batches([tmp_path / "a.jpg"], SETTINGS, batch_size=1, on_error=lambda *_: None)
            )
        assert "picture 0" in caught.value.__notes__[0]
        assert "a.jpg" in caught.value.__notes__[0]

    def test_limit_is_passed_on(self) -> None:
        with pytest.raises(ImageError, match="limit of 599"):
            list(read_batches([grey(0)], SETTINGS, batch_size=1, max_pixels=599))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 0}, "batch_size.*0"),
            ({"batch_size": 2.0}, "batch_size"),
            ({"batch_size": 1, "workers": 0}, "workers"),
            ({"batch_size": 1, "workers": True}, "workers"),
            ({"batch_size": 1, "max_pixels": -5}, "max_pixels"),
        ],
    )
    def test_wrong_options_are_refused_at_the_call(
        self, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            read_batches([grey(0)], SETTINGS, **options)

    @pytest.mark.parametrize("sources", ["a.jpg", Path("a.jpg"), photograph(4, 4), grey(0), 3])
    def test_one_picture_is_no_list(self, sources: Any) -> None:
        with pytest.raises(InputError, match="sources must be"):
            read_batches(sources, SETTINGS, batch_size=1)


def test_pinned_where_a_gpu_copies_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU to pin for here: the call is what is looked at."""
    pinned: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda self: pinned.append(tuple(self.shape)) or self
    )
    pictures = [np.zeros((20, 30, 3), np.uint8)] * 3
    view = Preprocessing((8, 8), mean=(0.5,) * 3, std=(0.5,) * 3, fit="squash")
    assert len(list(read_batches(pictures, view, batch_size=2))) == 2
    assert not pinned
    assert len(list(read_batches(pictures, view, batch_size=2, pin=True))) == 2
    assert sorted(pinned) == [(1, 3, 8, 8), (2, 3, 8, 8)]
