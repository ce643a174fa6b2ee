"""The web application: the JSON API, and the page as static files. Nothing is loaded from elsewhere."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException

from eindiff.apps.page import limits, models
from eindiff.apps.page.examples import GROUPS, functions
from eindiff.apps.page.hosts import Hosts
from eindiff.apps.page.workers import Reply, Workers
from eindiff.version import __version__

STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".json": "application/json",
    ".webmanifest": "application/manifest+json", ".woff2": "font/woff2",
}  # fmt: skip
REASONS = {
    400: "The request is not one of HTTP with JSON.",
    403: "The page is not served under the name that was asked for.",
    504: "The time limit was reached.",
    411: "The length of the request is not given.",
    413: "The request is too long.",
    422: "The expression, or something else in the request, cannot be used.",
    429: "Too many requests of this client wait.",
    503: "Too many requests at the moment.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.Problem, "description": text} for status, text in REASONS.items()
}
SUMMARY = """Closed-form derivatives of tensor expressions. Every request stands for itself; nothing is stored."""

Handler = Callable[[Request], Awaitable[Response]]


def log(event: str, **fields: Any) -> None:
    """One line of JSON to the standard error. Nothing that a user wrote is ever in it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    print(json.dumps({"time": f"{stamp}Z", "event": event, **fields}), file=sys.stderr, flush=True)


def make_app(workers: Workers, log: Callable[..., None] = log, hosts: Hosts | None = None) -> FastAPI:
    """The application, with workers that are started and stopped with it, unless they are started already.

    Requests under other names than `hosts` allows are refused.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        own = not workers.is_started
        if own:
            workers.start()
        try:
            yield
        finally:
            if own:
                workers.stop()

    app = FastAPI(
        title="eindiff", version=__version__, description=SUMMARY, docs_url=None, redoc_url=None,
        lifespan=lifespan,
    )  # fmt: skip
    _add_errors(app)
    _add_tasks(app, workers)
    _add_facts(app, workers)
    _add_page(app)
    app.middleware("http")(_guarded(log, hosts))
    return app


# Around every request


def _guarded(log: Callable[..., None], hosts: Hosts | None) -> Callable[[Request, Handler], Awaitable[Response]]:
    """Security headers, the names of the server, the limit on the length of a request, and a line in the log."""

    async def guarded(request: Request, call: Handler) -> Response:
        began = time.perf_counter()
        refusal = _too_long(request) if hosts is None else _misnamed(request, hosts) or _too_long(request)
        response = await call(request) if refusal is None else refusal
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store" if request.url.path.startswith("/api") else "no-cache")
        known = request.scope.get("route")
        path = getattr(known, "path", "other")  # as it is declared: a path that a user made up is not logged
        milliseconds = round(1000 * (time.perf_counter() - began), 1)
        log("request", method=request.method, path=path, status=response.status_code, ms=milliseconds)
        return response

    return guarded


def _misnamed(request: Request, hosts: Hosts) -> Response | None:
    """What is answered to a request under a name that is not one of the server's: somebody else's page may send it."""
    if hosts.allows(request.headers.get("host", "")):
        return None
    return problem(403, REASONS[403], hint="`eindiff serve` with --allow-host and the name serves it")


def _too_long(request: Request) -> Response | None:
    """What is answered to a body that is too long, or of unknown length."""
    if "transfer-encoding" in request.headers:
        return problem(411, REASONS[411])
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) <= limits.LONGEST_BODY:
        return None
    return problem(413, f"the request has more than {limits.LONGEST_BODY} bytes, which is the most here")


def problem(status: int, message: str, **more: Any) -> Response:
    """An error as the model `Problem`."""
    headers = {"Retry-After": "2"} if status in (429, 503) else {}
    made = models.Problem(message=message, **more)
    body = json.dumps(made.model_dump(), ensure_ascii=False).encode("utf-8", "replace")  # a lone surrogate has no code
    return Response(body, status, headers, "application/json")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> Response:
        made = problem(error.status_code, str(error.detail))
        made.headers.update(error.headers or {})
        return made

    @app.exception_handler(RequestValidationError)
    async def of_fields(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        names = [str(part) for part in first["loc"] if part != "body"]
        field = names[0] if names and first["type"] != "json_invalid" else ""
        message = f"{field}: {first['msg']}" if field else str(first["msg"])
        if first["type"] == "string_too_long":
            most = first["ctx"]["max_length"]
            return problem(422, f"the text is longer than {most} characters, which is the most here", field=field)
        return problem(422, message, field=field)


# The API


async def _left(request: Request) -> None:
    """Wait until the client closes the connection: its page asks something else, or a person has stopped it."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _add_tasks(app: FastAPI, workers: Workers) -> None:
    """What workers do."""

    said = {"Limits": ", ".join(f"{name}={value:g}" for name, value in workers.limits.items())}

    async def ask(kind: str, body: models.Strict, request: Request) -> Response:
        address = request.client.host if request.client else ""
        name = request.headers.get("x-client", "")[: limits.LONGEST_NAME]
        work = asyncio.ensure_future(workers.ask(kind, body.model_dump(), address, name))
        gone = asyncio.ensure_future(_left(request))
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not work.done():
            work.cancel()
            return problem(503, "nobody waits for the answer")
        reply: Reply = work.result()
        if reply.status != 200:
            made = problem(reply.status, **reply.data)
            made.headers.update(said)
            return made
        return Response(reply.body, headers=said, media_type="application/json")

    def task(kind: str, asked: type[models.Strict], answer: type, summary: str) -> None:
        async def endpoint(body: Any, request: Any) -> Response:
            return await ask(kind, body, request)

        endpoint.__annotations__ = {"body": asked, "request": Request, "return": Response}
        app.post(
            f"/api/{kind}", response_model=answer, responses=PROBLEMS, summary=summary, operation_id=kind,
            name=kind,
        )(endpoint)  # fmt: skip

    task("parse", models.Text, models.Parsed, "What an expression is: its shape and variables")
    task("derive", models.Ask, models.DerivedData, "Derivatives of an expression")
    task("code", models.CodeAsk, models.Code, "Code for an expression and its derivatives")
    task("steps", models.Ask, models.Steps, "How a derivative comes about")
    task("check", models.Ask, models.Checked, "Derivatives against finite differences")
    task("graph", models.Ask, models.Graphs, "The expression DAG, in reverse and in cross-country mode")
    task("structure", models.SizedAsk, models.Structure, "The structure of a Hessian")
    task("cost", models.SizedAsk, models.CostData, "Operations and memory at given sizes")


def _add_facts(app: FastAPI, workers: Workers) -> None:
    """What is known without work."""

    @app.get("/api/examples", operation_id="examples", summary="Examples to start from")
    async def examples() -> models.Examples:
        return models.Examples(groups=GROUPS)

    @app.get("/api/settings", operation_id="settings", summary="Limits, and the functions of the language")
    async def settings() -> models.Settings:
        names = {name.lower(): value for name, value in vars(limits).items() if isinstance(value, int)}
        names["slow_at_once"] = workers.turns.most_slow_each
        return models.Settings(version=__version__, time_limit=workers.seconds, limits=names, functions=functions())

    @app.get("/api/health", operation_id="health", summary="Whether the server answers")
    async def health() -> models.Health:
        return models.Health(
            status="ok", version=__version__, workers=workers.count, busy=workers.busy, waiting=workers.waiting
        )


# The page


def _add_page(app: FastAPI) -> None:
    """The files of the page, each under its name. Only those that are there at the start are served."""
    files = {path.relative_to(STATIC).as_posix(): path for path in sorted(STATIC.rglob("*")) if path.suffix in TYPES}

    def serve(url: str, path: Path) -> None:
        async def file() -> Response:
            return FileResponse(path, media_type=TYPES[path.suffix])

        app.api_route(url, methods=["GET", "HEAD"], include_in_schema=False, name=url)(file)

    for name, path in files.items():
        serve(f"/{name}", path)
        if name == "index.html":
            serve("/", path)
