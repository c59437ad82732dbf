"""PVCL from end to end: banks, purification, classifier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.config import Config
from piaa.errors import InputError
from piaa.pvcl import gda
from piaa.pvcl.bank import Bank
from piaa.pvcl.gda import Classifier
from piaa.pvcl.members import Rows, distinct_images, text_probability
from piaa.pvcl.purify import purify


@dataclass(frozen=True)
class Report:
    """What each class's part of the classifier rests on; every array is (C,).

    Attributes:
        bank: int64, vectors in the bank.
        images: int64, different images they come from.
        moved: int64, bank vectors that stage II gave to another class.
        kept: int64, vectors behind the final class mean, moved ones included.
        text_fallback: bool, whether no vector was kept and the text prototype took its place.
    """

    bank: Tensor
    images: Tensor
    moved: Tensor
    kept: Tensor
    text_fallback: Tensor


def new_bank(text: Tensor, config: Config) -> Bank:
    """An empty bank as `config` wants it for the (C, D) unit text prototypes."""
    return Bank(text, size=config.bank_size, text_scale=config.text_scale)


def learn(batches: Iterable[Tensor], text: Tensor, config: Config) -> Classifier:
    """The classifier of a stream of unlabeled images.

    Images are numbered in the order they come, which decides between equally confident patches;
    use `Bank.update` with ids of your own where that order may change.

    Args:
        batches: (B, M, D) unit patch features each; B and M may differ from one to the next.
        text: (C, D) unit text prototypes.

    >>> from torch.nn.functional import normalize
    >>> patches, text = normalize(torch.rand(6, 9, 16), dim=-1), torch.eye(4, 16)
    >>> learn(patches.split(2), text, Config.auto()).weight.shape
    torch.Size([16, 4])
    """
    bank = new_bank(text, config)
    for patches in batches:
        # `update` looks at the shape more closely; this only has to survive to get there.
        n_images = len(patches) if isinstance(patches, Tensor) and patches.ndim else 0
        bank.update(patches, torch.arange(bank.n_images, bank.n_images + n_images))
    if bank.n_images == 0:
        raise InputError("There is no image to learn from: batches is empty.")
    return solve(bank, config)[0]


def solve(bank: Bank, config: Config) -> tuple[Classifier, Report]:
    """Stages I (means and covariance) to III on a filled bank.

    A bank without vectors is not an error: every class falls back to its text prototype.
    """
    if bank.text_scale != config.text_scale or bank.size < config.bank_size:
        raise InputError(
            f"The bank was filled with text_scale={bank.text_scale} and size={bank.size}, the "
            f"config wants text_scale={config.text_scale} and a size of {config.bank_size} or "
            "more; fill a bank made by new_bank(text, config)."
        )
    size = config.effective_bank_size(n_patches=bank.n_patches, n_classes=bank.n_classes)
    vectors, banked, image = bank.borrow(size)
    label, weights = banked, None
    if config.bank_means == "probability" and config.text_scale is not None:
        weights = text_probability(vectors, label, bank.text, config.text_scale)
    classifier = _fit(vectors, label, weights, bank.text, config)
    moved = torch.zeros(bank.n_classes, dtype=torch.int64, device=label.device)
    if config.purify in ("own-bank", "regroup") and config.purify_scale is not None:
        pure = purify(vectors, label, classifier, scale=config.purify_scale, mode=config.purify)
        vectors, label, moved = vectors.only(pure.kept), pure.label, pure.moved
        classifier = _fit(vectors, label, pure.weights, bank.text, config)
    kept = torch.bincount(label, minlength=bank.n_classes)
    report = Report(
        bank=torch.bincount(banked, minlength=bank.n_classes),
        images=distinct_images(banked, image, bank.n_classes),
        moved=moved,
        kept=kept,
        text_fallback=kept == 0,
    )
    return classifier, report


def _fit(
    vectors: Tensor | Rows, label: Tensor, weights: Tensor | None, text: Tensor, config: Config
) -> Classifier:
    return gda.fit(
        vectors,
        label,
        text,
        weights=weights,
        covariance=config.covariance,
        shrinkage=config.shrinkage,
        log_prior=config.log_prior,
    )
