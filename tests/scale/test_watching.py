from __future__ import annotations

import json
import time

import pytest

from piaa.scale.watching import Tally


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_job_with_a_known_size(clock: list[float]) -> None:
    tally = Tally(total=100, units=10)
    assert tally.seconds_left is None
    for _ in range(3):
        tally.finish(10, earlier=True)
    clock[0] += 5
    tally.advance(8)
    tally.skip("a.jpg", "empty")
    tally.skip("b.jpg", "empty")
    tally.finish(8)
    # 38 done, of which this run did 8 in 5 s; 60 are left, and 2 will never come.
    assert (tally.images, tally.earlier, tally.finished) == (38, 30, 4)
    assert tally.rate == pytest.approx(1.6)
    assert tally.seconds_left == pytest.approx(60 / 1.6)


def test_a_job_of_unknown_size(clock: list[float]) -> None:
    tally = Tally(total=None, units=5)
    tally.finish(1000, earlier=True)
    tally.advance(40)
    clock[0] += 20
    assert tally.seconds_left is None
    tally.finish(40)
    assert tally.seconds_left == pytest.approx(60)


def test_stages_add_up(clock: list[float]) -> None:
    tally = Tally(total=10, units=1)
    for seconds in (1.0, 3.0):
        tally.spend("encode", seconds, 10)
    tally.spend("save", 0.0, 0)
    assert tally.stages["encode"].rate == pytest.approx(5)
    assert tally.stages["save"].rate == 0
    told = json.loads(json.dumps(tally.to_dict()))
    assert told["stages"]["encode"] == {"seconds": 4.0, "images_per_second": 5.0}
    assert told["seconds_left"] is None
