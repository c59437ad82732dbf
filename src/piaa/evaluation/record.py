"""Everything that a number depends on, as plain values to be written beside it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

from piaa import __version__
from piaa.classes.class_list import ClassList
from piaa.datasets import Dataset
from piaa.encoders.base import Encoder

METRIC = (
    "average precision of each class over the test images, non-interpolated, equal scores grouped; mAP is "
    "the plain mean over classes with a positive image"
)


def protocol(dataset: Dataset, encoder: Encoder, *, template: str | None = None) -> dict[str, Any]:
    """How images were split, labelled, asked for and measured."""
    used = encoder.prompt_template if template is None else template
    return {
        "dataset": dataset.name,
        "learn": {"split": dataset.learn.name, "images": len(dataset.learn), "labels": "not read"},
        "test": {"split": dataset.test.name, "images": len(dataset.test)},
        "labels": dataset.rule,
        "notes": list(dataset.notes),
        "metric": METRIC,
        "classes": list(dataset.classes),
        "template": used,
        "prompts": [prompt for (prompt, *_) in ClassList.of(dataset.classes).prompts(used)],
        "encoder": encoder.spec.to_dict(),
        "weights": {"source": encoder.source, "sha256": encoder.spec.weights_sha256},
    }


def environment() -> dict[str, Any]:
    """Versions and machine."""
    packages = ("torch", "numpy", "pillow", "onnxruntime", "safetensors", "tokenizers")
    return {
        "piaa": __version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def command_line() -> list[str]:
    """The command that is running, as it can be run again."""
    return ["piaa", *sys.argv[1:]]
