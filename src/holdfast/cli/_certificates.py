"""The commands ``certificates`` and ``check``: a proof of each promise as a file, and an independent check of it.

The check is done by `holdfast.checker`, which uses no other part of holdfast.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator
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
    out: Annotated[Path, "A folder (a file each) or one .jsonl file (a line each)."],
    *,
    table: Annotated[
        Path | None,
        "Write each person's verdict and certificate id here, as a table.",
    ] = None,
    parameters: Annotated[
        Path | None,
        "Write the model's parameters here, as JSON, for the checker.",
    ] = None,
) -> None:
    """Write a certificate for each promise. `holdfast check` checks it without trusting us.

        $ holdfast certificates recourse.csv --model model.npz --data people.csv --index id \\
            --target 1 --delta 0.02 --out certificates.jsonl
    """
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


# Statements differ in Δ, the class and the verdict; a longer list would not be read.
_SHOWN = 10
# The checker's reason where a certificate names another model.
_OTHER_MODEL = "hashes.model: "
_PREPROCESSING = "the model's preprocessing (a certificate is about the variables after it)"


@command
def check(
    certificates: Annotated[
        list[Path],
        Argument(help="Certificates: .json, .jsonl or a folder.", exists=True),
    ],
    model: Annotated[
        Path,
        FILE,
        "The model of the certificates: .npz, .json (parameters), .onnx, .skops, ...",
    ],
    *,
    space: Annotated[
        Path | None,
        FILE,
        "Also check that the certificates are about this schema.",
    ] = None,
    row: Annotated[
        Path | None, FILE, "Also check that they are about this row: a JSON object."
    ] = None,
    opening: Opening,
) -> None:
    """Check certificates in exact arithmetic, without a solver. Exit code 3 if one is wrong.

    $ holdfast check certificates.jsonl --model model.npz
    """
    rejected: list[tuple[str, str]] = []
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
            rejected.append((where, report.reason))
    checked = verdicts.total() + len(rejected)
    if checked == 0:
        raise FileFormatError(f"{certificates[0]}: expected at least one certificate, got none")
    if len(rejected) == checked and all(why.startswith(_OTHER_MODEL) for _, why in rejected):
        names = ", ".join(path.name for path in certificates)
        complain(
            f"{names} {'was' if len(certificates) == 1 else 'were'} made for another model than {model.name}"
        )
    else:
        for where, why in rejected:
            complain(f"{where} is REJECTED: {why}")
    for statement, count in statements.most_common(_SHOWN):
        say(f"{count:,} certificate{'s' * (count != 1)}: {statement}")
    if len(statements) > _SHOWN:
        say(f"{len(statements) - _SHOWN:,} more statements are proven and not shown")
    if statements:
        say(_unseen(unseen))
    if apart:
        say(f"not checked: {apart}")
    kinds = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
    say(
        f"{verdicts.total():,} of {checked:,} certificates hold{f' ({kinds})' if kinds else ''}; "
        f"{1e3 * seconds / checked:.2f} ms each"
    )
    if rejected:
        raise typer.Exit(BROKEN)


def _unseen(fields: Collection[str]) -> str:
    """The fields that were not checked, with the options that check them."""
    options = {"space": "--space", "row": "--row"}
    open_fields = [name for name in fields if name in options]
    said = "about is free text" if "about" in fields else ""
    if open_fields:
        passed = ", ".join(options[name] for name in open_fields)
        said = "; ".join(filter(None, [f"{', '.join(open_fields)} (pass {passed})", said]))
    others = [name for name in fields if name not in ("about", *options)]
    return f"not checked: {', '.join(filter(None, [*others, said]))}"


def _parameters(
    path: Path, opening: Opening
) -> tuple[checker.PlainModel | checker.PlainTrees, str]:
    """The model as the checker or an importer reads it, and the part of it that is not checked."""
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
