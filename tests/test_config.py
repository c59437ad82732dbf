from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from piaa.config import Config
from piaa.errors import InputError

PRESETS = [Config.paper(), Config.auto(), *(Config.reference(d) for d in ("voc", "coco", "nus"))]


@pytest.mark.parametrize("config", PRESETS)
def test_survives_json(config: Config) -> None:
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_presets_hold_the_published_constants() -> None:
    constants = {
        name: (c.purify_scale, c.patch_scale, c.cls_scale, c.text_scale, c.score_divisor, c.alpha)
        for name in ("voc", "coco", "nus")
        for c in [Config.reference(name)]
    }
    assert constants == {
        "voc": (100, 200, 80, 60, 500, 0.9),
        "coco": (0.01, 400, 80, 60, 500, 0.9),
        "nus": (500, 400, 10, 60, 500, 0.9),
    }
    assert Config.auto() == Config()


@pytest.mark.parametrize(
    ("n_patches", "n_classes", "size"),
    [(100, 10, 64), (25_000, 10, 500), (10**7, 10, 1024), (25_599, 10, 511)],
)
def test_auto_sizes_banks_by_the_data(n_patches: int, n_classes: int, size: int) -> None:
    got = Config.auto().effective_bank_size(n_patches=n_patches, n_classes=n_classes)
    assert got == size
    fixed = Config.paper().effective_bank_size(n_patches=n_patches, n_classes=n_classes)
    assert fixed == 512


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bank_size": 0}, "bank_size must be a whole number"),
        ({"bank_size": 2.5}, "bank_size"),
        ({"bank_size": True}, "bank_size"),
        ({"bank_size": 10}, "bank_floor \\(64\\) is above bank_size"),
        ({"bank_fraction": 1.5}, "above 0 and at most 1, got 1.5"),
        ({"text_scale": -1.0}, "text_scale must be a finite number above 0"),
        ({"cls_scale": math.nan}, "cls_scale"),
        ({"patch_scale": "big"}, "patch_scale"),
        ({"shrinkage": 0.0}, "shrinkage"),
        ({"alpha": 1.1}, "at least 0 and at most 1"),
        ({"matched_entropy": 1.0}, "above 0 and below 1"),
        ({"log_prior": 1}, "log_prior"),
        ({"purify": "none!"}, "Unknown purify"),
        ({"bank_means": "median"}, "Unknown bank_means"),
        ({"covariance": "robust"}, "Unknown covariance"),
        ({"bank_means": "probability"}, "needs its scale"),
        ({"purify_scale": 1.0}, "takes none"),
        ({"purify": "regroup"}, "needs a scale"),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(Config.auto(), **changes)


def test_refuses_unknown_names() -> None:
    with pytest.raises(InputError, match="Did you mean 'coco'"):
        Config.reference("COCO")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Unknown config field 'alhpa'.*Did you mean 'alpha'"):
        Config.from_dict({"alhpa": 1})
    with pytest.raises(InputError, match="lacks alpha"):
        Config.from_dict({k: v for k, v in Config.auto().to_dict().items() if k != "alpha"})


def test_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config.auto().alpha = 0.5  # type: ignore[misc]
