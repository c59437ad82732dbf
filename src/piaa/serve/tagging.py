"""Features -> tags and heatmaps, for the model's classes or for names that came with a request."""

from __future__ import annotations

import io
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

import torch
from torch import Tensor

from piaa.classes import others
from piaa.classes.class_list import ClassList, ClassNameWarning, encode_classes
from piaa.errors import InputError
from piaa.heatmaps import overlay
from piaa.images import Placement
from piaa.prediction import Prediction, make_prediction
from piaa.recognizer import Recognizer
from piaa.scoring import HeatmapKind, Scorer
from piaa.serve.engine import Seen
from piaa.serve.limits import Limits

# Colors of a heatmap reach from 0 to its greatest value, but no less than this: a class that is nowhere
# in a picture shall not glow.
_LEAST_TOP = 0.5


@dataclass(frozen=True)
class Tagger:
    """Scores of some classes; `notes` are remarks on their names."""

    classes: ClassList
    scorer: Scorer
    notes: tuple[str, ...] = ()

    def predict(
        self, seen: Seen, *, threshold: float = 0.5, top_k: int | None = None
    ) -> Prediction:
        """What `Recognizer.predict` says of the picture, to the last bit."""
        # One by one on purpose: a product of several images' patches may round otherwise.
        scores = self.scorer.scores(seen.features)[0].cpu()
        kept = replace(seen.features, patches=seen.features.patches.cpu().half())
        return make_prediction(
            scores,
            self.classes,
            threshold=threshold,
            top_k=top_k,
            scorer=self.scorer,
            features=kept,
        )


class Words:
    """Taggers for names that come with requests; the words used last stay encoded."""

    def __init__(self, recognizer: Recognizer, limits: Limits) -> None:
        self._recognizer, self._limits = recognizer, limits
        self._vectors: OrderedDict[tuple[str, ...], Tensor] = OrderedDict()
        self._lock = Lock()

    def tagger(self, names: Sequence[str]) -> Tagger:
        """Zero-shot among `names`, and others beside a short list; InputError if they are no class list."""
        if len(names) > self._limits.classes:
            raise InputError(f"{len(names)} classes are more than {self._limits.classes:,}.")
        for name in names:
            if len(name) > self._limits.name_length:
                raise InputError(
                    f"The class {name[:40]!r}... has {len(name)} characters; at most "
                    f"{self._limits.name_length} are accepted."
                )
        with self._lock:  # also because warnings are caught for the whole process
            classes, notes = _class_list(names)
            text = self._encode(classes)
            if len(classes) < others.ENOUGH:
                candidates = self._encode(ClassList.of(others.NAMES))
                text = torch.cat([text, candidates[others.choose(classes, text, candidates)]])
        encoder = self._recognizer.encoder
        scorer = Scorer.zero_shot(
            text,
            self._recognizer.config,
            encoder.text_scale,
            n_others=len(text) - len(classes),
        )
        return Tagger(classes, scorer, notes)

    def _encode(self, classes: ClassList) -> Tensor:
        """(C, D); only what is new goes through the text encoder."""
        new = {
            phrases: name
            for name, phrases in zip(classes.names, classes.phrases, strict=True)
            if phrases not in self._vectors
        }
        if new:
            added = ClassList(tuple(new.values()), tuple(new))
            recognizer = self._recognizer
            vectors = encode_classes(recognizer.encoder, added, recognizer.template)
            self._vectors.update(zip(new, vectors, strict=True))
        for phrases in classes.phrases:
            self._vectors.move_to_end(phrases)
        text = torch.stack([self._vectors[phrases] for phrases in classes.phrases])
        while len(self._vectors) > max(self._limits.remembered_words, len(classes)):
            self._vectors.popitem(last=False)
        return text


def heatmap_kinds(scorer: Scorer) -> list[HeatmapKind]:
    """The kinds of heatmap there are."""
    if scorer.classifier is None:
        return ["fused", "text"]
    return ["fused", "text", "learned", "difference"]


def overlay_png(tagger: Tagger, seen: Seen, name: str, kind: HeatmapKind) -> bytes:
    """The preview under a heatmap's colors, as a PNG file."""
    preview = seen.preview
    if preview is None:
        raise InputError("An overlay needs a picture that was seen with a preview.")
    size = (preview.height, preview.width)
    places = tuple(_scaled(place, size) for place in seen.features.placements)
    small = replace(seen, features=replace(seen.features, placements=places))
    heat = tagger.predict(small).image_heatmap(name, kind=kind)
    top = max(_LEAST_TOP, float(heat.nan_to_num(0).abs().max()))
    picture = overlay(preview, heat, limits=(-top if kind == "difference" else 0.0, top))
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _scaled(place: Placement, size: tuple[int, int]) -> Placement:
    """The placement in a picture of another size."""
    down, across = size[0] / place.original_size[0], size[1] / place.original_size[1]
    top, left, bottom, right = place.box
    box = (top * down, left * across, bottom * down, right * across)
    return Placement(size, place.canvas_size, box)


def _class_list(names: Sequence[str]) -> tuple[ClassList, tuple[str, ...]]:
    # A list, never a string: that would be the path of a file.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classes = ClassList.of(list(names))
    notes = [str(w.message) for w in caught if issubclass(w.category, ClassNameWarning)]
    return classes, tuple(notes)
