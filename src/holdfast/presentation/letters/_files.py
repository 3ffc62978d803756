"""A folder of letters, with a manifest: all of them, or none and the name of the row that is wrong."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from holdfast._files import Place, given_path, write_csv
from holdfast._given import check_options, given_list
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.generators import Recourse
from holdfast.generators._stated import advice_ids
from holdfast.presentation.letters._compose import Batch, LetterOptions, key_of
from holdfast.presentation.letters._letter import Letter, fill_in

MANIFEST = "manifest.csv"
_COLUMNS = ["key", "file", "text_file", "outcome", "verdict", "certificate", "reasons", "advice"]
_LONGEST = 60
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


def letters(
    recourse: Recourse,
    folder: Place,
    *,
    keys: str | Sequence[Any] | None = None,
    names: str | Sequence[Any] | Mapping[Any, Any] | None = None,
    rows: Iterable[int] | None = None,
    **options: Unpack[LetterOptions],
) -> pd.DataFrame:
    """Write a letter to each person, as a page and as text, and a manifest; all of them, or none.

    Parameters
    ----------
    recourse
        The result of `explain`; or of `alternatives`, with a letter for each row: "A-17", "A-17 (2)".
    folder
        A new or empty folder. It is filled under another name next to its place, and then moved.
    keys
        The reference for enquiries: a column of the factuals, or one key for each row. Default: the index.
    names
        The people's names: a column of the factuals, one name for each row, or a mapping from key to name; a missing
        name is left out.
    rows
        Only these rows, counted from 0.
    sender, subject, date, until, expiry, language, templates, certified
        As for `write_letter`.

    Returns
    -------
    DataFrame
        The content of ``manifest.csv``: `key`, `file` (the page), `text_file`, `outcome`, `verdict`, `certificate`,
        `reasons` (the codes of the main reasons, the weightiest first, with a space between), `advice` (a hash by which
        `report` knows the letters of its own advice). People who have the class
        already get no letter: their `outcome` is "already_accepted".
    """
    check_options("letters", options, LetterOptions.__annotations__)
    batch = Batch.read(recourse, rows, **options)
    chosen = batch.rows.tolist()
    if not chosen:
        raise InvalidInputError("rows: expected at least one row, got none")
    labels = _keys(recourse, keys, chosen)
    people = _names(recourse, names, chosen, labels)
    stems = file_stems(labels)
    advice = advice_ids(recourse)
    target, partial = _free_folder(folder)
    try:
        entries = []
        for place, (key, name, stem) in enumerate(zip(labels, people, stems, strict=True)):
            told = advice[chosen[place]]
            if batch.accepted[place]:
                entries.append((key, "", "", "already_accepted", "", "", "", told))
                continue
            letter = _named(batch, place, key, name)
            (partial / f"{stem}.html").write_text(letter.html, encoding="utf-8", newline="\n")
            (partial / f"{stem}.txt").write_text(letter.text, encoding="utf-8", newline="\n")
            said = letter.contents
            codes = " ".join(dict.fromkeys(one.code for one in said.reasons if one.code))
            files = (f"{stem}.html", f"{stem}.txt")
            entries.append((key, *files, said.outcome, said.verdict, said.certificate, codes, told))
        manifest = pd.DataFrame(entries, columns=_COLUMNS)
        write_csv(manifest, partial / MANIFEST, index=False)
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except (OSError, UnicodeEncodeError) as error:
        raise InvalidInputError(
            f"{target}: expected a folder that can be written, got: {error}"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def file_stems(keys: Sequence[str]) -> list[str]:
    """A file name for each key: safe on every system, and different for different keys.

    Examples
    --------
    >>> [stem[:17] for stem in file_stems(["A-17", "../../etc/passwd"])]
    ['letter-A-17', 'letter-etc_passwd']
    >>> len({stem.lower() for stem in file_stems(["a", "A", "a.", "a/"])})
    4
    """
    slugs = [_ODD.sub("_", key).strip("_")[:_LONGEST] for key in keys]
    often = Counter(slug.lower() for slug in slugs)
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
    stems = [
        f"letter-{slug}"
        if slug == key and often[slug.lower()] == 1
        else f"letter-{slug or 'key'}-{digest[:8]}"
        for key, slug, digest in zip(keys, slugs, digests, strict=True)
    ]
    # Only a key that is made to look like another's file name gets here.
    return (
        stems
        if len({stem.lower() for stem in stems}) == len(stems)
        else [f"letter-{digest}" for digest in digests]
    )


def _named(batch: Batch, place: int, key: str, name: str | None) -> Letter:
    """The letter; an error says whose it was to be."""
    try:
        return fill_in(batch, place, key, name)
    except HoldfastError as error:
        text = str(error)
        if text.startswith(f"{key}: "):
            raise
        raise type(error)(f"{key}: {text}") from error


def _keys(recourse: Recourse, keys: str | Sequence[Any] | None, rows: Sequence[int]) -> list[str]:
    given = list(recourse.factuals.index) if keys is None else _column(recourse, keys, "keys")
    labels = [key_of(recourse, row, given[row], "keys") for row in rows]
    twice = [key for key, count in Counter(labels).items() if count > 1]
    if twice:
        raise InvalidInputError(
            f"keys: expected each key once, got {twice[0]!r} {labels.count(twice[0])} times"
        )
    return labels


def _names(
    recourse: Recourse,
    names: str | Sequence[Any] | Mapping[Any, Any] | None,
    rows: Sequence[int],
    keys: Sequence[str],
) -> list[str | None]:
    if names is None:
        return [None] * len(rows)
    if isinstance(names, Mapping):
        by_key = {str(key): name for key, name in names.items()}
        missing = [key for key in keys if key not in by_key]
        if missing:
            raise InvalidInputError(
                f"names: expected one for every key, got none for {missing[0]!r}"
            )
        return [_name(by_key[key]) for key in keys]
    given = _column(recourse, names, "names")
    return [_name(given[row]) for row in rows]


def _name(given: Any) -> str | None:
    """A name, or None if it is missing: "nan" is no name."""
    return None if given is None or pd.isna(given) or not str(given).strip() else str(given)


def _column(recourse: Recourse, given: str | Sequence[Any], argument: str) -> list[Any]:
    """A column of the factuals, or a value for each row."""
    if isinstance(given, str):
        if given not in recourse.factuals.columns:
            raise InvalidInputError(
                f"{argument}: expected one of the columns {list(recourse.factuals.columns)}, got {given!r}"
            )
        return recourse.factuals[given].tolist()
    values = given_list(given, argument)
    if len(values) != len(recourse):
        raise InvalidInputError(
            f"{argument}: expected one for each of the {len(recourse)} rows, got {len(values)}"
        )
    return values


def _free_folder(folder: Place) -> tuple[Path, Path]:
    """Where the letters are to be, and a new folder next to it to fill first."""
    target = given_path(folder, "folder").absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInputError(
            f"{target}: expected a new or empty folder, got one with something in it"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        partial.mkdir()
    except OSError as error:
        raise InvalidInputError(
            f"{target}: expected a folder that can be made, got: {error}"
        ) from error
    return target, partial
