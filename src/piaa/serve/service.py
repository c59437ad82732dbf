"""What the service does with a request, apart from the addresses it is reached at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Final

from fastapi import Request

from piaa import __version__
from piaa.classes.others import check_compared
from piaa.errors import InputError
from piaa.recognizer import Recognizer
from piaa.serve.bodies import Body, BodyReader, Expected, Options, Picture
from piaa.serve.engine import Engine, Seen
from piaa.serve.limits import Limits
from piaa.serve.metrics import Metrics, resident_bytes
from piaa.serve.problems import ProblemError
from piaa.serve.schemas import (
    ClassesOptions,
    ClassesRequest,
    FailedImage,
    HeatmapAnswer,
    HeatmapOptions,
    HeatmapRequest,
    ModelAnswer,
    ModelClass,
    Problem,
    ScoredTag,
    TaggedImage,
    TagsAnswer,
    TagsOptions,
    TagsRequest,
)
from piaa.serve.tagging import Tagger, Words, heatmap_kinds, overlay_png

TAGS: Final = Expected(TagsOptions, TagsRequest, "images")
CLASSES: Final = Expected(ClassesOptions, ClassesRequest, "images")
HEATMAP: Final = Expected(HeatmapOptions, HeatmapRequest, "image")
PREVIEW_SIDE: Final = 1024


class Service:
    """A recognizer, and everything that answers for it."""

    def __init__(self, recognizer: Recognizer, limits: Limits) -> None:
        if not recognizer.is_fitted:
            check_compared(recognizer.classes, recognizer.others)
        self.limits = limits
        self.metrics = Metrics()
        self.engine = Engine(recognizer, limits, self.metrics)
        self.model = _model_answer(recognizer, limits)
        self._tagger = Tagger(recognizer.classes, recognizer.scorer)
        self._words = Words(recognizer, limits)
        self._reader = BodyReader(limits)

    async def tags(self, request: Request) -> TagsAnswer:
        """Tags among the model's classes."""
        async with self._body(request, TAGS) as body:
            return await self._tag(self._tagger, body)

    async def classes(self, request: Request) -> TagsAnswer:
        """Tags among classes that came with the request, zero-shot."""
        async with self._body(request, CLASSES) as body:
            tagger = await self._tagger_for(body.options.classes)
            return await self._tag(tagger, body)

    async def heatmap(self, request: Request) -> HeatmapAnswer | bytes:
        """Where a class is: numbers on a grid, or a PNG file."""
        async with self._body(request, HEATMAP) as body:
            options = body.options
            tagger = self._tagger
            if options.classes is not None:
                tagger = await self._tagger_for(options.classes)
            if options.class_name not in tagger.classes.names:
                raise ProblemError(
                    "unknown-class",
                    f"{options.class_name[:100]!r} is none of {len(tagger.classes)} classes.",
                )
            if options.kind not in (kinds := heatmap_kinds(tagger.scorer)):
                raise ProblemError(
                    "invalid",
                    f"Before any fit there is no heatmap of kind {options.kind!r}, only "
                    f"{' and '.join(kinds)}.",
                    errors=[{"detail": "Not of this model.", "pointer": "/kind"}],
                )
            side = PREVIEW_SIDE if options.format == "png" else 0
            (seen,) = await self.engine.see(body.pictures, preview_side=side)
            if isinstance(seen, ProblemError):
                raise seen
            if options.format == "png":
                return await asyncio.to_thread(
                    overlay_png, tagger, seen, options.class_name, options.kind
                )
            return await asyncio.to_thread(_grid, tagger, seen, body)

    def metrics_text(self) -> str:
        engine = self.engine
        return self.metrics.text(
            {
                "piaa_queue_images": (
                    "Pictures taken on and not yet answered.",
                    lambda: engine.batcher.reserved,
                ),
                "piaa_decoders_replaced": (
                    "Decoders stopped by their limits or a crash.",
                    lambda: engine.decoders.replaced,
                ),
                "process_resident_memory_bytes": (
                    "Memory of the service, decoders apart.",
                    resident_bytes,
                ),
            }
        )

    @asynccontextmanager
    async def _body(
        self, request: Request, expected: Expected[Options]
    ) -> AsyncIterator[Body[Options]]:
        with self._reader.hold() as held:
            body = await self._reader.read(request, held, expected)
            try:
                async with asyncio.timeout(self.limits.deadline_seconds):
                    yield body
            except TimeoutError:
                raise ProblemError(
                    "deadline",
                    f"{len(body.pictures)} pictures were not done after "
                    f"{self.limits.deadline_seconds:g} seconds.",
                ) from None

    async def _tagger_for(self, names: Sequence[str]) -> Tagger:
        try:
            return await asyncio.to_thread(self._words.tagger, names)
        except InputError as error:
            where = [{"detail": str(error), "pointer": "/classes"}]
            raise ProblemError("invalid", str(error), errors=where) from error

    async def _tag(self, tagger: Tagger, body: Body[TagsOptions]) -> TagsAnswer:
        looked = await self.engine.see(body.pictures)
        return await asyncio.to_thread(_tags_answer, tagger, looked, body)


def _tags_answer(
    tagger: Tagger, looked: Sequence[Seen | ProblemError], body: Body[TagsOptions]
) -> TagsAnswer:
    images = [
        _failed(picture, seen)
        if isinstance(seen, ProblemError)
        else _tagged(tagger, picture, seen, body.options)
        for picture, seen in zip(body.pictures, looked, strict=True)
    ]
    return TagsAnswer(images=images, warnings=list(tagger.notes))


def _tagged(tagger: Tagger, picture: Picture, seen: Seen, options: TagsOptions) -> TaggedImage:
    prediction = tagger.predict(seen, threshold=options.threshold, top_k=options.top_k)
    return TaggedImage(
        name=picture.name,
        width=seen.size[1],
        height=seen.size[0],
        sha256=seen.sha256,
        tags=[ScoredTag(name=name, score=score) for name, score in prediction.tags],
    )


def _failed(picture: Picture, problem: ProblemError) -> FailedImage:
    return FailedImage(name=picture.name, error=Problem.model_validate(problem.to_dict()))


def _grid(tagger: Tagger, seen: Seen, body: Body[HeatmapOptions]) -> HeatmapAnswer:
    options = body.options
    grid = tagger.predict(seen).heatmap(options.class_name, kind=options.kind)
    return HeatmapAnswer(
        name=body.pictures[0].name,
        width=seen.size[1],
        height=seen.size[0],
        class_name=options.class_name,
        kind=options.kind,
        grid=grid.tolist(),
        box=seen.features.placements[0].box,
    )


def _model_answer(recognizer: Recognizer, limits: Limits) -> ModelAnswer:
    classes, scorer = recognizer.classes, recognizer.scorer
    report = recognizer.report if recognizer.is_fitted else None
    rows = [None] * len(classes) if report is None else [asdict(row) for row in report.classes]
    return ModelAnswer(
        version=__version__,
        fitted=report is not None,
        images=None if report is None else report.n_images,
        classes=[
            ModelClass(name=name, phrases=list(phrases), threshold=threshold, report=row)
            for name, phrases, threshold, row in zip(
                classes.names, classes.phrases, scorer.thresholds.tolist(), rows, strict=True
            )
        ],
        encoder=recognizer.encoder.spec.to_dict(),
        template=recognizer.template,
        heatmap_kinds=heatmap_kinds(scorer),
        limits=asdict(limits),
    )
