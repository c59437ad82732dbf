"""SPARC (Miller et al., 2025): scores of compound prompts, sorted and fused class by class.

Cosines of the global vector with prompts are made comparable, first within each image, then over the
images of the collection. The cosines of a class's compound prompts, sorted in each image, are joined
by their first principal component with the class's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from piaa.baselines.base import Templates, ZeroShot, score_batches
from piaa.baselines.compounds import Compounds, all_pairs, likely_groups, mentioned
from piaa.classes.class_list import Classes, encode_classes
from piaa.encoders.base import Encoder
from piaa.errors import InputError
from piaa.features.batches import Images
from piaa.thresholds import estimate_thresholds

_SOURCES = ("pseudo-labels", "all-pairs")
# Below this a spread is rounding, and what has none says nothing.
_LEAST_SPREAD = 1e-9


class Sparc(ZeroShot):
    """SPARC without annotations.

    Scores are z-scores over the images that are scored together: give the whole collection at once.

    Args:
        template: Prompt around a class's words for its own score, or several; the authors average
            80. Default: what suits the encoder. Compound prompts stand without one.
        compounds: "pseudo-labels": pairs and triples of classes that zero-shot scores find together in
            the images given to `fit` or, before it, in those to be scored. "all-pairs" takes them
            all. Or sentences, which speak of the classes whose names they hold.
    """

    name: ClassVar[str] = "sparc"
    transductive: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        classes: Classes,
        *,
        template: Templates | None = None,
        compounds: str | Sequence[str] = "pseudo-labels",
    ) -> None:
        super().__init__(encoder, classes, template=template)
        if len(self.classes) < 2:
            raise InputError(
                f"SPARC compares classes, and {self.classes.names[0]!r} is the only one. Add classes "
                "that it could be confused with."
            )
        self._plain = encode_classes(encoder, self.classes, "{}")
        self._compounds: Compounds | None
        if compounds == "pseudo-labels":
            self.source, self._compounds = "pseudo-labels", None
        elif compounds == "all-pairs":
            self.source, self._compounds = "all-pairs", all_pairs(self.classes)
        elif isinstance(compounds, str) or not all(isinstance(text, str) for text in compounds):
            raise InputError(
                f"compounds must be one of {', '.join(map(repr, _SOURCES))} or a list of sentences, "
                f"not {compounds!r}."
            )
        else:
            self.source, self._compounds = "given", mentioned(compounds, self.classes)

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return self.source == "pseudo-labels"

    @property
    def settings(self) -> dict[str, Any]:
        known = self._compounds
        return {
            **super().settings,
            "compounds": self.source,
            "n_compounds": None if known is None else len(known.texts),
        }

    def fit(self, images: Images) -> None:
        """Find out which classes occur together, from unlabelled images."""
        if self.learns:
            self._compounds = self._count(self._own_scores(self._global_vectors(images)))

    def scores(self, images: Images) -> Tensor:
        vectors = self._global_vectors(images)
        own = self._own_scores(vectors)
        compounds = self._compounds or self._count(own)
        most = int(compounds.members.sum(0).max()) if compounds.texts else 0
        if len(vectors) <= most + 1:
            raise InputError(
                f"SPARC fuses up to {most + 1} scores a class by their spread over images, and needs "
                f"more than so many images, not {len(vectors)}. Score more images at once, or use "
                "fewer compounds."
            )
        plain = vectors @ self._plain.T.to(vectors)
        center, spread = plain.mean(1, keepdim=True), _spread(plain, dim=1)
        result = own.clone()
        for c in range(len(self.classes)):
            texts = [t for t, m in zip(compounds.texts, compounds.members[:, c], strict=True) if m]
            if texts:
                cosines = vectors @ self.encoder.encode_text(texts).T.to(vectors)
                result[:, c] = fuse(own[:, c], standardize((cosines - center) / spread, dim=0))
        return result.float()

    def _global_vectors(self, images: Images) -> Tensor:
        """(n, D) float64 on the CPU."""
        return score_batches(self.encoder, images, lambda part: part.cls).double()

    def _own_scores(self, vectors: Tensor) -> Tensor:
        """Calibrated scores (n, C) float64 of the classes themselves."""
        if len(vectors) < 2:
            raise InputError("SPARC compares images with each other: give at least 2, not 1.")
        cosines = vectors @ self.text.T.to(vectors)
        return standardize(standardize(cosines, dim=1), dim=0)

    def _count(self, own: Tensor) -> Compounds:
        scores = own.float()
        return likely_groups(scores >= estimate_thresholds(scores).thresholds, self.classes)


def standardize(scores: Tensor, *, dim: int) -> Tensor:
    """Mean 0 and, unless constant, sample variance 1 along an axis."""
    return (scores - scores.mean(dim, keepdim=True)) / _spread(scores, dim=dim)


def _spread(scores: Tensor, *, dim: int) -> Tensor:
    return scores.std(dim, keepdim=True).clamp_min(_LEAST_SPREAD)


def fuse(own: Tensor, compound: Tensor) -> Tensor:
    """Half a class's own scores (n,), half their fusion with those of its compounds (n, K).

    The fusion is the projection on the first principal component of the order statistics of the
    compounds and the class's own score, its weights mostly positive and of sum 1 in magnitude.
    """
    ranked = torch.cat([compound.sort(dim=1).values, own[:, None]], dim=1)
    _, components = torch.linalg.eigh(ranked.T.cov())
    first = components[:, -1]
    weights: Tensor = first * (-1 if first.mean() < 0 else 1) / first.abs().sum()
    return 0.5 * own + 0.5 * (ranked @ weights)
