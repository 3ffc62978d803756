"""The command ``serve``: the library as an HTTP service, for one model and one Δ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Option

from holdfast.cli._ledger import SecretFile, read_secret
from holdfast.cli._options import COUNT, FILE, Classes, command
from holdfast.cli._recourse import Searching
from holdfast.cli._screens import say
from holdfast.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Served(Classes, Searching):
    """The settings of every request."""

    target: Annotated[str, "The class that people want, if a request names none."]
    schema: Annotated[
        Path | None,
        Option(
            "--schema",
            "--space",
            help="What a person can change: the file of `holdfast schema`. Without it: from --candidates.",
            **FILE,
        ),
    ] = None
    method: Annotated[
        str,
        "NAME",
        "How advice is found; `holdfast methods` lists the names. [default: rnce with --candidates, else closest]",
    ] = ""


@command
def serve(
    served: Served,
    *,
    max_bytes: Annotated[int, COUNT, "The longest body of a request, in bytes."] = 1_000_000,
    max_people: Annotated[int, COUNT, "The most people in a request."] = 1000,
    max_seconds: Annotated[
        float, "SECONDS", "Processor time of a request; undecided rows are UNKNOWN."
    ] = 10.0,
    max_waiting: Annotated[int, COUNT, "The most waiting requests; others get 503."] = 64,
    ledger: Annotated[
        Path | None, {"dir_okay": False}, "Record every promise here before the response."
    ] = None,
    no_radius: Annotated[bool, "Record no certified radii."] = False,
    secret: SecretFile = None,
    token_file: Annotated[
        Path | None,
        FILE,
        "A file with the token that every request needs, except /health.",
    ] = None,
    audit_token_file: Annotated[
        Path | None,
        FILE,
        "A file with an auditor's token for /audit, which is closed otherwise.",
    ] = None,
    host: Annotated[
        str, "The address to listen at; other machines only with --token-file."
    ] = "127.0.0.1",
    port: Annotated[int, {"min": 0, "max": 65535}, "The port; 0 takes a free one."] = 8000,
    workers: Annotated[int, COUNT, "Number of processes."] = 1,
) -> None:
    """Serve /certify, /explain and /audit over HTTP, in JSON.

    GET / describes the interface. Model, schema, Δ and candidates are read once. Each request is logged on stderr as
    one line of JSON without personal data.

        $ holdfast serve --model model.npz --schema schema.json --target 1 --delta 0.02
    """
    from holdfast.service import RequestLimits, Service
    from holdfast.service import serve as run

    changes = served.needed()
    if audit_token_file is not None and ledger is None:
        raise InvalidInputError("--audit-token-file also needs --ledger (the promises to audit)")
    if served.schema is None and served.candidates is None:
        raise InvalidInputError(
            "this command needs --schema (the file of `holdfast schema`), or --candidates (a table to derive it from)"
        )
    way = served.method or ("closest" if served.candidates is None else "rnce")
    generator, space, _ = replace(served, method=way).way(served.loaded, served.space)
    service = Service(
        served.loaded,
        space=space,
        changes=changes,
        target=served.label,
        generator=generator,
        ledger=ledger,
        secret=None if ledger is None else read_secret(secret),
        radius=not no_radius,
        audited=audit_token_file is not None,
        seed=served.seed,
        limits=RequestLimits(max_bytes, max_people, max_seconds, max_waiting),
    )
    files = {"advise": token_file, "audit": audit_token_file}
    tokens = {
        role: path.read_text(encoding="utf-8").strip() for role, path in files.items() if path
    }
    run(
        service,
        host=host,
        port=port,
        tokens=tokens,
        workers=workers,
        ready=lambda url: say(f"listening at {url}"),
    )
