"""The forms of the method that the paper's tables compare, on features that were encoded once.

Where the paper has no code (base rows, "PAA only") the simplest reading is taken: the text in place of the
learnt classifier, at the text scale of stage I, and the formulas as printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from piaa import paa, pvcl
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError
from piaa.pvcl import Bank, Classifier

FormName = Literal["cls", "base", "text+cls", "pvcl", "piaa"]


@dataclass(frozen=True)
class Form:
    """One way to score.

    Attributes:
        name: "cls": S_cls alone. "base": max over patches of the text softmax. "text+cls": PAA without
            PVCL. "pvcl": S_patch alone. "piaa": both.
        bank_size: K, of "pvcl" and "piaa".
        alpha: weight of the patches, of "text+cls" and "piaa".
    """

    name: FormName
    bank_size: int = 512
    alpha: float = 0.9

    @property
    def learnt(self) -> bool:
        return self.name in ("pvcl", "piaa")


def fill_bank(learn: Iterable[ImageFeatures], text: Tensor, config: Config, *, size: int) -> Bank:
    """The bank of a set, for any K up to `size`; images are numbered in their order, as published."""
    bank = pvcl.new_bank(text, replace(config, bank_size=size))
    for part in learn:
        ids = torch.arange(bank.n_images, bank.n_images + len(part))
        bank.update(part.patches.to(text.device), ids)
    if bank.n_images == 0:
        raise InputError("There is no image to learn from.")
    return bank


def form_scores(
    forms: Sequence[Form],
    learn: Iterable[ImageFeatures],
    test: Iterable[ImageFeatures],
    text: Tensor,
    config: Config,
) -> dict[Form, Tensor]:
    """Scores (n, C) of the test images in every form: one pass over each set, whatever the forms.

    Args:
        text: (C, D) unit text prototypes.
        config: of the published form, with numbers for all scales: `Config.reference(...)` or `paper()`.
    """
    if config.text_scale is None or config.patch_scale is None:
        raise InputError(
            "The paper's forms need a config with numbers: Config.reference(...) or paper()."
        )
    sizes = sorted({form.bank_size for form in forms if form.learnt})
    classifiers: dict[int, Classifier] = {}
    if sizes:
        bank = fill_bank(learn, text, config, size=sizes[-1])
        classifiers = {k: pvcl.solve(bank, replace(config, bank_size=k))[0] for k in sizes}
    # With weight x 60 and a divisor of 1 the patch softmax is that of the text cosines of stage I. Its maxima
    # reach 1: at the factor meant for the learnt ones (200 or 400) all but the first would underflow.
    bare = replace(config, score_divisor=1.0, patch_scale=1.0)
    by_text = Classifier(config.text_scale * text.T, text.new_zeros(len(text)))
    found: dict[Form, list[Tensor]] = {form: [] for form in forms}
    for part in test:
        patches, cls = part.patches.to(text.device), part.cls.to(text.device)
        learnt = {
            k: paa.aggregate(patches, cls, text, classifier, config)
            for k, classifier in classifiers.items()
        }
        plain = paa.aggregate(patches, cls, text, by_text, bare)
        best = paa.max_log_probability(patches, text.T, scale=config.text_scale)
        for form in forms:
            both = learnt[form.bank_size] if form.learnt else plain
            found[form].append(
                {
                    "cls": both.cls,
                    "base": best,
                    "pvcl": both.patch,
                }.get(form.name, form.alpha * both.patch + (1 - form.alpha) * both.cls).cpu()
            )
    return {form: torch.cat(parts) for form, parts in found.items()}
