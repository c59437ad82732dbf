"""Runs that share features, stop, and go on. The data set is colored squares under a benchmark's name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from colored import CountingEncoder

from fake_encoder import CLASSES
from piaa import Recognizer
from piaa.config import Config
from piaa.datasets import Dataset
from piaa.encoders.base import Encoder
from piaa.errors import InputError, WeightsUnavailableError
from piaa.evaluation.cells import AUTO, REFERENCE, Job
from piaa.evaluation.encoded import FeatureSets
from piaa.evaluation.forms import Form
from piaa.evaluation.jobs import Outcome, ResultBook, run_jobs
from piaa.evaluation.metrics import mean_average_precision

SWEEP = [
    Job("voc2007", "ViT-B-16", "sc-clip", what)
    for what in (
        Form("base"),
        Form("piaa"),
        Form("piaa", bank_size=128),
        Form("piaa", bank_size=256),
        Form("piaa", alpha=0.5),
        Form("pvcl"),
        AUTO,
        REFERENCE,
        "cls",
    )
]


class Bench:
    """Everything `run_jobs` wants, with what it was asked for."""

    def __init__(self, dataset: Dataset, sets: FeatureSets, folder: Path) -> None:
        self.datasets: dict[str, Dataset | str] = {
            "voc2007": replace(dataset, name="voc2007", preset="voc"),
            "nuswide": "no data: it is elsewhere",
        }
        self.sets, self.book = sets, ResultBook(folder)
        self.encoder = CountingEncoder()
        self.loaded: list[tuple[str, str | None]] = []

    def load(self, name: str, frontend: str | None) -> Encoder:
        self.loaded.append((name, frontend))
        if name == "EVA02-B-16":
            raise WeightsUnavailableError("EVA02-B-16 is not here.")
        return self.encoder

    def run(self, jobs: list[Job]) -> Outcome:
        return run_jobs(
            jobs, self.datasets, self.load, self.sets, self.book, rounds=5, say=lambda _: None
        )


@pytest.fixture
def bench(dataset: Dataset, sets: FeatureSets, tmp_path: Path) -> Bench:
    return Bench(dataset, sets, tmp_path / "results")


def test_a_sweep_encodes_once(bench: Bench) -> None:
    outcome = bench.run(SWEEP)
    assert set(outcome.results) == set(SWEEP)
    assert bench.loaded == [("ViT-B-16", "sc-clip")]
    probe = 12 + 1
    assert bench.encoder.n_encoded == 24 + probe
    more = [
        Job("voc2007", "ViT-B-16", "sc-clip", Form("piaa", bank_size=512, alpha=a)) for a in (0, 1)
    ]
    bench.run(more)
    assert bench.encoder.n_encoded == 24 + probe


def test_the_published_form_and_the_recognizer_agree(bench: Bench) -> None:
    outcome = bench.run(SWEEP)
    form, method = (outcome.results[job] for job in (SWEEP[1], SWEEP[7]))
    assert form.map == pytest.approx(method.map)
    dataset = bench.datasets["voc2007"]
    assert not isinstance(dataset, str)
    recognizer = Recognizer(CountingEncoder(), CLASSES, config=Config.reference("voc"))
    with pytest.warns(UserWarning, match="evidence"):
        recognizer.fit(dataset.learn.paths)
    scores = recognizer.scorer.evidence(recognizer.encoder.encode_images(dataset.test.paths))
    assert method.map == pytest.approx(mean_average_precision(scores, dataset.labels))
    assert method.learn_minutes is not None
    assert form.learn_minutes is None


def test_finished_jobs_are_not_run_again(bench: Bench) -> None:
    first = bench.run(SWEEP[:2])
    bench.loaded.clear()
    again = bench.run(SWEEP[:2])
    assert again.results == first.results
    assert bench.loaded == [], "not even the encoder is loaded"
    bench.run(SWEEP[:3])
    assert len(bench.loaded) == 1


def test_a_run_that_is_killed_keeps_what_it_had(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ResultBook.write

    def write_two(self: ResultBook, job: Job, *rest: object) -> None:
        if len(list(bench.book.folder.glob("*.json"))) == 2:
            raise KeyboardInterrupt
        write(self, job, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ResultBook, "write", write_two)
    with pytest.raises(KeyboardInterrupt):
        bench.run(SWEEP)
    monkeypatch.undo()
    encoded = bench.encoder.n_encoded
    outcome = bench.run(SWEEP)
    assert set(outcome.results) == set(SWEEP)
    assert bench.encoder.n_encoded == encoded + 13, "only the probe of its speed"


def test_results_of_other_images_do_not_count(bench: Bench) -> None:
    bench.run(SWEEP[:1])
    dataset = bench.datasets["voc2007"]
    assert not isinstance(dataset, str)
    bench.datasets["voc2007"] = dataset.limited(11)
    bench.loaded.clear()
    bench.run(SWEEP[:1])
    assert len(bench.loaded) == 1


def test_what_cannot_be_run_says_why(bench: Bench) -> None:
    without_data = Job("nuswide", "ViT-B-16", "sc-clip", Form("piaa"))
    unknown_data = Job("coco2014", "ViT-B-16", "sc-clip", Form("piaa"))
    without_weights = Job("voc2007", "EVA02-B-16", "clip", Form("piaa"))
    unsuited = Job("voc2007", "ViT-B-16", "sc-clip", "tagclip")
    fine = SWEEP[0]
    outcome = bench.run([without_data, unknown_data, without_weights, unsuited, fine])
    assert set(outcome.results) == {fine}
    assert outcome.reasons[without_data] == "no data: it is elsewhere"
    assert outcome.reasons[unknown_data] == "no data: give its --root"
    assert outcome.reasons[without_weights] == "EVA02-B-16 is not here."
    assert "attention maps" in outcome.reasons[unsuited]


def test_results_hold_their_protocol(bench: Bench) -> None:
    bench.run(SWEEP[:1])
    (path,) = bench.book.folder.glob("*.json")
    content = json.loads(path.read_text())
    assert content["job"] == "voc2007, ViT-B-16, sc-clip, base"
    assert content["protocol"]["classes"] == CLASSES
    path.write_text("{")
    with pytest.raises(InputError, match="Remove it to run again"):
        bench.run(SWEEP[:1])


def test_names_of_jobs_are_different() -> None:
    assert len({job.name for job in SWEEP}) == len(SWEEP)
    assert SWEEP[4].name == "voc2007, ViT-B-16, sc-clip, piaa K=512 alpha=0.5"
