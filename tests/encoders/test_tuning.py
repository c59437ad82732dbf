"""What a probe finds, and that it is found again; times are those of a clock that the tests turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from piaa.cli import app
from piaa.encoders import tuning
from piaa.encoders.clip import CPU_BATCH, ClipEncoder
from piaa.encoders.tuning import Tuning


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))


def test_probe_measures_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(tuning.time, "perf_counter", lambda: now[0])
    before = torch.get_num_threads()

    def make() -> Callable[[Tensor], object]:
        threads = torch.get_num_threads()

        def encode(pixels: Tensor) -> None:
            assert pixels.shape[1:] == (3, 8, 16)
            now[0] += (1 + len(pixels)) / threads

        return encode

    found = tuning.probe(make, (8, 16), threads=[1, 2], batches=[4, 8])
    assert found == [
        Tuning(1, 4, 0.8),
        Tuning(1, 8, 8 / 9),
        Tuning(2, 4, 1.6),
        Tuning(2, 8, 16 / 9),
    ]
    assert torch.get_num_threads() == before


def test_the_smallest_that_is_nearly_best() -> None:
    rates = {(1, 8): 50.0, (2, 4): 80.0, (2, 8): 98.0, (2, 16): 100.0, (4, 8): 100.5}
    found = [Tuning(*pair, rate) for pair, rate in rates.items()]
    assert tuning.choose(found) == Tuning(2, 8, 98.0)


@pytest.mark.parametrize(
    ("text", "cores"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("?", None), (None, None)]
)
def test_quota_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, cores: float | None
) -> None:
    monkeypatch.setattr(tuning, "_CGROUP", tmp_path / "cpu.max")
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    assert tuning._quota() == cores
    if cores is not None:
        assert max(tuning.possible_threads()) <= 2


def test_kept_for_the_encoder_and_the_machine(
    load: Callable[..., ClipEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("clip", frontend="clip")
    assert first.default_batch_size == CPU_BATCH
    assert tuning.kept(first.spec) is tuning.kept(None) is None
    tuning.keep(first.spec, Tuning(1, 4, 9.5))
    assert tuning.kept(first.spec) == Tuning(1, 4, 9.5)
    assert load("clip", frontend="clip").default_batch_size == 4
    assert load("clip", frontend="naclip").default_batch_size == CPU_BATCH
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    tuning.use_kept_threads()
    monkeypatch.delenv("OMP_NUM_THREADS")
    tuning.use_kept_threads()
    assert threads == [1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"threads": 0, "batch_size": 4}', "\xff"])
def test_a_damaged_note_is_none(load: Callable[..., ClipEncoder], text: str) -> None:
    spec = load("clip", frontend="clip").spec
    tuning.keep(spec, Tuning(1, 4, 9.5))
    tuning._path(spec).write_text(text)
    assert tuning.kept(spec) is None


def test_command(clip_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "BATCHES", (1, 2))
    monkeypatch.setattr(tuning, "possible_threads", lambda: [1])
    arguments = ["tune", "--weights", str(clip_file), "--frontend", "clip"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert [each["batch_size"] for each in content["tried"]] == [1, 2]
    assert content["best"] in content["tried"]
    kept = tuning.kept(None)
    assert kept is not None
    assert vars(kept) == content["best"]
    shown = CliRunner().invoke(app, [*arguments, "--no-keep"])
    assert "best" in shown.stdout
