"""Runs jobs, those that share features together, and keeps every result the moment it is there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from piaa import __version__
from piaa.atomic import write_whole
from piaa.baselines import make_method
from piaa.classes.class_list import encode_classes
from piaa.config import Config
from piaa.datasets import Dataset, Split
from piaa.encoders.base import Encoder
from piaa.errors import InputError, PiaaError
from piaa.evaluation.bootstrap import map_interval
from piaa.evaluation.cells import AUTO, REFERENCE, Job
from piaa.evaluation.encoded import Encoded, FeatureSets
from piaa.evaluation.forms import Form, form_scores
from piaa.evaluation.metrics import average_precisions
from piaa.evaluation.record import environment, protocol
from piaa.evaluation.running import measure

Say = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What a job found. Accuracies are in [0, 1]; `per_class` holds those that are known."""

    map: float
    low: float
    high: float
    per_class: dict[str, float]
    learn_minutes: float | None
    test_minutes: float | None


@dataclass
class Outcome:
    """Results of jobs, and of the others the reason why there is none."""

    results: dict[Job, Result] = field(default_factory=dict)
    reasons: dict[Job, str] = field(default_factory=dict)


class ResultBook:
    """Results in a folder, one file a job: a run that was stopped goes on with the next job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, job: Job, dataset: Dataset) -> Result | None:
        """The result of that job on the same images by this version of piaa, if it is there."""
        try:
            content = json.loads(self._path(job).read_bytes())
            if content["key"] != self._key(job, dataset):
                return None
            return Result(**content["result"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self._path(job)} is not a result that piaa wrote ({error!r}). Remove it to run again."
            ) from error

    def write(self, job: Job, dataset: Dataset, encoder: Encoder, result: Result) -> None:
        content = {
            "job": job.name,
            "key": self._key(job, dataset),
            "result": vars(result),
            "protocol": protocol(dataset, encoder),
            "versions": environment(),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(job), json.dumps(content, indent=1).encode())

    def _path(self, job: Job) -> Path:
        digest = hashlib.blake2b(job.name.encode(), digest_size=4).hexdigest()
        return self.folder / f"{job.dataset}-{job.encoder}-{digest}.json"

    @staticmethod
    def _key(job: Job, dataset: Dataset) -> dict[str, Any]:
        return {
            "job": job.name,
            "piaa": __version__,
            "images": [len(dataset.learn), len(dataset.test)],
            "labels": dataset.rule,
            "notes": list(dataset.notes),
        }


def run_jobs(
    jobs: Sequence[Job],
    datasets: Mapping[str, Dataset | str],
    load: Callable[[str, str | None], Encoder],
    sets: FeatureSets,
    book: ResultBook,
    *,
    rounds: int,
    say: Say,
) -> Outcome:
    """Run what has not been run before.

    Args:
        datasets: by name, or the reason why one is not there.
        load: an encoder by its name and front-end; a `PiaaError` says why it cannot be had.
    """
    outcome = Outcome()
    groups: dict[tuple[str, str | None, str], list[Job]] = {}
    for job in dict.fromkeys(jobs):
        dataset = datasets.get(job.dataset, "no data: give its --root")
        if isinstance(dataset, str):
            outcome.reasons[job] = dataset
        elif (known := book.read(job, dataset)) is not None:
            outcome.results[job] = known
        else:
            groups.setdefault((job.encoder, job.frontend, job.dataset), []).append(job)
    encoder: Encoder | None = None
    loaded: tuple[str, str | None] | None = None
    for (name, frontend, dataset_name), members in sorted(groups.items(), key=str):
        dataset = datasets[dataset_name]
        if isinstance(dataset, str):
            continue
        try:
            if loaded != (name, frontend):
                encoder, loaded = None, None  # let the last one's memory go first
                encoder, loaded = load(name, frontend), (name, frontend)
            if encoder is not None:
                _run_group(members, dataset, encoder, sets, book, outcome, rounds=rounds, say=say)
        except PiaaError as error:
            for job in members:
                if job not in outcome.results:
                    outcome.reasons.setdefault(job, " ".join(str(error).split()))
    return outcome


class _Features:
    """A data set's features, encoded when they are first asked for: some methods want none."""

    def __init__(self, dataset: Dataset, encoder: Encoder, sets: FeatureSets, say: Say) -> None:
        self._dataset, self._encoder, self._sets, self._say = dataset, encoder, sets, say

    @cached_property
    def learn(self) -> Encoded:
        return self._get(self._dataset.learn)

    @cached_property
    def test(self) -> Encoded:
        return self._get(self._dataset.test)

    def _get(self, split: Split) -> Encoded:
        found = self._sets.get(self._encoder, split.paths)
        self._say(
            f"{self._dataset.name}: {len(found)} images of {split.name}, {found.fresh} encoded now"
        )
        return found


def _run_group(
    jobs: Sequence[Job],
    dataset: Dataset,
    encoder: Encoder,
    sets: FeatureSets,
    book: ResultBook,
    outcome: Outcome,
    *,
    rounds: int,
    say: Say,
) -> None:
    """Jobs of one data set, encoder and front-end."""

    def keep(job: Job, result: Result) -> None:
        book.write(job, dataset, encoder, result)
        outcome.results[job] = result

    features = _Features(dataset, encoder, sets, say)
    forms = {job.what: job for job in jobs if isinstance(job.what, Form)}
    if forms:
        say(f"{dataset.name}: {len(forms)} forms of the paper")
        start = time.perf_counter()
        scores = form_scores(
            list(forms),
            features.learn,
            features.test,
            encode_classes(encoder, dataset.classes, encoder.prompt_template),
            reference_config(dataset),
        )
        say(f"{dataset.name}: done in {time.perf_counter() - start:.0f} s")
        for form, job in forms.items():
            keep(job, _result(scores[form], dataset, rounds))
    for job in jobs:
        if isinstance(job.what, str):
            say(f"{dataset.name}: {job.what}")
            try:
                keep(job, _run_method(job.what, dataset, encoder, features, rounds))
            except InputError as error:  # of this method, such as an encoder it cannot use
                outcome.reasons[job] = " ".join(str(error).split())


def _run_method(
    what: str, dataset: Dataset, encoder: Encoder, features: _Features, rounds: int
) -> Result:
    options: dict[str, Any] = {}
    if what in (AUTO, REFERENCE):
        config = Config.auto() if what == AUTO else reference_config(dataset)
        what, options = "piaa", {"config": config}
    method = make_method(what, encoder, dataset.classes, **options)
    found = measure(
        method,
        dataset,
        learn=features.learn if method.learns else None,
        test=None if method.needs_pictures else features.test,
        rounds=rounds,
    )
    seconds = found.seconds
    return Result(
        map=found.map.value,
        low=found.map.low,
        high=found.map.high,
        per_class={name: value for name, value in found.per_class.items() if value == value},
        learn_minutes=(seconds["learn_encode"] + seconds["fit"]) / 60,
        test_minutes=(seconds["test_encode"] + seconds["score"]) / 60,
    )


def reference_config(dataset: Dataset) -> Config:
    """The published constants for a data set; VOC's for one that the paper does not know."""
    return Config.reference(dataset.preset or "voc")


def _result(scores: Tensor, dataset: Dataset, rounds: int) -> Result:
    found = map_interval(scores, dataset.labels, rounds=rounds)
    each = average_precisions(scores, dataset.labels).tolist()
    named = zip(dataset.classes, each, strict=True)
    known = {name: value for name, value in named if value == value}
    return Result(found.value, found.low, found.high, known, None, None)
