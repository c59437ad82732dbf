"""What a service answers when it cannot: problem details, RFC 9457.

Every kind of problem is in `KINDS`. Its `type` is a link to its entry on the page /problems, which is
made from the same table.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

MEDIA_TYPE: Final = "application/problem+json"
PAGE: Final = "/problems"


@dataclass(frozen=True)
class Kind:
    """A kind of problem: its status, what it is, and what to do about it."""

    status: int
    title: str
    advice: str


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "malformed-body": Kind(
            400,
            "The body cannot be read",
            "Send multipart/form-data with its boundary, or JSON in UTF-8.",
        ),
        "token-needed": Kind(
            401,
            "A token is needed",
            "Send the header 'Authorization: Bearer TOKEN' with the token the service was started with.",
        ),
        "foreign-page": Kind(
            403,
            "Another site may not use this service",
            "Open the service's own page, or call it from a program. To reach it under another host name, "
            "start it with a token.",
        ),
        "not-found": Kind(404, "There is nothing at this address", "See /openapi.json."),
        "unknown-class": Kind(
            404, "The model has no such class", "GET /v1/model lists them; names are exact."
        ),
        "not-remembered": Kind(
            404, "This picture is not remembered", "Send the picture itself in place of its sha256."
        ),
        "wrong-method": Kind(405, "This address takes another method", "See the header Allow."),
        "slow-upload": Kind(408, "The body came too slowly", "Send fewer or smaller pictures."),
        "too-large": Kind(
            413, "The body is too large", "Send fewer pictures a request, or smaller ones."
        ),
        "too-many-parts": Kind(
            422, "The body has too many parts", "Send fewer pictures a request."
        ),
        "too-many-pixels": Kind(413, "The picture has too many pixels", "Scale it down."),
        "wrong-content-type": Kind(
            415,
            "The body has a type that is not read",
            "Send multipart/form-data or application/json.",
        ),
        "invalid": Kind(
            422, "The request does not have the form it needs", "Correct what 'errors' points at."
        ),
        "not-a-picture": Kind(
            422,
            "The picture cannot be read",
            "Send it whole, as JPEG, PNG, WebP, GIF, TIFF, BMP, AVIF, JPEG 2000 or PPM.",
        ),
        "decoding-stopped": Kind(
            422,
            "Decoding the picture was stopped",
            "It took more time or memory than a picture may. Save it again as JPEG or PNG.",
        ),
        "busy": Kind(
            429, "The service is busy", "Try again after the seconds in the header Retry-After."
        ),
        "internal": Kind(500, "The service failed", "Its log says why. Please report it."),
        "starting": Kind(503, "The service is not ready", "Try again in a moment."),
        "too-many-connections": Kind(
            503, "Too many connections are open", "Close some, or try again in a moment."
        ),
        "deadline": Kind(
            504, "There was no answer in time", "Try again later, or with fewer pictures a request."
        ),
    }
)


class ProblemError(Exception):
    """A problem on its way to the client.

    Attributes:
        slug: one of `KINDS`.
        detail: this occurrence: what was seen and what is accepted.
        errors: parts of the request at fault, each with a `detail` and a JSON `pointer`.
        headers: of the response.
    """

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(slug, detail)
        self.slug, self.detail, self.errors = slug, detail, errors
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return f"{self.slug}: {self.detail}"

    @property
    def kind(self) -> Kind:
        return KINDS[self.slug]

    def to_dict(self) -> dict[str, Any]:
        members: dict[str, Any] = {
            "type": f"{PAGE}#{self.slug}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
        }
        if self.errors:
            members["errors"] = [dict(error) for error in self.errors]
        return members


def problems_page() -> str:
    """All kinds, as a plain HTML page."""
    entries = "".join(
        f'<dt id="{slug}">{kind.status} {html.escape(kind.title)}</dt>'
        f"<dd>{html.escape(kind.advice)}</dd>"
        for slug, kind in KINDS.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>piaa: problems</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/style.css">'
        f'<main class="plain"><h1>Problems</h1><dl>{entries}</dl></main></html>'
    )
