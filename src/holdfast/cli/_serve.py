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
    """What is asked, the same for every request."""

    target: Annotated[str, "The class that people want, where a request names none."]
    schema: Annotated[
        Path | None,
        Option(
            "--schema",
            "--space",
            help="How the model reads columns, and what a person can change: what `holdfast schema` wrote, or "
            "FeatureSpace.to_dict() as JSON. Without it: that of the candidates.",
            **FILE,
        ),
    ] = None
    method: Annotated[
        str,
        "How to look for recourse; `holdfast methods` lists them. By default rnce with candidates, closest without.",
    ] = ""


@command
def serve(
    served: Served,
    *,
    max_bytes: Annotated[int, COUNT, "The longest body of a request."] = 1_000_000,
    max_people: Annotated[int, COUNT, "The most people in a request."] = 1000,
    max_seconds: Annotated[
        float, "Processor time of a request; what is undecided by then is UNKNOWN."
    ] = 10.0,
    max_waiting: Annotated[int, COUNT, "The most requests that wait; one more is told 503."] = 64,
    ledger: Annotated[
        Path | None, {"dir_okay": False}, "Record every promise here before it is answered."
    ] = None,
    no_radius: Annotated[bool, "Do not record each promise's certified radius."] = False,
    secret: SecretFile = None,
    token_file: Annotated[
        Path | None,
        FILE,
        "A file with the token that every request for advice has to bear; only /health is open.",
    ] = None,
    audit_token_file: Annotated[
        Path | None,
        FILE,
        "A file with an auditor's token: answers /audit, which is closed otherwise; totals alone go to others.",
    ] = None,
    host: Annotated[
        str, "Where to listen; beyond this machine only with --token-file."
    ] = "127.0.0.1",
    port: Annotated[int, {"min": 0, "max": 65535}, "0 takes one that is free."] = 8000,
    workers: Annotated[int, COUNT, "How many processes answer: one for each core to be used."] = 1,
) -> None:
    """Answer certify, explain and audit over HTTP, in JSON: POST /certify, /explain, /audit; GET / says how.

    Model, schema, Δ and candidates are read once. One line of JSON for each request goes to stderr, without personal
    data.
    """
    from holdfast.service import RequestLimits, Service
    from holdfast.service import serve as run

    changes = served.needed()
    if served.schema is None and served.candidates is None:
        raise InvalidInputError(
            "--schema: expected one, or --candidates to take the columns from, got neither"
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
