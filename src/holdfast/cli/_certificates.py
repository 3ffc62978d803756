"""The command ``certificates``: the proof of each promise in a file of its own, which anybody can check."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from holdfast._files import write_table
from holdfast.cli import _screens as screens
from holdfast.cli import _tables as tables
from holdfast.cli._advice import Advised
from holdfast.cli._options import command
from holdfast.promises import write_certificates, write_parameters


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
    screens.say(
        f"{written['certificate'].notna().sum():,} certificates for {len(written):,} people."
    )
    without = written["reason"][written["certificate"].isna()]
    if len(without):
        causes = without.str.replace(r"^row \d+: ", "", regex=True)
        screens.show_shares(Counter(causes), "no certificate because")
    for path in (out, table, parameters):
        if path is not None:
            screens.say(f"written: {path}")
