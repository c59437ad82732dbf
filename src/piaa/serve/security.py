"""Who may ask, and what every answer carries."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import socket
import time
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from piaa.errors import InputError
from piaa.serve.metrics import Metrics
from piaa.serve.problems import MEDIA_TYPE, ProblemError

_log = logging.getLogger("piaa.serve")

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
GONE: Final = 499
"""Recorded for clients that hang up while they send; nothing is answered."""
HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """ASGI middleware around the whole application: lets in, counts, logs, and adds headers.

    Without a token the service is for this machine alone: requests must name a loopback host (a page
    elsewhere cannot, not even by pointing its own name here) and must not come from another site.
    With a token they must carry it, except for `open_paths`.

    Logs hold method, path and status. A path that is no route of ours is not even written down.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        paths: Collection[str],
        open_paths: Collection[str],
        metrics: Metrics,
    ) -> None:
        self._app, self._metrics = app, metrics
        self._token = None if token is None else _digest(token)
        self._paths, self._open_paths = frozenset(paths), frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_with_headers)
        except ProblemError as problem:
            await send_problem(problem, send_with_headers)
        except ClientDisconnect:
            status = GONE
        except Exception:
            _log.exception("a request failed")
            if status:
                raise  # half an answer is out: the server cuts the connection
            failure = ProblemError("internal", "The service could not answer; its log says why.")
            await send_problem(failure, send_with_headers)
        finally:
            self._record(scope, status, time.perf_counter() - start)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._token is not None:
            if scope["path"] not in self._open_paths and not self._carries_token(headers):
                raise ProblemError(
                    "token-needed",
                    "The header 'Authorization: Bearer TOKEN' is missing or has another token.",
                    headers={"WWW-Authenticate": "Bearer"},
                )
            return
        host = headers.get("host", "")
        if not is_loopback_name(_host_name(host)):
            raise ProblemError("foreign-page", f"The host {host[:100]!r} is not this machine.")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != host.lower():
            raise ProblemError("foreign-page", f"The request comes from {origin[:100]!r}.")

    def _carries_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Digests have one length, so that not even the token's length shows in the time this takes.
        same = hmac.compare_digest(_digest(given.strip()), self._token or b"")
        return same and scheme.lower() == "bearer"

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"
        self._metrics.requests.add(path=path, status=str(status))
        if path.startswith("/v1/"):
            self._metrics.seconds.add(seconds)
        _log.info("%s %s %d %.0f ms", _method(scope), path, status, 1000 * seconds)


async def send_problem(problem: ProblemError, send: Send) -> None:
    body = json.dumps(problem.to_dict()).encode()
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.kind.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def check_binding(host: str, token: str | None) -> None:
    """Refuse to listen beyond this machine without a token."""
    if token is not None and len(token) < 16:
        raise InputError(
            f"The token has {len(token)} characters; give at least 16, such as those of "
            "python -c 'import secrets; print(secrets.token_urlsafe())'."
        )
    if token is None and not is_loopback(host):
        raise InputError(
            f"The service would be reachable from other machines at {host!r}. Give a token (--token, or "
            "the variable PIAA_TOKEN), or listen at 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are this machine's own; "" is every address there is."""
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"The host {host!r} has no address ({error}). Give another.") from error
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def is_loopback_name(name: str) -> bool:
    """The same of a request's Host, without asking the network: a name can be made to point anywhere."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """A Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # a bracket without its other half
        return ""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _method(scope: Scope) -> str:
    known = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in known else "?"
