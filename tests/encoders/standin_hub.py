"""A model hub on localhost: as much of the protocol as `huggingface_hub` needs to fetch files.

It answers HEAD and GET of `/{repo}/resolve/{revision}/{file}`, counts what it is asked, and can
misbehave on purpose: break a transfer off or send bytes that differ from the published hash.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT = "c0ffee" + "0" * 34
REPO = "org/tiny"
FILE = "model.safetensors"


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    file: str
    range: str | None


@dataclass
class StandInHub:
    """Repositories by name, each with one commit, and a record of all requests.

    Attributes:
        revisions: Names under which the commit of every repository is known.
        cuts: Files whose next transfer breaks off after so many bytes.
        forged: Files whose bytes are not those that the published hash is of.
        mute: Whether it closes connections without an answer.
    """

    address: str
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: tuple[str, ...] = ("main", "v1", COMMIT)
    requests: list[Asked] = field(default_factory=list)
    cuts: dict[str, int] = field(default_factory=dict)
    forged: dict[str, bytes] = field(default_factory=dict)
    mute: bool = False

    def publish(self, repo: str, files: Mapping[str, bytes]) -> None:
        self.repositories[repo] = dict(files)

    def transfers(self) -> list[str]:
        """Files whose content was asked for, in order."""
        return [asked.file for asked in self.requests if asked.method == "GET"]

    def find(self, repo: str, revision: str, file: str) -> bytes | str:
        """The file, or the hub's code for what is missing."""
        if repo not in self.repositories:
            return "RepoNotFound"
        if revision not in self.revisions:
            return "RevisionNotFound"
        return self.repositories[repo].get(file, "EntryNotFound")


@contextmanager
def standin_hub() -> Iterator[StandInHub]:
    """A hub that listens on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
            if match is None:
                self.fail("EntryNotFound")
                return
            repo, revision, file = map(unquote, match.groups())
            hub.requests.append(Asked(self.command, file, self.headers["Range"]))
            content = hub.find(repo, revision, file)
            if hub.mute:
                self.close_connection = True
                return
            if isinstance(content, str):
                self.fail(content)
            else:
                self.send(file, content)

        def fail(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            if code == "EntryNotFound":
                self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send(self, file: str, content: bytes) -> None:
            digest = hashlib.sha256(content).hexdigest()
            size = len(content)
            body = hub.forged.get(file, content)
            start = 0
            if self.headers["Range"]:
                start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                body = body[start:]
            self.send_response(206 if start else 200)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{digest}"')
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(body)))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            if not file.endswith(".json"):  # as for large files, which lie behind the repository
                self.send_header("X-Linked-ETag", f'"{digest}"')
                self.send_header("X-Linked-Size", str(size))
            self.end_headers()
            if self.command == "GET":
                cut = hub.cuts.pop(file, None)
                self.wfile.write(body[:cut])
                self.close_connection = cut is not None

        def log_message(self, format: str, *args: object) -> None:
            """Not on stderr, which the tests look at."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub = StandInHub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
