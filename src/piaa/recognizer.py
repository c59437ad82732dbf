"""The class most people meet: classes in words, photographs in, tags out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from piaa.checks import check_count, check_cut
from piaa.classes.class_list import Classes, ClassList, encode_classes
from piaa.classes.labels import label_matrix
from piaa.classes.others import Others, check_compared, find_others
from piaa.config import Config
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import InputError
from piaa.features.batches import Images, feature_batches, sourced_batches
from piaa.features.sample import image_ids
from piaa.features.store import FeatureStore
from piaa.fitting.fit_report import FitReport, warn_of_missing
from piaa.fitting.gathered import Gathered, gather
from piaa.fitting.learning import Learning
from piaa.images import OnError, Tiles
from piaa.prediction import Prediction, batch_predictions
from piaa.scoring import Scorer
from piaa.shortlist import Shortlist
from piaa.thresholds import best_thresholds


class Recognizer:
    """Tells which classes are in images: zero-shot at once, better after `fit`.

    Args:
        encoder: Made by `piaa.load_encoder`.
        classes: Names, a mapping of names to synonyms, one of `piaa.list_class_lists()` by its name, or a
            text file with one class a line; "sofa: couch, settee" describes a class by several words.
        config: How to learn and score; the default sets nothing per data set.
        template: Prompt around each class's words. Default: what suits the encoder.
        others: Names of other things that pictures may show. They compete with the classes, and nobody sees
            their scores: a short list is told apart from all else that way. "auto" adds as many of its own as
            make 20 names, leaving out what may mean a class, and learns without them again if hardly any
            image shows anything else; the presets of `Config` get none. `None`: every image is scored among
            the classes alone.
        tiles: Look at overlapping windows of each picture as well, for things too small for the whole:
            a number n for n x n windows, or `Tiles`. Costs n * n + 1 passes of the encoder a picture, in
            fit and predict.
    """

    def __init__(
        self,
        encoder: Encoder,
        classes: Classes,
        *,
        config: Config | None = None,
        template: str | None = None,
        others: Others = "auto",
        tiles: int | Tiles | None = None,
    ) -> None:
        if tiles is not None:
            tiles = tiles if isinstance(tiles, Tiles) else Tiles(rows=tiles, columns=tiles)
            encoder = TiledEncoder(encoder, tiles)
        listed = ClassList.of(classes)
        template = encoder.prompt_template if template is None else template
        config = config or Config.auto()
        text = encode_classes(encoder, listed, template)
        if others == "auto" and config.alpha is not None:
            others = None
        names, vectors = find_others(encoder, listed, text, template, others)
        self._begin(encoder, listed, config, template, torch.cat([text, vectors]), names)

    def _begin(
        self,
        encoder: Encoder,
        classes: ClassList,
        config: Config,
        template: str,
        prototypes: Tensor,
        others: tuple[str, ...],
    ) -> None:
        """As `__init__`, with all names encoded already: a saved recognizer needs no text encoder."""
        self.encoder, self.classes, self.config = encoder, classes, config
        self.template, self.prototypes, self.others = template, prototypes, others
        self.features: FeatureStore | None = None
        words = Scorer.zero_shot(prototypes, config, encoder.text_scale, n_others=len(others))
        self._learning = Learning(classes, words)
        self._shortlist: Shortlist | None = None

    def __repr__(self) -> str:
        state = f"fitted on {self.report.n_images} images" if self.is_fitted else "zero-shot"
        return f"<Recognizer of {len(self.classes)} classes, {self.encoder.spec.name}, {state}>"

    @property
    def text(self) -> Tensor:
        """Text prototypes of the classes, (C, D); `prototypes` has those of `others` behind them."""
        return self.prototypes[: len(self.classes)]

    @property
    def is_fitted(self) -> bool:
        return self._learning.is_there

    @property
    def scorer(self) -> Scorer:
        """All numbers that scoring uses."""
        return self._learning.scorer

    @property
    def report(self) -> FitReport:
        """What the fit found."""
        return self._learning.report

    def fit(
        self,
        images: Images,
        *,
        features: str | os.PathLike[str] | None = None,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> FitReport:
        """Learn from unlabelled images: a folder, paths, pictures, or `ImageFeatures`.

        Replaces what was learnt before, once all images have been read. With `features=` a folder, the
        encoded features are kept there, and `with_classes` can learn other classes without the images.
        With `on_error`, pictures that cannot be read are left out, as in `predict`.
        """
        spec = self.encoder.spec
        store = None if features is None else FeatureStore.create(features, spec)
        batches = feature_batches(self.encoder, images, batch_size=batch_size, on_error=on_error)
        report = self._learn(batches, store)
        self.features = store
        return report

    def adopt(self, gathered: Gathered) -> FitReport:
        """Learn from what was gathered elsewhere, in place of what was learnt before."""
        if not torch.equal(self.prototypes, gathered.text) or self.config != gathered.config:
            raise InputError(
                "What was gathered belongs to other classes, another encoder or config."
            )
        report = self._learning.take(gathered)
        self.features = None
        return report

    def partial_fit(
        self, images: Images, *, batch_size: int | None = None, on_error: OnError | None = None
    ) -> Self:
        """Add images to what is learnt. Order and batches do not matter.

        If one cannot be read, those of the batches before it stay added; with `on_error` it is left out.
        """
        if self._learning.gathered is None and self.is_fitted:
            raise InputError(
                "A loaded recognizer holds its result, not what more images could be added to. "
                "Fit a new Recognizer on all images."
            )
        gathered = self._learning.gathered or Gathered(self.prototypes, self.config)
        n_before = gathered.n_images
        batches = feature_batches(self.encoder, images, batch_size=batch_size, on_error=on_error)
        try:
            gather(gathered, batches, self.features)
        finally:
            if gathered.n_images > n_before:
                self._learning.take_later(gathered)
        return self

    def merge(self, other: Recognizer) -> Self:
        """Add what another recognizer of the same classes and encoder learnt from other images.

        A folder of kept features is that of one recognizer's images alone, so it is let go of.
        """
        mine, others = self._learning.gathered, other._learning.gathered
        if mine is None or others is None:
            raise InputError("Both recognizers must have been fitted (not loaded) to be merged.")
        if seen := self.encoder.spec.differences(other.encoder.spec.to_dict()):
            raise InputError(f"The encoders of recognizers to merge differ. {seen}.")
        mine.merge(others)
        self._learning.take_later(mine)
        self.features = None
        return self

    def predict(
        self,
        images: Images,
        *,
        threshold: float = 0.5,
        top_k: int | None = None,
        heatmaps: bool = True,
        shortlist: int | None = None,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> list[Prediction]:
        """One `Prediction` an image, in order.

        Args:
            threshold: Tags are classes with at least this score; 0.5 is each class's own threshold.
            top_k: At most this many tags an image.
            heatmaps: Keep what `Prediction.heatmap` needs, about 200 KB an image.
            shortlist: For vocabularies beyond some 10,000 classes: look closely at about this many classes an
                image, found by a coarse search, and score the others 0. A twentieth of all classes keeps
                about 99 of 100 of an image's ten best; `piaa.shortlist` says what is exact.
            on_error: Without it the first picture that cannot be read raises an `ImageError`. With it such a
                picture is left out and on_error(index, source, error) is called; `Prediction.source` tells
                which picture each of the others is.
        """
        stream = self.stream(
            images,
            threshold=threshold,
            top_k=top_k,
            heatmaps=heatmaps,
            shortlist=shortlist,
            batch_size=batch_size,
            on_error=on_error,
        )
        return list(stream)

    def stream(
        self,
        images: Images,
        *,
        threshold: float = 0.5,
        top_k: int | None = None,
        heatmaps: bool = True,
        shortlist: int | None = None,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[Prediction]:
        """`predict` one by one, as soon as each batch is encoded."""
        check_cut(threshold, top_k)
        scorer = self.scorer
        if not self.is_fitted:
            check_compared(self.classes, self.others)
        score = self._scoring(scorer, shortlist)
        batches = sourced_batches(self.encoder, images, batch_size=batch_size, on_error=on_error)

        def predictions() -> Iterator[Prediction]:
            for batch, sources in batches:
                yield from batch_predictions(
                    batch,
                    score(batch).cpu(),
                    self.classes,
                    sources=sources,
                    threshold=threshold,
                    top_k=top_k,
                    scorer=scorer if heatmaps else None,
                )

        return predictions()

    def calibrate(self, images: Images, labels: object) -> Tensor:
        """Set thresholds from some labelled images; returns them, (C,).

        Args:
            labels: (n, C) of 0 and 1 (array, tensor or nested lists), or one list of class names an image.

        Classes without a positive image keep the threshold they had. More images to learn from
        (`partial_fit`, `merge`) estimate all thresholds anew.
        """
        scorer = self.scorer
        batches = feature_batches(self.encoder, images)
        evidence = [scorer.evidence(batch).cpu() for batch in batches]
        if not evidence:
            raise InputError("There are no images to calibrate with: the list is empty.")
        every = torch.cat(evidence)
        best = best_thresholds(every, label_matrix(labels, self.classes, len(every)))
        thresholds = torch.where(best.isnan(), scorer.thresholds, best)
        self._learning.scorer = replace(scorer, thresholds=thresholds)
        return thresholds

    def with_classes(
        self,
        classes: Classes,
        *,
        others: Others = "auto",
        features: str | os.PathLike[str] | None = None,
    ) -> Recognizer:
        """A recognizer of other classes, learnt from kept features without touching the images.

        others: as for a new `Recognizer`.
        Features come from `features=`, else from the folder given to `fit(features=...)`, else from memory
        if the whole collection is small enough to be there.
        """
        other = Recognizer(
            self.encoder, classes, config=self.config, template=self.template, others=others
        )
        store = (
            self.features if features is None else FeatureStore.open(features, self.encoder.spec)
        )
        if store is not None:
            other._learn(feature_batches(self.encoder, store))
            other.features = store
        elif (seen := self._learning.gathered) is not None and seen.sample.complete:
            other._learn(feature_batches(self.encoder, seen.remembered()))
        else:
            raise InputError(
                "The images' features were not kept. Fit with features='some/folder' to learn other classes "
                "later, or pass features= such a folder."
            )
        return other

    def retained(self, features: ImageFeatures, name: str) -> Tensor:
        """Which patches of images are in a class's bank: (B, M) bool."""
        retained, column = self._learning.retained, self.classes.index(name)
        return retained.marks(column, image_ids(features.cls), features.patches.shape[1])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recognizer as one file, whole or not at all."""
        from piaa.saving import save_recognizer

        save_recognizer(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str], encoder: Encoder | None = None) -> Recognizer:
        """Read a saved recognizer, or one of `piaa.list_models()`, such as "voc", by its name.

        Its encoder is loaded as it was, or must equal the one given. "./voc" and `Path("voc")` are
        always files.
        """
        from piaa.saving import load_recognizer

        return load_recognizer(path, encoder)

    def _scoring(self, scorer: Scorer, shortlist: int | None) -> Callable[[ImageFeatures], Tensor]:
        if shortlist is None:
            return scorer.scores
        check_count("shortlist", shortlist)
        # A list of all classes needs no search, and one so short that others were added does not either.
        if shortlist >= len(self.classes) or scorer.n_others:
            return scorer.scores
        if self._shortlist is None or self._shortlist.scorer is not scorer:
            self._shortlist = Shortlist(scorer)
        return partial(self._shortlist.scores, count=shortlist)

    def _learn(
        self, batches: Iterator[ImageFeatures], store: FeatureStore | None = None
    ) -> FitReport:
        """For methods that people call: warnings are of the line that called these."""
        gathered = Gathered(self.prototypes, self.config)
        gather(gathered, batches, store)
        report = self.adopt(gathered)
        warn_of_missing(report, stacklevel=4)
        return report
