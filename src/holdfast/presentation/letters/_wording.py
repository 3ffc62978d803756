"""Columns, values and reasons as people say them, in a letter's language."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import HoldfastWarning
from holdfast.features import Feature, FeatureSpace, Kind
from holdfast.features._describe import PERCENT
from holdfast.features._proposals import words_of
from holdfast.generators._reasons import Against
from holdfast.presentation.letters._contents import Detail, MainReason
from holdfast.presentation.letters._language import Language

# Control characters and those that turn the order of reading around.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SIGNS = re.compile(r"[(),.;:/\[\]_-]")
# A unit with a word in it, such as "months" and "EUR a year"; "EUR", "kg" and "€" are the same in every language.
_WORD = re.compile(r"(?<!\w)[a-z]{3,}(?!\w)")
# Names of numbers that grow by themselves: "age", "years_at_job", "MSinceOldestTrade", "months of history".
_WITH_TIME = re.compile(
    r"\b(?:age|alter|tenure|seniority|since|seit)\b|\b(?:months|years|days)\b.*\b(?:of|at|in|with|on)\b"
)
_MOST_NAMED = 5


@dataclass(frozen=True)
class Wording:
    """The columns of a space and their values, in the words of a language."""

    space: FeatureSpace
    language: Language

    def detail(self, i: int, number: float) -> Detail:
        """A column by its label, with its unit unless the label or a percent sign says it."""
        feature = self.space.features[i]
        label = self.label(feature)
        unit = on_one_line(self.space.notes.word(feature.name, feature.unit, self.language.code))
        # As a word of its own: the k of 5 k is not said by "bank".
        said = (
            feature.labelled
            or feature.unit in PERCENT
            or f" {unit} ".lower() in f" {_SIGNS.sub(' ', label)} ".lower()
        )
        value = self.value(feature, number, self.language.short)
        passing = changes_with_time(self.space, feature)
        return Detail(str(feature.name), label, "" if said else unit, value, with_time=passing)

    def label(self, feature: Feature) -> str:
        """The name that people use for a column."""
        given = self.space.label(feature.name, self.language.code)
        return on_one_line(given.replace("_", " ") if given == str(feature.name) else given)

    def value(
        self, feature: Feature, number: float, write: Callable[..., str] | None = None
    ) -> str:
        """A label, or a number: with every digit, or as `write` writes it."""
        words = self.language.words
        if math.isnan(number):
            return str(words.missing())
        if feature.labelled:
            label = feature.categories[int(number)]
            word = self.space.notes.word(feature.name, label, self.language.code)
            unsaid = isinstance(label, bool) and word == str(label)
            own = words.yes if label else words.no
            return str(own()) if unsaid else on_one_line(word)
        return (write or self.language.number)(float(number), percent=feature.unit in PERCENT)

    def reason(self, one: Against, share: float) -> MainReason:
        """The parts of a reason's sentence."""
        feature = one.feature
        known = self.detail(self.space.features.index(feature), one.own)
        usual = self.value(feature, one.usual, self.language.short)
        if usual == known.value:
            # They differ further behind the point than short numbers show.
            usual, value = self.value(feature, one.usual), self.value(feature, one.own)
        else:
            value = known.value
        side = "high" if one.own > one.usual else "low"
        if feature.labelled:
            plain = all(isinstance(label, bool | int | float) for label in feature.categories)
            worded = feature.name in self.space.notes.said and any(
                self.space.notes.word(feature.name, label, self.language.code) != str(label)
                for label in feature.categories
            )
            named = "word" if worded or not plain else "entry"
            side = "level" if feature.kind is Kind.ORDINAL and named == "word" else named
        given = self.space.reason(feature.name, self.language.code)
        return MainReason(
            code="" if given is None else given.code,
            text=known.label if given is None else given.text,
            share=share,
            name=known.name,
            label=known.label,
            unit=known.unit,
            value=value,
            usual=usual,
            side="missing" if math.isnan(one.own) else side,
            compared=one.compared,
            within_reach=one.within_reach,
        )

    def sentence(self, reason: MainReason) -> str:
        """The reason as the letter's language says it."""
        said = str(self.language.words.reason(reason))
        # Only the letter keeps a number and its unit on one line.
        return said.replace(f"\u00a0{reason.unit}", f" {reason.unit}") if reason.unit else said

    def warn_of_gaps(self) -> None:
        """Warn of columns without words in the letter's language: their names would stay as they are."""
        code, notes = self.language.code, self.space.notes
        if code.split("-")[0] == "en":
            return
        gaps = {}
        for feature in self.space.unprotected:
            words = [label for label in feature.categories if isinstance(label, str)]
            if feature.unit not in PERCENT and _WORD.search(feature.unit) and not feature.labelled:
                words.append(feature.unit)
            if missing := notes.unspoken(feature.name, words, code):
                gaps[feature.name] = missing
        if gaps:
            listed = [f"{name!r} ({', '.join(what)})" for name, what in gaps.items()]
            more = f" and {len(gaps) - _MOST_NAMED} more" if len(gaps) > _MOST_NAMED else ""
            name = next(iter(gaps))
            warnings.warn(
                f"language {code!r}: no words for the columns {', '.join(listed[:_MOST_NAMED])}{more}, so the letter "
                f"mixes languages; give the space labels={{{name!r}: {{{code!r}: ...}}}}, for values and units "
                f"labels={{({name!r}, value): {{{code!r}: ...}}}}, and reasons= with a text for {code!r}",
                HoldfastWarning,
                stacklevel=5,
            )


def changes_with_time(space: FeatureSpace, feature: Feature) -> bool:
    """Whether a column changes by itself as time passes: as the space states it, else as its name suggests."""
    stated = space.notes.with_time(feature.name)
    if stated is not None:
        return stated
    return not feature.labelled and bool(_WITH_TIME.search(" ".join(words_of(feature.name))))


def on_one_line(text: str) -> str:
    """A text of the caller's table that cannot pass for another line of the letter, or be read in another order."""
    return " ".join(_UNSEEN.sub("", " ".join(text.split())).split())
