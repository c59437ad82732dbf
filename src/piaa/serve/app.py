"""The application: addresses, and who answers at each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from piaa import __version__
from piaa.recognizer import Recognizer
from piaa.serve import metrics as prometheus
from piaa.serve.limits import Limits
from piaa.serve.openapi import document, problem_responses, request_body
from piaa.serve.problems import PAGE, ProblemError, problems_page
from piaa.serve.schemas import HeatmapAnswer, ModelAnswer, State, TagsAnswer
from piaa.serve.security import Guard
from piaa.serve.service import CLASSES, HEATMAP, TAGS, Service

_SCRIPT: Final = "text/javascript; charset=utf-8"
ASSETS: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/app.js": ("app.js", _SCRIPT),
    "/api.js": ("api.js", _SCRIPT),
    "/heat.js": ("heat.js", _SCRIPT),
    "/photo.js": ("photo.js", _SCRIPT),
    "/results.js": ("results.js", _SCRIPT),
}
_OPEN: Final = (*ASSETS, PAGE, "/healthz", "/readyz")
_BODY_PROBLEMS: Final = (
    "malformed-body",
    "slow-upload",
    "too-large",
    "too-many-parts",
    "wrong-content-type",
    "invalid",
    "busy",
    "starting",
    "deadline",
)


def create_app(
    recognizer: Recognizer, *, limits: Limits | None = None, token: str | None = None
) -> FastAPI:
    """A recognizer as an ASGI application; `piaa.serve.running.serve` runs it.

    Args:
        recognizer: answers as it is now; fitting it further has no effect.
        limits: how much it takes on.
        token: who does not send it is let to the page and to the health checks only. Without one,
            requests must come from this machine.
    """
    service = Service(recognizer, limits or Limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.engine.start()
        yield
        await service.engine.close()

    app = FastAPI(
        title="piaa",
        version=__version__,
        description="Which of your labels are in each of your photographs.",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_api(app, service, () if token is None else ("token-needed",))
    _add_page(app)
    whole = document(app, service.limits, token=token is not None)
    app.openapi = lambda: whole  # type: ignore[method-assign]
    app.add_exception_handler(HTTPException, _raise_as_problem)
    paths = [route.path for route in app.routes if hasattr(route, "path")]
    app.add_middleware(Guard, token=token, paths=paths, open_paths=_OPEN, metrics=service.metrics)
    return app


def _add_api(app: FastAPI, service: Service, always: tuple[str, ...]) -> None:
    limits = service.limits
    for_bodies = problem_responses(*always, *_BODY_PROBLEMS)

    @app.post(
        "/v1/tags",
        response_model=TagsAnswer,
        responses=for_bodies,
        openapi_extra=request_body(TAGS, limits),
    )
    async def tags(request: Request) -> Response:
        """Which of the model's classes are in each picture."""
        return _json(await service.tags(request))

    @app.post(
        "/v1/classes",
        response_model=TagsAnswer,
        responses=for_bodies,
        openapi_extra=request_body(CLASSES, limits),
    )
    async def classes(request: Request) -> Response:
        """Which of the classes in the request are in each picture, zero-shot."""
        return _json(await service.classes(request))

    @app.post(
        "/v1/heatmap",
        response_model=HeatmapAnswer,
        responses={
            200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
            **problem_responses(
                *always,
                *_BODY_PROBLEMS,
                "unknown-class",
                "not-remembered",
                "too-many-pixels",
                "not-a-picture",
                "decoding-stopped",
            ),
        },
        openapi_extra=request_body(HEATMAP, limits),
    )
    async def heatmap(request: Request) -> Response:
        """Where a class is in a picture: an overlay of at most 1024 pixels a side, or a grid."""
        answer = await service.heatmap(request)
        if isinstance(answer, bytes):
            return Response(answer, media_type="image/png")
        return _json(answer)

    @app.get("/v1/model", response_model=ModelAnswer, responses=problem_responses(*always))
    async def model() -> Response:
        """Classes, thresholds, encoder, what the fit found, and the limits of this service."""
        return _json(service.model)

    @app.get("/healthz", response_model=State)
    async def healthz() -> State:
        """Whether the process answers at all."""
        return State(status="ok")

    @app.get("/readyz", response_model=State, responses=problem_responses("starting"))
    async def readyz() -> State:
        """Whether pictures are taken on."""
        if not service.engine.ready:
            raise ProblemError("starting", "The service is starting, or about to end.")
        return State(status="ok")

    @app.get("/metrics", response_class=PlainTextResponse, responses=problem_responses(*always))
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(service.metrics_text(), media_type=prometheus.MEDIA_TYPE)


def _add_page(app: FastAPI) -> None:
    folder = files("piaa.serve") / "static"
    for path, (name, media_type) in ASSETS.items():
        _add_asset(app, path, (folder / name).read_bytes(), media_type)

    @app.get(PAGE, response_class=HTMLResponse, include_in_schema=False)
    async def problems() -> str:
        return problems_page()


def _add_asset(app: FastAPI, path: str, content: bytes, media_type: str) -> None:
    @app.get(path, include_in_schema=False)
    async def asset() -> Response:
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")


async def _raise_as_problem(_: Request, error: Exception) -> Response:
    """An address or a method that is not there, in the same form as every other problem."""
    if not isinstance(error, HTTPException):
        raise error
    slug = "wrong-method" if error.status_code == 405 else "not-found"
    detail = "See the header Allow." if slug == "wrong-method" else "No route has this path."
    raise ProblemError(slug, detail, headers=error.headers)
