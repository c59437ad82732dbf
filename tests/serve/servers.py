"""Real servers on loopback, in a thread of the test's process."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from PIL import Image

from piaa import Recognizer
from piaa.client import _form
from piaa.serve.app import create_app
from piaa.serve.limits import Limits
from piaa.serve.running import address, listen, make_server

TOKEN = "correct horse battery staple"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def problem(self) -> str:
        """The kind of a problem; "" if it is none."""
        if self.headers.get("content-type") != "application/problem+json":
            return ""
        return str(self.json()["type"]).partition("#")[2]


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    port: int
    limits: Limits

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, content)

    def post(
        self, path: str, files: list[tuple[str, bytes]], field: str = "images", **fields: object
    ) -> Answer:
        """A form with files and fields."""
        kind, body = _form(field, files, [(name, str(value)) for name, value in fields.items()])
        return self.ask("POST", path, body, {"Content-Type": kind})

    def post_json(self, path: str, content: object) -> Answer:
        body = json.dumps(content).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/json"})

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def metric(self, name: str) -> float:
        for line in self.ask("GET", "/metrics").content.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no metric {name}")


@contextmanager
def running(
    recognizer: Recognizer, limits: Limits | None = None, token: str | None = None
) -> Iterator[Served]:
    limits = limits or Limits()
    with listen("127.0.0.1", 0) as listening:
        server = make_server(create_app(recognizer, limits=limits, token=token), limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        served = Served(address(listening), listening.getsockname()[1], limits)
        try:
            wait_for(lambda: server.started or not thread.is_alive())
            assert server.started, "the server did not start"
            yield served
        finally:
            server.should_exit = True
            # A request that was left hanging may take all the time that a server grants on its way out.
            thread.join(limits.upload_seconds + limits.deadline_seconds + 30)
            assert not thread.is_alive()


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def jpeg(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, **options)
    return file.getvalue()
