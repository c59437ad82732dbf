"""What goes over the wire, as types: the API's contract, and the source of its OpenAPI document."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from piaa.scoring import HeatmapKind

FileName: TypeAlias = Annotated[
    str, Field(max_length=255, description="Any name; it comes back with the answer.")
]
Sha256: TypeAlias = Annotated[
    str, Field(pattern="^[0-9a-f]{64}$", description="Of a picture sent a moment ago.")
]
ClassName: TypeAlias = Annotated[str, Field(min_length=1)]
_UNIQUE: dict[str, Any] = {"uniqueItems": True}  # of which `ClassList` is the judge
Score: TypeAlias = Annotated[
    float, Field(ge=0, le=1, description="0.5 is each class's own threshold.")
]


def _from_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("this must be a string")
    return base64.b64decode(value, validate=True)


def _whole(value: object) -> object:
    """In JSON, 3.0 is as whole a number as 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count: TypeAlias = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Base64: TypeAlias = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    Field(description="The picture's file in base64."),
    WithJsonSchema({"type": "string", "format": "byte"}),
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=False)


class ImageData(_Request):
    """A picture."""

    name: FileName = ""
    data: Base64


class ImageReference(_Request):
    """A picture that this service has seen a moment ago and still remembers."""

    name: FileName = ""
    sha256: Sha256


def _kind_of_image(value: Any) -> str:
    by_hash = isinstance(value, dict) and "sha256" in value
    return ImageReference.__name__ if by_hash else ImageData.__name__


# Told apart by what is there, so that an error is about the one that was meant.
AnyImage: TypeAlias = Annotated[
    Annotated[ImageData, Tag("ImageData")] | Annotated[ImageReference, Tag("ImageReference")],
    Discriminator(_kind_of_image),
]


class TagsOptions(_Request):
    """Which tags to give."""

    threshold: Annotated[Score, Field(description="Tags are classes with at least this score.")] = (
        0.5
    )
    top_k: Annotated[Count | None, Field(description="At most so many tags a picture.")] = None


class ClassesOptions(TagsOptions):
    classes: Annotated[
        list[ClassName],
        Field(
            min_length=1,
            description="Class names; 'sofa: couch, settee' describes one by several words.",
            json_schema_extra=_UNIQUE,
        ),
    ]


class HeatmapOptions(_Request):
    class_name: Annotated[
        ClassName, Field(alias="class", description="The class whose place is shown.")
    ]
    kind: Annotated[
        HeatmapKind, Field(description="Text and learned evidence together, or one of them.")
    ] = "fused"
    format: Annotated[
        Literal["png", "grid"], Field(description="A picture, or numbers on the patch grid.")
    ] = "png"
    classes: Annotated[
        list[ClassName] | None,
        Field(
            min_length=1,
            description="Zero-shot among these in place of the model's classes.",
            json_schema_extra=_UNIQUE,
        ),
    ] = None


class TagsRequest(TagsOptions):
    images: Annotated[list[AnyImage], Field(min_length=1)]


class ClassesRequest(ClassesOptions):
    images: Annotated[list[AnyImage], Field(min_length=1)]


class HeatmapRequest(HeatmapOptions):
    image: AnyImage


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class FaultyPart(_Answer):
    detail: str
    pointer: str


class Problem(_Answer):
    """Problem details, RFC 9457; /problems lists the types."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FaultyPart] = []


class ScoredTag(_Answer):
    name: str
    score: Score


class TaggedImage(_Answer):
    """A picture and its tags, best first."""

    name: str
    width: int
    height: int
    sha256: Annotated[
        str | None,
        Field(description="May take the picture's place in later requests, for a while."),
    ]
    tags: list[ScoredTag]


class FailedImage(_Answer):
    """A picture that was refused; the others of the request are answered all the same."""

    name: str
    error: Problem


class TagsAnswer(_Answer):
    """One entry a picture, in the order of the request."""

    images: list[TaggedImage | FailedImage]
    warnings: Annotated[
        list[str], Field(description="Such as class names that may mean the same thing.")
    ] = []


class HeatmapAnswer(_Answer):
    """Where a class is, on the patch grid."""

    name: str
    width: int
    height: int
    class_name: Annotated[str, Field(alias="class")]
    kind: HeatmapKind
    grid: Annotated[
        list[list[float]], Field(description="Rows of the grid from the top, higher is likelier.")
    ]
    box: Annotated[
        tuple[float, float, float, float],
        Field(description="Top, left, bottom, right of the grid in pixels of the picture."),
    ]


class ModelClass(_Answer):
    name: str
    phrases: list[str]
    threshold: Annotated[float, Field(description="Where its evidence (log-odds) is cut.")]
    report: Annotated[
        dict[str, Any] | None, Field(description="What the fit found; null before any.")
    ]


class ModelAnswer(_Answer):
    """What this service recognizes, and how."""

    version: str
    fitted: bool
    images: Annotated[int | None, Field(description="Pictures the model was fitted on.")]
    classes: list[ModelClass]
    encoder: dict[str, Any]
    template: str
    heatmap_kinds: list[HeatmapKind]
    limits: dict[str, float]


class State(_Answer):
    status: Literal["ok"]
