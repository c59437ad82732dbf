"""The application on a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from piaa.errors import InputError
from piaa.serve.limits import Limits
from piaa.serve.problems import MEDIA_TYPE, ProblemError

_BACKLOG = 256
_KEEP_ALIVE_SECONDS = 15


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Early, so that a taken port costs no loading."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns off Nagle's algorithm for such sockets only. With it,
    # an answer on a connection that is kept open waits 40 ms for the client's delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
        return listening
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        advice = "Give another --port; 0 takes a free one." if taken else "Give another --host."
        reason = "it is taken" if taken else error.strerror or str(error)
        raise InputError(f"Cannot listen at {host} port {port}: {reason}. {advice}") from error
    except OverflowError as error:
        listening.close()
        raise InputError(f"port must lie in 0 to 65535, not {port}.") from error


def address(listening: socket.socket) -> str:
    """Where to find it, as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """A server that gives accepted requests all the time they may take before it stops."""
    config = uvicorn.Config(
        app,
        http=patient_protocol(limits),
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(limits.upload_seconds + limits.deadline_seconds) + 5,
    )
    return uvicorn.Server(config)


def serve(app: FastAPI, listening: socket.socket, limits: Limits) -> None:
    """Serve until SIGINT or SIGTERM, then answer what was accepted."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    make_server(app, limits).run(sockets=[listening])


def patient_protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's HTTP, whose patience has an end.

    A connection must send the head of a request within `head_seconds` of opening or of the answer
    before, the rest of a refused body included; uvicorn itself would wait for ever once the first byte
    has come. And there are at most `connections` of them.
    """

    class PatientProtocol(H11Protocol):
        _clock: asyncio.TimerHandle | None = None

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.access_log = False  # whatever handlers there are: ours leaves out what was asked

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                most = f"{limits.connections} connections are open, as many as there may be."
                self._refuse(ProblemError("too-many-connections", most))
                return
            self._start_clock()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._answering():
                self._stop_clock()

        def on_response_complete(self) -> None:
            self._start_clock()
            super().on_response_complete()
            if self._answering():  # the next request was there already
                self._stop_clock()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_clock()
            super().connection_lost(exc)

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _start_clock(self) -> None:
            self._stop_clock()
            seconds = max(limits.head_seconds, self.timeout_keep_alive if self.cycle else 0)
            self._clock = self.loop.call_later(seconds, self._lose_patience)

        def _stop_clock(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

        def _lose_patience(self) -> None:
            if self.transport.is_closing() or self._answering():
                return
            if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
                late = f"The head of the request was not there after {limits.head_seconds:g} s."
                self._refuse(ProblemError("slow-upload", late))
            else:
                self.transport.close()

        def _refuse(self, problem: ProblemError) -> None:
            """Answer without a request, in the same form as the application, and hang up."""
            body = json.dumps(problem.to_dict())
            status = problem.kind.status
            self.transport.write(
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
            )
            self.transport.close()

    return PatientProtocol
