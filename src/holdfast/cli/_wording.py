"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

# Arguments and their options, if the names differ.
_OPTIONS = {
    "X": "--data",
    "X_new": "--data",
    "frame": "--data",
    "people": "--data",
    "y": "--label",
    "y_new": "--label",
    "space": "--schema",
    "changes": "--delta, --margin or --changes",
    "generator": "--method",
    "n_answers": "--answers",
    "n": "--runs",
    "ordinal": "--order",
    "ranges": "--range",
    "steps": "--step",
    "max_change": "--max-change",
    "rules": "--rule",
    "names": "--name",
    "path": "--out",
    "groups": "--group",
    "counterfactuals": "the advice",
    "history": "the history",
    "retrained": "the retrained models",
    "retrain": "--model",
}
_SCHEMA = "`holdfast schema` writes one from the model and a table"
# Phrases for Python, and the same for a shell.
_PHRASES: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"pass space=FeatureSpace\.from_pipeline\(pipeline, X_train\)": _SCHEMA,
    r"pass space=FeatureSpace\.from_frame\(X_train, scale='none'\)": _SCHEMA,
    r"ranges=\{'(.*)': \.\.\.\}": r"--range '\1=LOW:HIGH'",
    r"derive the space from the pipeline with FeatureSpace\.from_pipeline\(pipeline, X\)": _SCHEMA,
    r"pass the pipeline as the model, with space=FeatureSpace\.from_pipeline\(pipeline, X\)": (
        "give the whole pipeline as --model"
    ),
    r"pass trust_pickle=True \(--trust-pickle on the command line\)": "add --trust-pickle",
    r"changes: expected PlausibleChanges\(delta\) for Closest, got None; or take MCE\(\)": (
        "--method closest also needs --delta, --margin or --changes; --method mce needs none of them"
    ),
    r"expected PlausibleChanges\(delta\)[^,;]*": "expected one of them",
    r"space: (the column .* has labels); .*": (
        r"\1: run `holdfast schema --model MODEL --data TABLE --out space.json` and pass --schema space.json"
    ),
    r"FeatureSpace\.from_frame\(X, missing=.*\) allows gaps": (
        'a --schema that says "missing" for the column allows gaps'
    ),
    r"changes: PlausibleChanges is for networks; this is (.*): use .*": (
        r"--delta is for networks; this is \1: use --margin M (`holdfast risk` finds one) or --changes FILE"
    ),
    r"generator: this one is (for networks; .*: use) (.*)": (
        lambda found: f"--method: this one is {found[1]} {found[2].lower()}"
    ),
    r"name its labels from low to high in ordinal=\{\.\.\.\}": (
        'name its labels from low to high with --order, or say "ordered": true in the schema'
    ),
    r"expected a function \(model, X, y, seed\) for a (\w+), got None; .*": (
        r"expected a scikit-learn model (.skops or a pickle) to retrain, got a \1; retrain it yourself and pass "
        "the models to `holdfast delta`"
    ),
    r"RNCE\(X\) and Closest\(plausible=X\) keep to rows": "--method rnce keeps to rows",
    r"Pass a direction for each column to the space; free=.* confirms that any change is possible": (
        'Edit "actionability" of these columns in the schema; "mutable" confirms that any change is possible'
    ),
    r"pass retrain=, a function .*": "retrain it yourself and pass the models to `holdfast delta`",
}
_ARGUMENT = re.compile(r"^(\w+)(\[[^]]*\])?(?= \(|: )")


def in_options(message: str, names: Collection[str] = ()) -> str:
    """The message with options instead of arguments; `names` are the command's own options.

    Examples
    --------
    >>> in_options("target: expected one of [0, 1], got 7", ["target"])
    '--target: expected one of [0, 1], got 7'
    >>> in_options("ranges['income']: expected (lower, upper), got 3")
    '--range income: expected (lower, upper), got 3'
    """
    for pattern, phrase in _PHRASES.items():
        message = re.sub(pattern, phrase, message)
    argument = _ARGUMENT.match(message)
    if argument is None:
        return message
    own = f"--{argument[1].replace('_', '-')}" if argument[1] in names else argument[1]
    column = "" if argument[2] is None else " " + argument[2].strip("[]'\"")
    option = _OPTIONS.get(argument[1], own)
    # Other words, such as the name of a file, stay.
    return message if option == argument[1] else option + column + message[argument.end() :]
