"""A request's body -> pictures and options, within limits from the first byte on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header

from piaa.serve.forms import Form, FormReader
from piaa.serve.limits import Limits
from piaa.serve.problems import ProblemError
from piaa.serve.schemas import AnyImage, ImageReference

# Covariant: whoever takes a body of some options takes one of more of them.
Options = TypeVar("Options", bound=BaseModel, covariant=True)

FORM, JSON = b"multipart/form-data", b"application/json"


@dataclass(frozen=True)
class Picture:
    """A picture as it was sent: its bytes, or the hash of one sent before."""

    name: str
    data: bytes | None
    sha256: str | None = None


@dataclass(frozen=True)
class Body(Generic[Options]):
    """A body of either kind, read and checked."""

    pictures: tuple[Picture, ...]
    options: Options


@dataclass(frozen=True)
class Expected(Generic[Options]):
    """What a body holds.

    Attributes:
        options: the fields of a form.
        wire: the same as JSON, with the pictures.
        field: where pictures are in both; "image" is one, "images" are several.
    """

    options: type[Options]
    wire: type[Options]
    field: Literal["image", "images"]


@dataclass
class Held:
    """Bytes of one body that are in memory."""

    n_bytes: int = 0


class BodyReader:
    """Reads the bodies of a service, and keeps count of what is in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._in_memory = 0

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Around all that is done with a body: its bytes count until then."""
        held = Held()
        try:
            yield held
        finally:
            self._in_memory -= held.n_bytes

    async def read(
        self, request: Request, held: Held, expected: Expected[Options]
    ) -> Body[Options]:
        """Read and check a body, or raise a ProblemError."""
        declared = request.headers.get("content-type", "")
        content_type, parameters = parse_options_header(declared)
        if content_type not in (FORM, JSON):
            raise ProblemError(
                "wrong-content-type",
                f"The content type is {declared[:100]!r}; {FORM.decode()} and {JSON.decode()} "
                "are read.",
            )
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._limits.body_bytes:
            raise self._too_large(f"The body has {length[:30]} bytes")
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                if content_type == FORM:
                    reader = FormReader(parameters.get(b"boundary"), self._limits)
                    async for chunk in self._chunks(request, held):
                        reader.feed(chunk)
                    return _from_form(reader.finish(), expected)
                content = bytearray()
                async for chunk in self._chunks(request, held):
                    content += chunk
        except TimeoutError:
            raise ProblemError(
                "slow-upload",
                f"After {self._limits.upload_seconds:g} seconds, {held.n_bytes:,} bytes had come.",
            ) from None
        # Away from the loop: a large body is many milliseconds of base64.
        return await asyncio.to_thread(_from_json, content, expected, self._limits)

    async def _chunks(self, request: Request, held: Held) -> AsyncIterator[bytes]:
        async for chunk in request.stream():
            held.n_bytes += len(chunk)
            self._in_memory += len(chunk)
            if held.n_bytes > self._limits.body_bytes:
                raise self._too_large("The body is longer")
            if self._in_memory > self._limits.bodies_bytes:
                raise ProblemError(
                    "busy",
                    f"Requests of {self._in_memory:,} bytes are in memory; "
                    f"{self._limits.bodies_bytes:,} are the limit.",
                    headers={"Retry-After": "1"},
                )
            yield chunk

    def _too_large(self, seen: str) -> ProblemError:
        return ProblemError("too-large", f"{seen}; {self._limits.body_bytes:,} are accepted.")


def _from_form(form: Form, expected: Expected[Options]) -> Body[Options]:
    field, n_files = expected.field, len(form.files)
    if n_files == 0 or (field == "image" and n_files > 1):
        wanted = "one file" if field == "image" else "at least one file"
        raise _invalid(f"The form holds {n_files} files; {field!r} takes {wanted}.", field)
    for file in form.files:
        if file.field != field:
            raise _invalid(f"Pictures go into {field!r}, not into {file.field[:50]!r}.", file.field)
    values: dict[str, Any] = {}
    for name, text in form.fields:
        if name == "classes":  # one a line, or one a field, or both
            lines = (line.strip() for line in text.splitlines())
            values.setdefault(name, []).extend(line for line in lines if line)
        elif name in values:
            raise _invalid(f"The field {name[:50]!r} is there more than once.", name)
        else:
            values[name] = text
    try:
        options = expected.options.model_validate(values)
    except ValidationError as error:
        raise _explained(error) from error
    return Body(tuple(Picture(file.name, file.data) for file in form.files), options)


def _from_json(content: bytearray, expected: Expected[Options], limits: Limits) -> Body[Options]:
    try:
        options = expected.wire.model_validate_json(content, strict=True)  # true is no number
    except ValidationError as error:
        raise _explained(error) from error
    sent = getattr(options, expected.field)
    images: list[AnyImage] = sent if isinstance(sent, list) else [sent]
    if len(images) > limits.images:
        raise ProblemError(
            "too-many-parts", f"There are {len(images)} pictures; {limits.images} are accepted."
        )
    return Body(tuple(map(_picture, images)), options)


def _picture(image: AnyImage) -> Picture:
    if isinstance(image, ImageReference):
        return Picture(image.name, None, image.sha256)
    return Picture(image.name, image.data)


def _invalid(detail: str, field: str) -> ProblemError:
    return ProblemError("invalid", detail, errors=[{"detail": detail, "pointer": f"/{field[:50]}"}])


def _explained(error: ValidationError) -> ProblemError:
    """What is wrong and where, without the values: they may be pictures."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    if found[0]["type"] == "json_invalid":
        return ProblemError("malformed-body", f"The body is not JSON: {found[0]['msg']}.")
    errors = [{"detail": each["msg"], "pointer": _pointer(each["loc"])} for each in found[:20]]
    first = errors[0]
    more = f" ({len(found)} errors in all)" if len(found) > 1 else ""
    where = first["pointer"] or "the body"
    return ProblemError("invalid", f"{where}: {first['detail']}{more}.", errors=errors)


def _pointer(location: tuple[int | str, ...]) -> str:
    """A JSON pointer (RFC 6901); pydantic also names the member of a union it took."""
    taken = {"ImageData", "ImageReference"}
    steps = (str(step) for step in location if step not in taken)
    return "".join("/" + step.replace("~", "~0").replace("/", "~1")[:50] for step in steps)
