"""The service in uvicorn: address, processes and logs."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from holdfast._given import whole_number
from holdfast.errors import InvalidInputError, MissingExtraError
from holdfast.service._http import ADVISOR, application, is_this_machine
from holdfast.service._service import Service

_LEAST_TOKEN = 16
# Connections at once; beyond them uvicorn itself responds with 503.
_CONNECTIONS = 1000


class JsonLines(logging.Formatter):
    """A log line as a JSON object: time, level and message."""

    def format(self, record: logging.LogRecord) -> str:
        """The record in one line; an exception by its type only, because its message may be about a person."""
        said = record.msg if isinstance(record.msg, dict) else {"message": record.getMessage()}
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        failed = record.exc_info[0] if record.exc_info else None
        kind = {} if failed is None else {"error": failed.__name__}
        return json.dumps({"time": when, "level": record.levelname.lower(), **said, **kind})


def serve(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    tokens: Mapping[str, str] | None = None,
    workers: int = 1,
    ready: Callable[[str], object] = lambda url: None,
) -> None:
    """Answer requests until the process is told to end.

    Parameters
    ----------
    service
        The service.
    host, port
        The address to listen at; port 0 takes a free one. An address of another machine needs a token for advice.
    tokens
        As for `application`, at least 16 characters each.
    workers
        The number of processes, each with one thread that computes. All write to the ledger, in turn.
    ready
        Called with the address once it is bound.
    """
    tokens = {} if tokens is None else tokens
    if ADVISOR not in tokens and not is_this_machine(host):
        raise InvalidInputError(
            f"host: {host} can be reached by others, so it needs a token for advice; pass one, or use 127.0.0.1"
        )
    if short := [role for role, token in tokens.items() if len(token) < _LEAST_TOKEN]:
        raise InvalidInputError(
            f"tokens: expected at least {_LEAST_TOKEN} characters for {short[0]}, got {len(tokens[short[0]])}"
        )
    workers = whole_number(workers, "workers", least=1)
    with listen(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}")
        if workers == 1:
            _work(service, tokens, listener)
        else:
            _supervise(service, tokens, listener, workers)


def listen(host: str, port: int) -> socket.socket:
    """A socket that waits for connections.

    It states TCP as its protocol. Only then asyncio sends short responses at once; otherwise the system delays the
    second half of each by 40 milliseconds.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidInputError(
            f"port: cannot listen at {host}:{port}: {error}; choose another port"
        ) from error
    return listener


def _work(service: Service, tokens: Mapping[str, str], listener: socket.socket) -> None:
    """Answer in this process."""
    server = server_of(service, tokens)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("holdfast.service", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.INFO)
    # A warning, too, only by its type and its place.
    warnings.showwarning = lambda message, category, filename, lineno, *_: logging.getLogger(
        "holdfast.service"
    ).warning({"warning": category.__name__, "where": f"{Path(filename).name}:{lineno}"})
    server.run([listener])


def server_of(service: Service, tokens: Mapping[str, str]) -> Any:
    """The server of uvicorn, not listening yet."""
    try:
        import uvicorn
        from uvicorn.protocols.http.auto import AutoHTTPProtocol
    except ImportError as error:
        raise MissingExtraError("uvicorn", "service", "the HTTP service") from error
    seconds = service.limits.seconds

    class Punctual(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """A connection that is closed if a request's header does not arrive in time; uvicorn itself has no limit."""

        late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch(None)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch(self.cycle)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.late is not None:
                self.late.cancel()

        def _watch(self, cycle: Any) -> None:
            """The time runs from the first byte until a request is being answered."""
            asked = cycle is not None and not cycle.response_complete
            if asked and self.late is not None:
                self.late.cancel()
                self.late = None
            elif not asked and self.late is None:
                self.late = self.loop.call_later(seconds, self.transport.close)

    config: dict[str, Any] = {
        "http": Punctual, "log_config": None, "access_log": False, "server_header": False, "date_header": False,
        "limit_concurrency": _CONNECTIONS, "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": round(2 * seconds) + 1,
    }  # fmt: skip
    return uvicorn.Server(uvicorn.Config(application(service, tokens=tokens), **config))


def _worker(service: Service, tokens: Mapping[str, str], listener: socket.socket) -> None:
    """Answer in a separate process, until the parent process ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    _work(service, tokens, listener)


def _supervise(
    service: Service, tokens: Mapping[str, str], listener: socket.socket, workers: int
) -> None:
    """Several processes at one address; a dead one is replaced."""
    fresh = multiprocessing.get_context("spawn").Process
    ended = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: ended.set())
    running: list[Any] = []
    try:
        while not ended.is_set():
            running = [process for process in running if process.is_alive()]
            for _ in range(workers - len(running)):
                process = fresh(target=_worker, args=(service, tokens, listener))
                process.start()
                running.append(process)
            wait([process.sentinel for process in running], timeout=0.5)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join()
