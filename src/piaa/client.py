"""A client for `piaa serve`, with nothing but the standard library beneath it."""

from __future__ import annotations

import io
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from piaa.errors import InputError, PiaaError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image

    from piaa.images import ImageSource
    from piaa.scoring import HeatmapKind

    Photo: TypeAlias = ImageSource | bytes

# What goes into one request: well below what a service takes by default.
_MOST_IMAGES = 16
_MOST_BYTES = 16 * 2**20


class ServiceError(PiaaError):
    """A service that cannot be reached, or that answered with a problem.

    Attributes:
        status: of the HTTP answer; None if there was none.
        problem: the problem details (RFC 9457), {} if the answer had none.
    """

    def __init__(
        self, message: str, *, status: int | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = dict(problem or {})


@dataclass(frozen=True)
class Tagged:
    """What a service says of one image.

    Attributes:
        name: of the file, or its place in the list.
        tags: (name, score), best first.
        size: (rows, columns) of the upright picture; None if it could not be read.
        error: why it could not; None otherwise.
    """

    name: str
    tags: list[tuple[str, float]]
    size: tuple[int, int] | None
    error: str | None = None


class Client:
    """Asks a `piaa serve` for tags and heatmaps. May be used from several threads.

    Args:
        address: as `piaa serve` prints it; a path prefix is kept.
        token: the service's, if it has one.
        timeout: seconds without a byte from the service.
        retries: how often to come back when the service is busy, after the time it asks for.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 5,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"address must be a URL such as http://127.0.0.1:8000, not {address!r}."
            )
        if retries < 0:
            raise InputError(f"retries must be 0 or more, not {retries!r}.")
        self._parts = parts
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout, self._retries = timeout, retries

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._parts.geturl()}>"

    def model(self) -> dict[str, Any]:
        """Classes, thresholds, encoder, report and limits of the service."""
        answer: dict[str, Any] = json.loads(self._ask("GET", "/v1/model"))
        return answer

    def tag(
        self,
        images: Photo | Iterable[Photo],
        *,
        classes: Sequence[str] | None = None,
        threshold: float = 0.5,
        top_k: int | None = None,
    ) -> list[Tagged]:
        """Tags of each image, in order: paths, pictures, arrays or bytes of files.

        An image that cannot be read has an `error` in place of tags; the others are answered.

        Args:
            classes: zero-shot among these names; by default the model's classes.
            threshold: tags are classes with at least this score.
            top_k: at most this many tags an image.
        """
        return list(self.stream(images, classes=classes, threshold=threshold, top_k=top_k))

    def stream(
        self,
        images: Photo | Iterable[Photo],
        *,
        classes: Sequence[str] | None = None,
        threshold: float = 0.5,
        top_k: int | None = None,
    ) -> Iterator[Tagged]:
        """`tag` as the answers come, a request of up to 16 images at a time."""
        fields: list[tuple[str, str]] = [("threshold", repr(float(threshold)))]
        if top_k is not None:
            fields.append(("top_k", str(top_k)))
        if classes is not None:
            fields.append(("classes", "\n".join(_names(classes))))
        path = "/v1/tags" if classes is None else "/v1/classes"
        for files in _requests(images):
            answer = json.loads(self._ask("POST", path, *_form("images", files, fields)))
            yield from map(_tagged, answer["images"])

    def heatmap(
        self,
        image: Photo,
        name: str,
        *,
        kind: HeatmapKind = "fused",
        classes: Sequence[str] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Where a class is: (rows, columns) float32 on the patch grid, higher is likelier."""
        import numpy as np

        grid = json.loads(self._heatmap(image, name, kind, classes, "grid"))["grid"]
        return np.array(grid, dtype=np.float32)

    def overlay(
        self,
        image: Photo,
        name: str,
        *,
        kind: HeatmapKind = "fused",
        classes: Sequence[str] | None = None,
    ) -> Image:
        """The picture under the heatmap's colors, at most 1024 pixels a side."""
        from PIL import Image

        return Image.open(io.BytesIO(self._heatmap(image, name, kind, classes, "png")))

    def _heatmap(
        self, image: Photo, name: str, kind: str, classes: Sequence[str] | None, form: str
    ) -> bytes:
        fields = [("class", name), ("kind", kind), ("format", form)]
        if classes is not None:
            fields.append(("classes", "\n".join(_names(classes))))
        return self._ask("POST", "/v1/heatmap", *_form("image", [_file(image, 0)], fields))

    def _ask(
        self, method: str, path: str, content_type: str | None = None, body: bytes | None = None
    ) -> bytes:
        headers = dict(self._headers)
        if content_type is not None:
            headers["Content-Type"] = content_type
        for left in range(self._retries, -1, -1):
            response, content = self._send(method, path, headers, body)
            if response.status == 200:
                return content
            if response.status != 429 or left == 0:
                raise _error(response, content)
            time.sleep(min(float(response.getheader("Retry-After") or 1), 60))
        raise AssertionError("unreachable: the last try returns or raises")

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[HTTPResponse, bytes]:
        parts = self._parts
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout)
        try:
            connection.request(method, parts.path.rstrip("/") + path, body, dict(headers))
            response = connection.getresponse()
            return response, response.read()
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise ServiceError(
                f"No answer from {parts.geturl()} ({reason}). Is `piaa serve` running there?"
            ) from error
        finally:
            connection.close()


def _requests(images: Any) -> Iterator[list[tuple[str, bytes]]]:
    """Files of all images, as many together as one request shall hold."""
    alone = isinstance(images, str | os.PathLike | bytes) or hasattr(images, "__array_interface__")
    together: list[tuple[str, bytes]] = []
    size = 0
    for index, image in enumerate([images] if alone else images):
        file = _file(image, index)
        if together and (len(together) == _MOST_IMAGES or size + len(file[1]) > _MOST_BYTES):
            yield together
            together, size = [], 0
        together.append(file)
        size += len(file[1])
    if together:
        yield together


def _file(image: Any, index: int) -> tuple[str, bytes]:
    """Name and content: files as they are, pictures as PNG, which loses nothing."""
    if isinstance(image, bytes):
        return str(index), image
    if isinstance(image, str | os.PathLike):
        path = Path(image)
        try:
            return path.name, path.read_bytes()
        except OSError as error:
            raise InputError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    from piaa.images import open_image

    file = io.BytesIO()
    open_image(image).save(file, "PNG", compress_level=1)
    return str(index), file.getvalue()


def _names(classes: Sequence[str]) -> list[str]:
    if isinstance(classes, str):
        raise InputError(f"classes must be a list of names, not the string {classes!r}.")
    for name in classes:
        if not isinstance(name, str) or not name.strip() or len(name.splitlines()) != 1:
            raise InputError(f"A class must be a name of one line, not {name!r}.")
    return list(classes)


def _form(
    field: str, files: Sequence[tuple[str, bytes]], fields: Sequence[tuple[str, str]]
) -> tuple[str, bytes]:
    """Content type and body of a multipart form."""
    boundary = secrets.token_hex(16)
    parts: list[bytes] = []
    for name, text in fields:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        parts += [head.encode(), text.encode(), b"\r\n"]
    for file_name, content in files:
        # As browsers do it (WHATWG): these three characters would end the header's value.
        safe = file_name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{safe}"'
        parts += [f"{head}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()]
        parts += [content, b"\r\n"]
    parts.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(parts)


def _tagged(image: Mapping[str, Any]) -> Tagged:
    if "error" in image:
        return Tagged(image["name"], [], None, image["error"]["detail"])
    tags = [(tag["name"], tag["score"]) for tag in image["tags"]]
    return Tagged(image["name"], tags, (image["height"], image["width"]))


def _error(response: HTTPResponse, content: bytes) -> ServiceError:
    problem: dict[str, Any] = {}
    if (response.getheader("Content-Type") or "").startswith("application/problem+json"):
        problem = json.loads(content)
    said = f"{problem.get('title')}: {problem.get('detail')}" if problem else response.reason
    return ServiceError(
        f"The service answered {response.status}. {said}", status=response.status, problem=problem
    )
