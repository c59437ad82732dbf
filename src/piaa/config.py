"""Every number and switch of the method, in one frozen value.

Three presets cover its three forms: `Config.paper()` follows the printed formulas,
`Config.reference(...)` the published code with its constants per data set, and `Config.auto()`
sets nothing per data set. A field that is `None` is matched to the data (or, for `purify_scale`,
belongs to a step that is switched off).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast, get_args

from piaa.errors import InputError, UnknownNameError

BankMeans = Literal["plain", "probability"]
Purify = Literal["none", "own-bank", "regroup", "auto"]
Covariance = Literal["population", "sample"]

_CHOICES = {
    "bank_means": get_args(BankMeans),
    "purify": get_args(Purify),
    "covariance": get_args(Covariance),
}

# The constants that the published code sets by data set.
_REFERENCE = {  # purify_scale, patch_scale, cls_scale
    "voc": (100.0, 200.0, 80.0),
    "coco": (0.01, 400.0, 80.0),
    "nus": (500.0, 400.0, 10.0),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of PVCL (stages I to III) and PAA.

    Stage I, banks of confident patches:
        bank_size: most vectors kept for a class (K).
        bank_fraction: `None` uses `bank_size` as it is; a fraction f uses
            K = f * patches seen / classes, held between `bank_floor` and `bank_size`.
        bank_floor: least K that `bank_fraction` may give.
        text_scale: softmax scale of the patch-text cosines, whose entropy orders a bank. `None`
            orders by the scale-free lead instead (see `piaa.pvcl.keys`), and leaves the scale
            of the text branch to be matched to the data.
        bank_means: class means of the bank: "plain", or weighted by the text "probability".

    Stages II and III, purification and classifier:
        purify: "none"; "own-bank" keeps the upper tail of each bank (paper); "regroup" first
            moves every vector to the class that scores it highest (published code); "auto"
            mixes the regrouped classifier into the plain one as far as, on the other half of the
            collection, it splits images more clearly, and learns from groups of patches where
            both halves show the same ones (`piaa.auto.groups`). That is for the `Recognizer`;
            `pvcl.learn` alone has no halves and stays with the plain one.
        purify_scale: factor on the scores inside stage II's softmax; `None` when `purify` is
            "none" or "auto".
        covariance: "population" divides by n; "sample" centers once more and divides by n - 1.
        shrinkage: factor on the trace term that regularizes the covariance.
        log_prior: whether the bias holds log(1 / C), a constant without effect on any softmax.

    PAA, patches to image scores:
        score_divisor: the classifier's scores are divided by it before the patch softmax.
        patch_scale: factor on the per-class maxima in the second softmax.
        cls_scale: softmax scale of the global cosines.
        alpha: weight of the patch branch, 1 - alpha is that of the global branch.
        matched_entropy: a scale left `None` is the one at which the mean entropy of the softmax
            is this fraction of log C; three quarters of it for the global vector.

    >>> Config.reference("coco").patch_scale
    400.0
    >>> Config.from_dict(Config.auto().to_dict()) == Config.auto()
    True
    """

    bank_size: int = 1024
    bank_fraction: float | None = 0.2
    bank_floor: int = 64
    text_scale: float | None = None
    bank_means: BankMeans = "plain"
    purify: Purify = "auto"
    purify_scale: float | None = None
    covariance: Covariance = "population"
    shrinkage: float = 10.0
    log_prior: bool = False
    score_divisor: float | None = None
    patch_scale: float | None = None
    cls_scale: float | None = None
    alpha: float | None = None
    matched_entropy: float = 0.8

    def __post_init__(self) -> None:
        for name in ("bank_size", "bank_floor"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}.")
        if self.bank_fraction is not None:
            _number("bank_fraction", self.bank_fraction, above=0.0, to=1.0)
            if self.bank_floor > self.bank_size:
                raise InputError(
                    f"bank_floor ({self.bank_floor}) is above bank_size ({self.bank_size}); "
                    "lower bank_floor or raise bank_size."
                )
        for name in ("text_scale", "purify_scale", "score_divisor", "patch_scale", "cls_scale"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), above=0.0)
        _number("shrinkage", self.shrinkage, above=0.0)
        _number("matched_entropy", self.matched_entropy, above=0.0, below=1.0)
        if self.alpha is not None:
            _number("alpha", self.alpha, least=0.0, to=1.0)
        if not isinstance(self.log_prior, bool):
            raise InputError(f"log_prior must be True or False, got {self.log_prior!r}.")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        if self.bank_means == "probability" and self.text_scale is None:
            raise InputError(
                'bank_means="probability" weights by the text softmax and needs its scale: '
                'set text_scale (the published code uses 60), or bank_means="plain".'
            )
        if (self.purify in ("none", "auto")) != (self.purify_scale is None):
            raise InputError(
                f"purify={self.purify!r} with purify_scale={self.purify_scale!r}: purification "
                'needs a scale, and purify="none" or "auto" takes none.'
            )

    @classmethod
    def paper(cls) -> Config:
        """The formulas as printed.

        The paper prints no softmax scale. Where it speaks of a text probability this preset takes
        CLIP's own logit scale, 100; where it writes a bare softmax, 1.
        """
        return cls(
            bank_size=512,
            bank_fraction=None,
            text_scale=100.0,
            purify="own-bank",
            purify_scale=1.0,
            shrinkage=1.0,
            score_divisor=1.0,
            patch_scale=1.0,
            cls_scale=100.0,
            alpha=0.9,
        )

    @classmethod
    def reference(cls, dataset: Literal["voc", "coco", "nus"]) -> Config:
        """The published code's steps, with the constants it uses on `dataset`."""
        if dataset not in _REFERENCE:
            raise UnknownNameError("reference data set", dataset, _REFERENCE)
        purify_scale, patch_scale, cls_scale = _REFERENCE[dataset]
        return cls(
            bank_size=512,
            bank_fraction=None,
            text_scale=60.0,
            bank_means="probability",
            purify="regroup",
            purify_scale=purify_scale,
            covariance="sample",
            shrinkage=1.0,
            log_prior=True,
            score_divisor=500.0,
            patch_scale=patch_scale,
            cls_scale=cls_scale,
            alpha=0.9,
        )

    @classmethod
    def auto(cls) -> Config:
        """Nothing set per data set: scales matched to the data, banks sized by it."""
        return cls()

    def effective_bank_size(self, *, n_patches: int, n_classes: int) -> int:
        """K for a collection of `n_patches` patches."""
        if self.bank_fraction is None:
            return self.bank_size
        wanted = int(self.bank_fraction * n_patches / n_classes)
        return min(max(wanted, self.bank_floor), self.bank_size)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The inverse of `to_dict`; every field must be there, and no other."""
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise UnknownNameError("config field", name, sorted(known))
        if missing := sorted(known - set(values)):
            raise InputError(f"The config lacks {', '.join(missing)}; write it with to_dict().")
        return cls(**values)


def _number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    to: float = math.inf,
) -> None:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        number = float(cast(float, value)) if numeric else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    # Written so that NaN fails every comparison.
    if not (math.isfinite(number) and above < number < below and least <= number <= to):
        low = f"above {above:g}" if above > -math.inf else f"at least {least:g}"
        high = f" and below {below:g}" if below < math.inf else ""
        high = f" and at most {to:g}" if to < math.inf else high
        raise InputError(f"{name} must be a finite number {low}{high}, got {value!r}.")
