"""`Letter` and `write_letter`: the letter to one person, as text and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Unpack

from holdfast._given import check_options
from holdfast.generators import Recourse
from holdfast.presentation.letters._compose import (
    Batch,
    LetterOptions,
    compose,
    key_of,
    one_line,
)
from holdfast.presentation.letters._contents import LetterContents


@dataclass(frozen=True)
class Letter:
    """A letter to one person.

    Attributes
    ----------
    key
        The person's key.
    text, html
        The letter as plain text, and as one self-contained HTML page.
    contents
        Its content, as plain values.
    """

    key: str
    text: str
    html: str
    contents: LetterContents

    @property
    def guaranteed(self) -> bool:
        """Whether the letter has a promise: only if the advice is proven for every model near today's."""
        return self.contents.outcome == "guaranteed"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        # In a frame, so that neither page styles the other.
        style = "width:100%;height:40em;border:1px solid #767676;background:#fff"
        return f'<iframe sandbox srcdoc="{escape(self.html)}" style="{style}" title="{escape(self.key)}"></iframe>'


def write_letter(
    recourse: Recourse,
    row: int,
    *,
    key: str | None = None,
    name: str | None = None,
    **options: Unpack[LetterOptions],
) -> Letter:
    """The letter to the person in a row: the decision, its reasons, the changes, the promise, and its time.

    Only advice that is proven for every model near today's is worded as a promise. A measured chance is worded as a
    chance. Values to reach have every digit and are read back before the letter is returned. docs/letters.md has
    examples, and the variables of the templates.

    Parameters
    ----------
    recourse, row
        The result of `explain` or `alternatives`, and the row, counted from 0.
    key
        The reference for enquiries. Default: the row's label in the index.
    name, sender, subject
        The person's name, the sender (may have several lines), and the subject, as it follows "about": "your loan
        application". In German in the accusative: "Ihren Kreditantrag", "Ihre Anfrage".
    date
        The date of the letter, today if not given.
    until
        The date until which the sender commits to the promise.
    expiry
        Instead of a date: the result of `promise_expiry`, one promise for each row of `recourse`. Without both, the
        letter names no time. Only letters with a promise use them.
    language, templates
        "en", "de", or one for which the folder `templates` has the words; see `write_templates`.
    certified
        Quote the id of the promise's certificate, which is made and checked for this.

    Raises
    ------
    InvalidInputError
        The person has the class already, or the advice breaks a constraint or changes a protected attribute.

    Examples
    --------
    >>> import pandas as pd
    >>> from holdfast import FeatureSpace, Network, PlausibleChanges, explain
    >>> from holdfast.generators import RNCE
    >>> people = pd.DataFrame({"debt": [9000, 1000], "savings": [0, 5000]}, index=["A-17", "A-18"])
    >>> space = FeatureSpace.from_frame(people, reasons={"debt": ("19", "Too much debt")}, units={"debt": "EUR"})
    >>> network = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> advice = explain(
    ...     network, people, target=1, changes=PlausibleChanges(0.1), generator=RNCE(people), space=space
    ... )
    >>> letter = advice.letter(0, date="2026-11-16")
    >>> letter.key, letter.guaranteed, [(change.label, change.after) for change in letter.contents.changes]
    ('A-17', True, [('debt', '1,000'), ('savings', '5,000')])
    >>> [reason.code for reason in letter.contents.reasons]
    ['19', '']
    """
    check_options("letter", options, LetterOptions.__annotations__)
    batch = Batch.read(recourse, [row], **options)
    label = key_of(recourse, row, recourse.factuals.index[row] if key is None else key, "key")
    return fill_in(batch, 0, label, name)


def fill_in(batch: Batch, place: int, key: str, name: str | None) -> Letter:
    """One letter of a batch."""
    contents = compose(batch, place, key, "" if name is None else one_line(name, f"{key}: name"))
    return Letter(
        key,
        batch.language.render("txt", contents),
        batch.language.render("html", contents),
        contents,
    )
