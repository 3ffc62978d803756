"""The command ``check``: do certificates hold? Asked of `holdfast.checker`, which trusts nobody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from holdfast import checker
from holdfast.cli.options import BROKEN, FILE, Debug, TrustPickle, plain_errors
from holdfast.cli.screens import complain
from holdfast.errors import FileFormatError
from holdfast.importers.files import read_model
from holdfast.promises.certificate import certificate_texts, checker_model


def check(
    certificates: Annotated[
        list[Path], typer.Argument(help="Certificate files (.json, .jsonl) or folders of them.", exists=True)
    ],
    model: Annotated[
        Path,
        typer.Option(
            "--model", help="The model that they are about: .npz, .json (parameters), .onnx, .skops, ...", **FILE
        ),
    ],
    space: Annotated[
        Path | None, typer.Option(help="Also: were they made with this feature space? to_dict() as JSON.", **FILE)
    ] = None,
    row: Annotated[
        Path | None, typer.Option(help="Also: were they made for this row of data? An object of JSON.", **FILE)
    ] = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """Do these certificates hold? Checked in exact arithmetic, without a solver; exits with 3 if one does not."""
    rejected = 0
    with plain_errors(debug):
        parameters = _parameters(model, trust_pickle=trust_pickle)
        given = {name: None if path is None else _json(path) for name, path in (("space", space), ("row", row))}
        console = Console(soft_wrap=True)
        verdicts: Counter[str] = Counter()
        seconds = 0.0
        for where, content in _contents(certificates):
            started = time.process_time()
            report = checker.check(content, parameters, **given)
            seconds += time.process_time() - started
            if report.accepted:
                verdicts[checker.strict_json(content)["verdict"]] += 1
                if verdicts.total() == 1:
                    console.print(escape(f"{where}: {report.reason}"), highlight=False)
                    unseen = ", ".join(report.not_checked)
                    console.print(escape(f"not checked, since nothing to compare with was given: {unseen}"))
            else:
                rejected += 1
                complain(f"{where} is REJECTED: {report.reason}")
        checked = verdicts.total() + rejected
        if checked == 0:
            raise FileFormatError(f"{certificates[0]}: expected at least one certificate, got none")
        kinds = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
        console.print(
            f"{verdicts.total():,} of {checked:,} certificates hold{f' ({kinds})' if kinds else ''}; "
            f"{1e3 * seconds / checked:.2f} ms each",
            highlight=False,
        )
    if rejected:
        raise typer.Exit(BROKEN)


def _parameters(path: Path, *, trust_pickle: bool) -> checker.Model:
    """The model as the checker itself reads it, or through the importers where it cannot."""
    if path.suffix.lower() not in (".npz", ".hfn", ".json"):
        return checker_model(read_model(path, trust_pickle=trust_pickle).network)
    try:
        return checker.load_model(path)
    except checker.CheckError as error:
        raise FileFormatError(f"{path}: {error}") from error


def _json(path: Path) -> Any:
    try:
        return checker.strict_json(path.read_bytes())
    except (checker.CheckError, OSError) as error:
        raise FileFormatError(f"{path}: expected JSON, got: {error}") from error


def _contents(paths: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        try:
            yield from certificate_texts(path)
        except OSError as error:
            raise FileFormatError(f"{path}: expected certificates, got a file that cannot be read: {error}") from error
