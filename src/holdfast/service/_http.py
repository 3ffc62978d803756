"""The service over HTTP: paths, the token, limits, a queue for the one thread that computes, and logs.

A request takes milliseconds of plain Python and small arrays, which threads cannot share. So one thread computes one
request after the other, and a limited number of requests waits for a limited time. Use more processes for more cores.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import holdfast
from holdfast._deadline import Deadline
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError
from holdfast.service._body import TooLargeError, read_json
from holdfast.service._metrics import TEXT, Metrics
from holdfast.service._openapi import openapi
from holdfast.service._service import Service, UnavailableError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise holdfast.errors.MissingExtraError("starlette", "service", "the HTTP service") from error

LOG = logging.getLogger("holdfast.service")
# Browsers run nothing in a response, and keep no copy.
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_LONGEST_WORDS = 600
# The sender of too long a body is cut off after _PATIENCE seconds, or after _SILENCE seconds without data.
_PATIENCE, _SILENCE = 10.0, 1.0
_OPEN = "/health"
ADVISOR, AUDITOR = "advise", "audit"
ROLES = {ADVISOR, AUDITOR}
# The roles that may ask each question; documents and metrics are for all.
MAY_ASK = {"/certify": {ADVISOR}, "/explain": {ADVISOR}}
# Seconds after which a client of the busy service may retry.
_AGAIN = "1"

Answer = Callable[..., dict[str, Any]]


class Refusal(Exception):  # noqa: N818  # a response, which happens to be raised
    """A refused request: the status and the reason."""

    def __init__(self, status: int, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.headers = status, headers


class Early(Response):
    """A response before the end of the body; the rest of the body is read and dropped, so that the client reads it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond at once, and read on for a while."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while (await asyncio.wait_for(receive(), _SILENCE)).get("more_body"):
                    pass
        await send({"type": "http.response.body", "body": b""})


class Queue:
    """One thread that computes, and the requests that wait for it."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds, self.waiting = most, seconds, 0
        self._turn, self._thread = asyncio.Lock(), ThreadPoolExecutor(1, "holdfast")

    async def run(self, answer: Answer, content: bytes) -> dict[str, Any]:
        """The result for a body, which is read in the thread at its turn."""
        if self._turn.locked() and self.waiting >= self.most:
            raise Refusal(
                503,
                f"busy: {self.waiting} requests are waiting already; retry later",
                **{"retry-after": _AGAIN},
            )
        self.waiting += 1
        try:
            async with asyncio.timeout(self.seconds):
                await self._turn.acquire()
        except TimeoutError:
            words = f"busy: the request waited {self.seconds:g} seconds; retry later"
            raise Refusal(503, words, **{"retry-after": _AGAIN}) from None
        finally:
            self.waiting -= 1
        try:
            # Reading the body is part of the request's time.
            return await asyncio.get_running_loop().run_in_executor(
                self._thread,
                lambda: answer(deadline=Deadline.after(self.seconds), document=read_json(content)),
            )
        finally:
            self._turn.release()

    def close(self) -> None:
        """Finish the running request."""
        self._thread.shutdown()


class Endpoints:
    """The functions of the paths."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        limits = service.limits
        self.service, self.metrics = service, metrics
        self.people = Queue(limits.waiting, limits.seconds)
        # An audit reads the whole ledger; only another audit waits for it.
        self.audits = Queue(1, limits.seconds)
        self.document = openapi(service)

    def routes(self) -> list[Route]:
        """The paths of this service."""
        asked = [
            Route(f"/{name}", self._asked(name), methods=["POST"]) for name in self.service.paths
        ]
        shown = {
            "/": self._openapi,
            "/openapi.json": self._openapi,
            "/metrics": self._metrics,
            _OPEN: self._health,
        }
        return [*asked, *(Route(path, method, methods=["GET"]) for path, method in shown.items())]

    def _asked(self, name: str) -> Callable[[Request], Any]:
        answer: Answer = getattr(self.service, name)

        async def endpoint(request: Request) -> Response:
            try:
                content = await self._body(request)
                if name == "audit":
                    own = partial(answer, auditor=AUDITOR in request.state.roles)
                    found = await self._audited(own, content)
                else:
                    found = await self.people.run(answer, content)
            # Every error ends here: a server that logs it could log data of a person.
            except Exception as error:
                return await _refused(request, error)
            self.metrics.said(f"/{name}", found)
            request.state.people = len(found.get("people", ()))
            return _json(found)

        return endpoint

    async def _audited(self, answer: Answer, content: bytes) -> dict[str, Any]:
        """An audit beyond the time limit cannot be stopped: it continues without a client, and its result is lost."""
        seconds = self.service.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self.audits.run(answer, content))
        except TimeoutError:
            words = f"audit: not finished within {seconds:g} seconds; run `holdfast audit`, which has no limit"
            raise Refusal(503, words, **{"retry-after": "60"}) from None

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(415, f"content-type: expected application/json, got {kind or 'none'}")
        most, seconds = self.service.limits.body, self.service.limits.seconds
        length, body = request.headers.get("content-length", ""), bytearray()
        too_long = Refusal(
            413, f"body: expected at most {most:,} bytes, got more", connection="close"
        )
        if length.isdecimal() and int(length) > most:
            raise too_long
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise too_long
        except TimeoutError:
            words = f"body: expected all of it within {seconds:g} seconds, got {len(body):,} bytes"
            raise Refusal(408, words, connection="close") from None
        return bytes(body)

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok", "version": holdfast.__version__})

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text(self.people.waiting), media_type=TEXT)

    async def _openapi(self, request: Request) -> Response:
        return _json(self.document)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """At the end, finish the running requests."""
        yield
        self.people.close()
        self.audits.close()


def _json(
    document: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    kind: type[Response] = Response,
) -> Response:
    """A response in ASCII: text without an encoding, such as half a character, is escaped."""
    content = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return kind(content, status, headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    """An error as a response, with the message of the library; an unforeseen error has no details."""
    status, headers, words = 500, {}, "an unforeseen error; the log has its type"
    if isinstance(error, Refusal):
        status, headers, words = error.status, error.headers, str(error)
    elif isinstance(error, UnavailableError | FileFormatError):
        status, headers, words = 503, {"retry-after": _AGAIN}, str(error)
    elif isinstance(error, HoldfastError):
        status, words = (413 if isinstance(error, TooLargeError) else 422), str(error)
    elif isinstance(error, ClientDisconnect):
        status, words = 499, "the client has closed the connection"
    elif isinstance(error, HTTPException):
        status, headers = error.status_code, dict(error.headers or {})
        words = {
            404: "path: unknown; / lists the paths",
            405: f"method: expected {headers.get('Allow')} at this path, got {request.method}",
        }.get(status, error.detail)
    request.state.error = type(error).__name__
    kind = Early if isinstance(error, Refusal) and status == 413 else Response
    return _json({"error": words[:_LONGEST_WORDS]}, status, headers, kind)


class Guarded:
    """The application with access control, and a line in the log for each request.

    A page in a browser must not reach a service on this machine. So without a token for advice, only requests to a name
    of this machine are accepted.
    """

    def __init__(
        self, app: ASGIApp, tokens: Mapping[str, str], paths: frozenset[str], metrics: Metrics
    ) -> None:
        self.app, self.paths, self.metrics, self.tokens = app, paths, metrics, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond, and log the request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name, started, status = secrets.token_hex(8), time.perf_counter(), 0
        state = scope.setdefault("state", {})

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = {**_HEADERS, "x-request-id": name}
                message["headers"] += [
                    (key.encode(), value.encode()) for key, value in extra.items()
                ]
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self.app(scope, receive, noted)
            else:
                answer = await _refused(Request(scope), refusal)
                await answer(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.answered(path, status, seconds)
            line = {"request": name, "path": path, "status": status, "seconds": round(seconds, 6)}
            said = {key: state[key] for key in ("people", "error") if key in state}
            LOG.log(logging.ERROR if status in (0, 500) else logging.INFO, {**line, **said})

    def _refusal(self, scope: Scope) -> Refusal | None:
        """The reason for a refusal, or None; the roles are in the request's state."""
        headers, path = dict(scope["headers"]), scope["path"]
        roles = {ADVISOR} - self.tokens.keys()
        if roles:
            host = headers.get(b"host", b"").decode("latin-1")
            if not is_this_machine(
                host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
            ):
                return Refusal(
                    403, "host: expected a name of this machine, such as 127.0.0.1, got another"
                )
        if b"authorization" in headers and self.tokens:
            kind, _, given = headers[b"authorization"].partition(b" ")
            bears = {
                role
                for role, token in self.tokens.items()
                if hmac.compare_digest(given.strip(), token.encode()) and kind.lower() == b"bearer"
            }
            roles = roles | bears if bears else set()
        scope["state"]["roles"] = roles
        allowed = MAY_ASK.get(path, ROLES)
        if path != _OPEN and not roles & allowed:
            words = f"authorization: expected the bearer token of {' or '.join(sorted(allowed))}, got another or none"
            return Refusal(401, words, **{"www-authenticate": "Bearer"})
        return None


def is_this_machine(host: str) -> bool:
    """Whether a name or an address means only this machine.

    Examples
    --------
    >>> [is_this_machine(host) for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def application(service: Service, *, tokens: Mapping[str, str] | None = None) -> ASGIApp:
    """The service as an ASGI application, for uvicorn or another server.

    Parameters
    ----------
    service
        The service.
    tokens
        A token for each role, ``{"advise": ..., "audit": ...}``. Each request except ``/health`` sends one as
        ``Authorization: Bearer ...``. Without a token for "advise", users of this machine need none. Without a token
        for "audit", ``/audit`` returns totals only.
    """
    tokens = {} if tokens is None else dict(tokens)
    if not tokens.keys() <= ROLES or len(set(tokens.values())) < len(tokens):
        raise InvalidInputError(
            f"tokens: expected a mapping from roles ({', '.join(sorted(ROLES))}) to tokens that differ, got another"
        )
    metrics = Metrics(version=holdfast.__version__, model=str(service.facts["model"]))
    endpoints = Endpoints(service, metrics)
    routes = endpoints.routes()
    known: Any = dict.fromkeys((Refusal, HoldfastError, HTTPException, Exception), _refused)
    app = Starlette(routes=routes, exception_handlers=known, lifespan=endpoints.lifespan)
    app.router.redirect_slashes = False
    return Guarded(app, tokens, frozenset(route.path for route in routes), metrics)
