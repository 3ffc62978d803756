"""The commands ``certificates`` and ``check``: the proof of each promise in a file of its own, and whether it holds.

That is asked of `holdfast.checker`, which trusts nobody.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from holdfast import checker
from holdfast._files import write_table
from holdfast.cli import _tables as tables
from holdfast.cli._advice import Advised
from holdfast.cli._options import BROKEN, FILE, Opening, command
from holdfast.cli._screens import complain, say, show_shares
from holdfast.errors import FileFormatError
from holdfast.features import FeatureSpace
from holdfast.features._serial import FORMAT
from holdfast.promises import write_certificates, write_parameters
from holdfast.promises._certificate import certificate_texts
from holdfast.verify._exact import plain_model


@command
def certificates(
    advised: Advised,
    out: Annotated[Path, "A folder, for a file each, or one file of lines: promises.jsonl."],
    *,
    table: Annotated[
        Path | None,
        "Where each person's verdict and certificate id go: .csv, .csv.gz or .parquet.",
    ] = None,
    parameters: Annotated[
        Path | None,
        "Where the model's parameters go, as JSON: what the checker reads on its own.",
    ] = None,
) -> None:
    """A certificate for each promise that `explain` made, which `holdfast check` checks without trusting anyone."""
    tables.check_output(table)
    tables.check_output(parameters, table=False)
    advised.needed()
    result = advised.read_advice(advised.table)
    if parameters is not None:
        write_parameters(advised.loaded, parameters)
    written = write_certificates(result, out)
    if table is not None:
        write_table(written.rename_axis(advised.index or "row"), table)
    say(f"{written['certificate'].notna().sum():,} certificates for {len(written):,} people.")
    without = written["reason"][written["certificate"].isna()]
    if len(without):
        causes = without.str.replace(r"^row \d+: ", "", regex=True)
        show_shares(Counter(causes), "no certificate because")
    for path in (out, table, parameters):
        if path is not None:
            say(f"written: {path}")


# Statements differ in Δ, the class and the verdict: more than these at once are no longer read.
_SHOWN = 10
_PREPROCESSING = (
    "the model's preprocessing; a certificate is about the variables that come out of it"
)


@command
def check(
    certificates: Annotated[
        list[Path],
        Argument(help="Certificate files (.json, .jsonl) or folders of them.", exists=True),
    ],
    model: Annotated[
        Path,
        FILE,
        "The model that they are about: .npz, .json (parameters), .onnx, .skops, ...",
    ],
    *,
    space: Annotated[
        Path | None,
        FILE,
        "Also: were they made with this schema? As for --schema of `explain`.",
    ] = None,
    row: Annotated[
        Path | None, FILE, "Also: were they made for this row of data? An object of JSON."
    ] = None,
    opening: Opening,
) -> None:
    """Do these certificates hold? Checked in exact arithmetic, without a solver; exits with 3 if one does not."""
    rejected = 0
    parameters, apart = _parameters(model, opening)
    given: dict[str, Any] = {"space": space and _json(space), "row": row and _json(row)}
    if (
        space is not None
        and isinstance(given["space"], dict)
        and given["space"].get("format") != FORMAT
    ):
        given["space"] = FeatureSpace.from_schema(space).to_dict()
    verdicts: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    seconds = 0.0
    for where, content in _contents(certificates):
        started = time.process_time()
        report = checker.check(content, parameters, **given)
        seconds += time.process_time() - started
        if report.accepted:
            verdicts[checker.strict_json(content)["verdict"]] += 1
            statements[report.reason] += 1
            unseen = report.not_checked
        else:
            rejected += 1
            complain(f"{where} is REJECTED: {report.reason}")
    checked = verdicts.total() + rejected
    if checked == 0:
        raise FileFormatError(f"{certificates[0]}: expected at least one certificate, got none")
    for statement, count in statements.most_common(_SHOWN):
        say(f"{count:,} of them: {statement}")
    if len(statements) > _SHOWN:
        say(f"{len(statements) - _SHOWN:,} more statements that are not shown hold")
    if statements:
        say(f"not checked, for want of anything to compare with: {', '.join(unseen)}")
    if apart:
        say(f"not checked: {apart}")
    kinds = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
    say(
        f"{verdicts.total():,} of {checked:,} certificates hold{f' ({kinds})' if kinds else ''}; "
        f"{1e3 * seconds / checked:.2f} ms each"
    )
    if rejected:
        raise typer.Exit(BROKEN)


def _parameters(
    path: Path, opening: Opening
) -> tuple[checker.PlainModel | checker.PlainTrees, str]:
    """The model as the checker itself reads it, or through the importers where it cannot, and what is left aside."""
    try:
        if path.suffix.lower() in (".npz", ".hfn", ".json"):
            return checker.load_model(path), ""
        loaded = opening.model_in(path)
        return plain_model(loaded.trained), _PREPROCESSING if loaded.preprocess is not None else ""
    except checker.CheckError as error:
        raise FileFormatError(str(error)) from error


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
            raise FileFormatError(
                f"{path}: expected certificates, got a file that cannot be read: {error}"
            ) from error
