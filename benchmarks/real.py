"""Everything that can be measured on real photographs with the embedded encoder, as docs/results.md.

    make bench-real ROOT=DEVKIT
    python benchmarks/real.py --root DEVKIT [--encoder lite] [--limit N] [--out docs]

Ablation, K and alpha sweeps, rivals, thresholds, learning curve, sizes of objects. Features are kept in
piaa's cache (PIAA_CACHE): a run that was stopped goes on with the first image that is not encoded, and a
second run encodes nothing.
"""

from __future__ import annotations

import argparse
import html
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import piaa
from ablation import AUTO, ablate, encode, fit
from piaa.baselines import list_methods, make_method
from piaa.classes.class_list import encode_classes
from piaa.config import Config
from piaa.datasets import Dataset, open_dataset
from piaa.errors import InputError
from piaa.evaluation.bootstrap import map_interval, paired_interval
from piaa.evaluation.cells import ALPHAS, BANK_SIZES
from piaa.evaluation.curves import Curve, learning_curve
from piaa.evaluation.encoded import Encoded, FeatureSets
from piaa.evaluation.forms import Form, form_scores
from piaa.evaluation.metrics import F1, f1_scores, mean_average_precision
from piaa.evaluation.plots import plot_curve, plot_sweep
from piaa.evaluation.record import environment
from piaa.evaluation.running import Measured, measure
from piaa.thresholds import best_thresholds

from machine import describe

PRESETS = ("voc", "coco", "nus")
CALIBRATION_IMAGES = 200


@dataclass(frozen=True)
class Bench:
    dataset: Dataset
    encoder: piaa.Encoder
    learn: Encoded
    test: Encoded
    text: Tensor
    rounds: int

    def percent(self, scores: Tensor) -> float:
        return 100 * mean_average_precision(scores, self.dataset.labels)


def ablation_section(bench: Bench) -> list[str]:
    rows, labels = ablate(bench.learn, bench.test, bench.text), bench.dataset.labels
    lines = ["| | mAP | 95 % | auto minus it, 95 % |", "|---|---|---|---|"]
    for name, scores in rows.items():
        own = map_interval(scores, labels, rounds=bench.rounds)
        versus = ""
        if name != AUTO:
            gap = paired_interval(rows[AUTO], scores, labels, rounds=bench.rounds)
            versus = f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
        shown = f"**{name}**" if name == AUTO else name
        span = f"{100 * own.low:.1f} to {100 * own.high:.1f}"
        lines.append(f"| {shown} | {100 * own.value:.1f} | {span} | {versus} |")
    return lines


def bank_section(bench: Bench, images: Path) -> list[str]:
    forms = [Form("piaa", bank_size=k) for k in BANK_SIZES]
    scores = form_scores(forms, bench.learn, bench.test, bench.text, Config.reference("voc"))
    series: dict[str, dict[float, float]] = {
        "published constants, voc": {f.bank_size: bench.percent(scores[f]) for f in forms},
        "auto, with K fixed": {},
    }
    for size in BANK_SIZES:
        config = replace(Config.auto(), bank_fraction=None, bank_size=size)
        scorer = fit(bench.learn, bench.text, config)
        found = torch.cat([scorer.evidence(part) for part in bench.test])
        series["auto, with K fixed"][size] = bench.percent(found)
    plot_sweep(series, images / "bank-size.svg", x_label="bank size K")
    return [*sweep_table("K", series), "", "![mAP against K](images/bank-size.svg)"]


def alpha_section(bench: Bench, images: Path) -> list[str]:
    forms = [Form("piaa", alpha=alpha) for alpha in ALPHAS]
    series: dict[str, dict[float, float]] = {}
    for preset in PRESETS:
        config = Config.reference(preset)  # type: ignore[arg-type]
        scores = form_scores(forms, bench.learn, bench.test, bench.text, config)
        named = {form.alpha: bench.percent(scores[form]) for form in forms}
        series[f"published constants, {preset}"] = named
    scorer = fit(bench.learn, bench.text, Config.auto())
    auto = bench.percent(torch.cat([scorer.evidence(part) for part in bench.test]))
    levels = {"auto, which has no alpha": auto}
    plot_sweep(series, images / "alpha.svg", x_label="alpha, weight of the patches", levels=levels)
    return [
        *sweep_table("alpha", series),
        "",
        f"auto, which weighs the branches itself: {auto:.1f}.",
        "",
        "![mAP against alpha](images/alpha.svg)",
    ]


def sweep_table(name: str, series: Mapping[str, Mapping[float, float]]) -> list[str]:
    places = sorted({place for points in series.values() for place in points})
    return [
        f"| {name} | " + " | ".join(f"{place:g}" for place in places) + " |",
        "|---|" + "---|" * len(places),
        *(
            f"| {line} | " + " | ".join(f"{points[place]:.1f}" for place in places) + " |"
            for line, points in series.items()
        ),
    ]


def measure_all(bench: Bench) -> tuple[list[Measured], list[str]]:
    """All methods that the encoder can serve, and why the others cannot be run."""
    measured, refused = [], []
    for name in ("piaa", *(n for n in list_methods() if n != "piaa")):
        try:
            method = make_method(name, bench.encoder, bench.dataset.classes)
        except InputError as error:
            refused.append(f"`{name}` was not run: {html.escape(str(error), quote=False)}")
            continue
        found = measure(
            method, bench.dataset, learn=bench.learn, test=bench.test, rounds=bench.rounds
        )
        measured.append(found)
    return measured, refused


def rivals_section(bench: Bench, measured: list[Measured], refused: list[str]) -> list[str]:
    lines = [
        "| method | mAP | 95 % | piaa minus it, 95 % | passes | ms an image, encoded | small | large |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        versus = ""
        if one is not measured[0]:
            gap = paired_interval(
                measured[0].scores, one.scores, bench.dataset.labels, rounds=bench.rounds
            )
            versus = f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
        sizes = one.by_size or {}
        lines.append(
            f"| {one.label} | {100 * one.map.value:.1f} | {100 * one.map.low:.1f} to "
            f"{100 * one.map.high:.1f} | {versus} | {one.forward_passes} | "
            f"{1000 / one.images_per_second:.0f} | {100 * sizes['small']:.1f} | {100 * sizes['large']:.1f} |"
        )
    return [*lines, "", *refused]


def thresholds_section(bench: Bench, ours: Measured) -> list[str]:
    """Cuts without labels against those that labels would give, on the same scores."""
    scores, labels = ours.scores, bench.dataset.labels
    truth = torch.from_numpy(labels == 1)
    if ours.f1 is None:
        raise SystemExit("piaa has stored no thresholds.")
    levels = np.quantile(scores.numpy(), np.linspace(0.5, 0.999, 200))
    single = max((f1_scores(scores.numpy() >= x, labels) for x in levels), key=lambda f: f.of1)
    each = best_thresholds(scores, truth).nan_to_num(torch.inf)
    order = np.random.default_rng(0).permutation(len(labels))
    few_images = min(CALIBRATION_IMAGES, len(labels) // 2)
    some, rest = order[:few_images], order[few_images:]
    few = best_thresholds(scores[some], truth[some]).nan_to_num(torch.inf)
    rows: dict[str, F1] = {
        "stored thresholds, no labels": ours.f1,
        "one threshold for all classes, best in hindsight": single,
        "a threshold a class, best in hindsight": f1_scores((scores >= each).numpy(), labels),
        f"calibrated on {len(some)} labelled images, measured on the others": f1_scores(
            (scores[rest] >= few).numpy(), labels[rest]
        ),
    }
    lines = ["| | OF1 | CF1 | macro F1 | tags an image |", "|---|---|---|---|---|"]
    for name, f1 in rows.items():
        numbers = f"{100 * f1.of1:.1f} | {100 * f1.cf1:.1f} | {100 * f1.macro:.1f} | {f1.tags:.2f}"
        lines.append(f"| {name} | {numbers} |")
    true = float((labels == 1).sum() / len(labels))
    return [*lines, "", f"The images have {true:.2f} labels each."]


def curve_section(bench: Bench, images: Path, seeds: int) -> list[str]:
    curve: Curve = learning_curve(
        lambda: make_method("piaa", bench.encoder, bench.dataset.classes),
        bench.dataset,
        bench.learn,
        bench.test,
        seeds=seeds,
    )
    plot_curve(curve, images / "learning-curve.svg")
    return [
        f"Zero-shot: {100 * curve.zero_shot:.1f}. Means over {seeds} random subsets of each size.",
        "",
        "| images | mAP | standard deviation | least | greatest |",
        "|---|---|---|---|---|",
        *(
            f"| {row['images']} | {100 * row['mean']:.1f} | {100 * row['sd']:.1f} | "
            f"{100 * row['min']:.1f} | {100 * row['max']:.1f} |"
            for row in curve.rows()
        ),
        "",
        "![mAP against the number of images](images/learning-curve.svg)",
    ]


def header(bench: Bench) -> list[str]:
    dataset, spec = bench.dataset, bench.encoder.spec
    packages = ("piaa", "numpy", "pillow", "onnxruntime")
    versions = ", ".join(f"{name} {environment()[name]}" for name in packages)
    return [
        "# Results on real photographs",
        "",
        f"**With the embedded encoder `{spec.name}`, which is not CLIP: these are not the paper's numbers**, "
        "and not to be compared with them. To measure the paper's encoders, see [reproduce](reproduce.md).",
        "",
        f"- Data: {dataset.name}, {len(dataset.learn)} images of `{dataset.learn.name}` to learn from "
        f"without labels, {len(dataset.test)} of `{dataset.test.name}` to test on "
        f"({'; '.join(dataset.notes)}); {dataset.rule}.",
        f"- Prompt: `{bench.encoder.prompt_template}`. Weights: sha256 `{spec.weights_sha256[:16]}...`.",
        "- mAP in percent: mean over classes of the non-interpolated average precision. 95 % intervals are "
        f"bootstrap percentiles over images ({bench.rounds} rounds); differences are paired, image by image.",
        "- `auto` was developed on these photographs, so its lead over the published constants is not a "
        "clean test; nothing else here was fitted to them.",
        "- small and large: mAP on objects below 5 % and from 20 % of the picture's area, against all images "
        "without the class.",
        f"- {versions}, {describe()}.",
        "",
        "Made by `make bench-real ROOT=...`, which writes this page.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--encoder", default="lite")
    parser.add_argument("--limit", type=int, help="so many images of each split only")
    parser.add_argument("--rounds", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--seeds", type=int, default=3, help="subsets of each size")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs")
    options = parser.parse_args()

    start = time.perf_counter()
    encoder = piaa.load_encoder(options.encoder)
    dataset = open_dataset("voc2007", options.root, partial=True).limited(options.limit)
    sets = FeatureSets()
    learn, test = (encode(encoder, s.paths, sets) for s in (dataset.learn, dataset.test))
    print(f"{test.measure_speed():.1f} images/s", flush=True)
    text = encode_classes(encoder, dataset.classes, encoder.prompt_template)
    bench = Bench(dataset, encoder, learn, test, text, options.rounds)
    images = options.out / "images"
    measured, refused = measure_all(bench)
    sections = {
        "Ablation": lambda: ablation_section(bench),
        "Bank size": lambda: bank_section(bench, images),
        "Alpha": lambda: alpha_section(bench, images),
        "Rivals": lambda: rivals_section(bench, measured, refused),
        "Thresholds": lambda: thresholds_section(bench, measured[0]),
        "How few images are enough": lambda: curve_section(bench, images, options.seeds),
    }
    page = header(bench)
    for title, write in sections.items():
        page += [f"## {title}", "", *write(), ""]
        print(f"{title}: {time.perf_counter() - start:.0f} s", flush=True)
    target = options.out / "results.md"
    target.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")
    print(f"Written to {target}.")


if __name__ == "__main__":
    main()
