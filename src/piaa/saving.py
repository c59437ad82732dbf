"""A recognizer to a file and back: what is written, and what is checked on the way in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.auto.beyond import Beyond
from piaa.auto.company import Company
from piaa.auto.named_groups import NamedGroups
from piaa.auto.weighting import BranchWeights
from piaa.classes.class_list import ClassList
from piaa.config import Config
from piaa.encoders.base import Encoder
from piaa.encoders.reloading import reload_encoder
from piaa.errors import ArtifactError, InputError, PiaaError
from piaa.fitting.fit_report import FitReport
from piaa.fitting.fitted import Retained
from piaa.fitting.learning import Learning
from piaa.pvcl import Classifier
from piaa.scoring import Scales, Scorer

if TYPE_CHECKING:
    from piaa.recognizer import Recognizer

# Ids of images are hashes of 64 bits; the rest of a place is small.
_BANK = {"bank.label": torch.int32, "bank.image": torch.int64, "bank.cell": torch.int32}
_BROKEN = (InputError, KeyError, TypeError, ValueError, AttributeError, OverflowError)
# No fit comes near it, and the product of two such numbers is still a float32.
_LARGEST = 1e18
_ROUNDED = 1e-4  # what a sum of shares may be above 1


def save_recognizer(recognizer: Recognizer, path: str | os.PathLike[str]) -> None:
    save_artifact(path, as_artifact(recognizer))


def as_artifact(recognizer: Recognizer) -> Artifact:
    """All that is saved of a recognizer."""
    scorer = recognizer.scorer
    tensors: dict[str, Tensor] = {"text": scorer.text, "thresholds": scorer.thresholds}
    tensors |= {f"weights.{name}": value for name, value in vars(scorer.weights).items()}
    if recognizer.is_fitted and scorer.classifier is not None:
        tensors |= {f"classifier.{name}": value for name, value in vars(scorer.classifier).items()}
        places = vars(recognizer._learning.retained)
        tensors |= {name: places[name.removeprefix("bank.")].to(d) for name, d in _BANK.items()}
    optional = {
        "groups": scorer.groups,
        "whole": scorer.whole,
        "beyond": scorer.beyond,
        "company": scorer.company,
    }
    for prefix, part in optional.items():
        if part is not None:
            tensors |= {f"{prefix}.{name}": value for name, value in vars(part).items()}
    header: dict[str, Any] = {
        "classes": recognizer.classes.to_dict(),
        "others": list(recognizer.others),
        "template": recognizer.template,
        "prompts": recognizer.classes.prompts(recognizer.template),
        "encoder": recognizer.encoder.spec.to_dict(),
        "source": recognizer.encoder.source,
        "config": recognizer.config.to_dict(),
        "scales": vars(scorer.scales),
        "slope": scorer.slope,
        "report": recognizer.report.to_dict() if recognizer.is_fitted else None,
    }
    return Artifact(tensors, header)


def load_recognizer(path: str | os.PathLike[str], encoder: Encoder | None) -> Recognizer:
    artifact = load_artifact(path)
    try:
        spec, source = dict(artifact.header["encoder"]), str(artifact.header["source"])
    except _BROKEN as error:
        raise _not_whole(path, error) from error
    if encoder is None:
        encoder = _reload(path, spec, source)
    if seen := encoder.spec.differences(spec):
        raise ArtifactError(
            f"{path} belongs to another encoder than the one here. {seen}. Load that encoder, or fit "
            "again with this one."
        )
    try:
        return _restore(artifact, encoder)
    except _BROKEN as error:
        raise _not_whole(path, error) from error


def _not_whole(path: object, error: Exception) -> ArtifactError:
    reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
    return ArtifactError(f"{path} is not a whole saved recognizer: {reason.rstrip('.')}.")


def _reload(path: object, spec: Mapping[str, Any], source: str) -> Encoder:
    try:
        return reload_encoder(spec, source)
    except (PiaaError, *_BROKEN) as error:
        raise ArtifactError(
            f"The encoder of {path}, {spec.get('name')!r} from {source}, cannot be loaded: {error} "
            "If you have it, load it yourself and give it: Recognizer.load(path, encoder)."
        ) from error


def _restore(artifact: Artifact, encoder: Encoder) -> Recognizer:
    from piaa.recognizer import Recognizer

    header, tensors = artifact.header, artifact.tensors
    classes = ClassList.from_dict(header["classes"])
    others = tuple(header["others"])
    if not all(isinstance(name, str) for name in others):
        raise InputError("its other names are no list of names")
    report = None if header["report"] is None else FitReport.from_dict(header["report"])
    # A fit may have left them out.
    n_others = len(tensors["text"]) - len(classes)
    if n_others not in (0, len(others)):
        raise InputError(
            f"text has {len(tensors['text'])} rows for {len(classes)} classes and {len(others)} other names"
        )
    _check_tensors(tensors, len(classes), n_others, encoder.spec.dim, fitted=report is not None)
    if report is not None and tuple(row.name for row in report.classes) != classes.names:
        raise InputError("its report is of other classes")
    config, template = Config.from_dict(header["config"]), header["template"]
    classes.prompts(template)  # refuses what is no template
    recognizer = Recognizer.__new__(Recognizer)
    text = tensors["text"].to(encoder.device)
    recognizer._begin(encoder, classes, config, template, text, others[:n_others])
    classifier = retained = None
    if report is not None:
        classifier = Classifier(**_group(tensors, "classifier", encoder.device))
        places = {name: place.long() for name, place in _group(tensors, "bank").items()}
        retained = Retained(**places)
    groups, whole = (_group(tensors, prefix, encoder.device) for prefix in ("groups", "whole"))
    beyond, company = (_group(tensors, prefix) for prefix in ("beyond", "company"))
    scorer = Scorer(
        text=recognizer.prototypes,
        config=recognizer.config,
        classifier=classifier,
        scales=Scales(**{name: _positive(name, v) for name, v in header["scales"].items()}),
        weights=BranchWeights(**_group(tensors, "weights")),
        thresholds=tensors["thresholds"],
        slope=_positive("slope", header["slope"]),
        groups=NamedGroups(**groups) if groups else None,
        whole=Classifier(**whole) if whole else None,
        beyond=Beyond(**beyond) if beyond else None,
        company=Company(**company) if company else None,
        n_others=n_others,
    )
    recognizer._learning = Learning(classes, scorer, report=report, retained=retained)
    return recognizer


def _group(
    tensors: Mapping[str, Tensor], prefix: str, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor.to(device)
        for name, tensor in tensors.items()
        if name.startswith(f"{prefix}.")
    }


def _positive(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise InputError(f"{name} must be a positive number up to {_LARGEST:g}, not {value!r}")
    return float(value)


def _check_tensors(
    tensors: Mapping[str, Tensor], n_classes: int, n_others: int, d: int, *, fitted: bool
) -> None:
    """Names, dtypes and shapes must be those of that many names and d dimensions, numbers finite."""
    c = n_classes + n_others
    expected: dict[str, tuple[int, ...]] = {"text": (c, d), "thresholds": (n_classes,)}
    branches = ("text", "learned", "cls", "whole", "evidence", "presence")
    expected |= {f"weights.{name}": (c,) for name in branches}
    if fitted:
        n_members = tensors["bank.label"].numel()
        expected |= {"classifier.weight": (d, c), "classifier.bias": (c,)}
        expected |= dict.fromkeys(_BANK, (n_members,))
        if any(name.startswith("groups.") for name in tensors):
            n_groups = tensors["groups.bias"].numel()
            expected |= {"groups.weight": (d, n_groups), "groups.bias": (n_groups,)}
            expected |= {"groups.parts": (n_groups, c)}
        if any(name.startswith("whole.") for name in tensors):
            expected |= {"whole.weight": (d, c), "whole.bias": (c,)}
        if c > 1 and any(name.startswith("beyond.") for name in tensors):
            expected |= dict.fromkeys(("beyond.level", "beyond.width", "beyond.floor"), (c,))
        if c > 1 and any(name.startswith("company.") for name in tensors):
            expected |= {"company.level": (c,), "company.steepness": (), "company.cost": (c,)}
    if names := sorted(expected.keys() ^ tensors.keys()):
        raise InputError(f"tensors are missing or too many: {', '.join(names)}")
    for name, shape in expected.items():
        tensor = tensors[name]
        dtype = _BANK.get(name, torch.float32)
        if tensor.shape != shape or tensor.dtype != dtype:
            raise InputError(
                f"{name} is {tensor.dtype} {tuple(tensor.shape)} in place of {dtype} {shape}"
            )
        if not tensor.isfinite().all() or (
            dtype.is_floating_point and tensor.abs().gt(_LARGEST).any()
        ):
            raise InputError(f"{name} holds numbers that are not finite, or above {_LARGEST:g}")
    if "groups.parts" in expected:
        _check_parts(tensors["groups.parts"])
    if "beyond.width" in expected and not tensors["beyond.width"].gt(0).all():
        raise InputError("beyond.width holds numbers that are not positive")


def _check_parts(parts: Tensor) -> None:
    if len(parts) < 2:
        raise InputError(f"groups of patches are two or more, not {len(parts)}")
    if parts.lt(0).any() or parts.sum(0).gt(1 + _ROUNDED).any():
        raise InputError("groups.parts holds parts below 0, or more than the whole of a class")
