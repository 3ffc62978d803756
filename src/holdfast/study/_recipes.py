"""Kinds of change that really happen to a model after a promise, each as a recipe.

A recipe changes today's model: (model, data, seed) -> model. This module has eleven; your own is a `Recipe` with
your own function. Recipes that retrain from scratch also use another seed, as a real training run does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from holdfast._network import Ints, Network
from holdfast._scored import Scored
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers import Model, load_model, load_network
from holdfast.retraining._trainers import fine_tune, train_anew
from holdfast.study._tables import Learned, by_name

Change = Callable[[Any, Learned, int], Any]


@dataclass(frozen=True)
class Recipe:
    """A kind of change of a model.

    Parameters
    ----------
    name
        The name in tables.
    sentence
        The change in words.
    change
        ``change(model, data, seed)`` returns a changed model. `model` is a fitted scikit-learn classifier; the
        result is any model that `load_model` takes and that reads the same input. `data` has `X` and `y`, the
        training data, and `X_new` and `y_new`, the new data. If it raises an error, the kind is left out for this
        model, with a note.

    Examples
    --------
    >>> def half(model, data, seed):
    ...     rows = np.random.default_rng(seed).permutation(len(data.y))[: len(data.y) // 2]
    ...     return clone(model).fit(data.X[rows], data.y[rows])
    >>> Recipe("half", "trained on half of the rows", half).name
    'half'
    """

    name: str
    sentence: str
    change: Change


def initialisation(model: Any, data: Learned, seed: int) -> Any:
    """Retrained from scratch with another seed, without other changes."""
    return train_anew(model, data.X, data.y, seed)


def bootstrap(model: Any, data: Learned, seed: int) -> Any:
    """Retrained from scratch on as many rows, drawn with replacement."""
    rows = np.random.default_rng(seed).integers(len(data.y), size=len(data.y))
    return train_anew(model, data.X[rows], data.y[rows], seed)


def deletion(model: Any, data: Learned, seed: int, share: float = 0.1) -> Any:
    """Retrained from scratch without a share of the rows."""
    rows = _drawn(len(data.y), 1.0 - share, seed)
    return train_anew(model, data.X[rows], data.y[rows], seed)


def addition(model: Any, data: Learned, seed: int, share: float = 0.5) -> Any:
    """Retrained from scratch with a share of the new rows."""
    rows = _drawn(len(data.y_new), share, seed)
    X = np.concatenate([data.X, data.X_new[rows]])
    y = np.concatenate([data.y, data.y_new[rows]])
    return train_anew(model, X, y, seed)


def label_flips(model: Any, data: Learned, seed: int, share: float = 0.05) -> Any:
    """Retrained from scratch with a share of the labels replaced by another class."""
    rows = _drawn(len(data.y), share, seed)
    classes = np.unique(data.y)
    y = data.y.copy()
    others = np.random.default_rng(seed).integers(1, classes.size, rows.size)
    y[rows] = classes[(np.searchsorted(classes, y[rows]) + others) % classes.size]
    return train_anew(model, data.X, y, seed)


# The numbers that training is set up with, as libraries call them, and how many times as large or small they become.
_SETTINGS = {
    "alpha": 10.0,
    "C": 10.0,
    "l2_regularization": 10.0,
    "learning_rate_init": 2.0,
    "learning_rate": 2.0,
    "max_iter": 2.0,
    "n_estimators": 2.0,
    "min_samples_leaf": 2.0,
}


def configuration(model: Any, data: Learned, seed: int) -> Any:
    """Retrained from scratch with other penalties, steps and numbers of passes or trees."""
    rng = np.random.default_rng(seed)
    now = model.get_params(deep=False)
    numbers = {name: now[name] for name in _SETTINGS if isinstance(now.get(name), int | float)}
    if not numbers:
        raise UnsupportedModelError(
            f"expected a model with one of the settings {', '.join(_SETTINGS)}, got {type(model).__name__}"
        )
    factors = {name: _SETTINGS[name] ** rng.uniform(-1.0, 1.0) for name in numbers}
    other = {
        name: max(1, round(value * factors[name]))
        if isinstance(value, int)
        else value * factors[name]
        for name, value in numbers.items()
    }
    return train_anew(clone(model).set_params(**other), data.X, data.y, seed)


def architecture(model: Any, data: Learned, seed: int) -> Any:
    """Retrained from scratch with layers of half or twice the size, one layer less or one more."""
    sizes = tuple(np.atleast_1d(model.get_params().get("hidden_layer_sizes", ())).tolist())
    if not sizes:
        raise UnsupportedModelError(
            f"expected a network with hidden_layer_sizes, got {type(model).__name__}"
        )
    half = tuple(max(1, size // 2) for size in sizes)
    double = tuple(2 * size for size in sizes)
    several = [half, double, sizes[:-1] or half, (*sizes, sizes[-1])]
    other = several[int(np.random.default_rng(seed).integers(len(several)))]
    return train_anew(clone(model).set_params(hidden_layer_sizes=other), data.X, data.y, seed)


def noise(model: Any, data: Learned, seed: int, delta: float = 0.01) -> Network:
    """Every parameter of a network moved at random by at most delta."""
    return PlausibleChanges(delta).sample(load_network(model), 1, seed)[0]


def fine_tuning(model: Any, data: Learned, seed: int, share: float = 0.1) -> Any:
    """One more pass from today's parameters over a share of the new rows."""
    rows = _drawn(len(data.y_new), share, seed)
    return fine_tune(model, data.X_new[rows], data.y_new[rows], seed, 1)


def refitted_scaler(model: Any, data: Learned, seed: int, share: float = 0.5) -> Scored:
    """Today's model on variables that are centred and scaled by new rows instead of its own."""
    rows = _drawn(len(data.y_new), share, seed)
    today = load_model(model)
    old = StandardScaler().fit(data.X)
    new = StandardScaler().fit(data.X_new[rows])
    return _scored(today, lambda points: old.inverse_transform(new.transform(points)))


def moved_threshold(model: Any, data: Learned, seed: int, furthest: float = 0.15) -> Scored:
    """Today's model with another decision threshold than one half."""
    today = load_model(model)
    if today.classifier.n_outputs > 1:
        raise UnsupportedModelError(
            f"expected two classes, between which a threshold can move, got {len(today.classifier.classes)}"
        )
    return _scored(today.at(0.5 + np.random.default_rng(seed).uniform(-furthest, furthest)))


def _scored(model: Model, read: Callable[[Any], Any] = lambda points: points) -> Scored:
    """A model by its scores: today's parameters, with a change before or after them."""
    return Scored(
        lambda points: model.logits(read(points)), tuple(model.classifier.classes.tolist())
    )


#: Every way in which a model really changes that a study can try, in the order in which they are shown.
RECIPES: tuple[Recipe, ...] = (
    Recipe("initialisation", "retrained from scratch with another seed", initialisation),
    Recipe("bootstrap", "retrained from scratch on a bootstrap sample of its rows", bootstrap),
    Recipe("deletion", "retrained from scratch without a tenth of its rows", deletion),
    Recipe("addition", "retrained from scratch with half of the new rows", addition),
    Recipe("label flips", "retrained from scratch with 5% of the labels flipped", label_flips),
    Recipe(
        "configuration", "retrained from scratch with other penalties (up to 10 times), steps and passes (2)",
        configuration,
    ),
    Recipe(
        "architecture", "retrained from scratch with half or twice the neurons, a hidden layer less or more",
        architecture,
    ),
    Recipe("noise", "every parameter moved by at most 0.01", noise),
    Recipe("fine-tuning", "one more pass over a tenth of the new rows", fine_tuning),
    Recipe("refitted scaler", "its inputs scaled by half of the new rows", refitted_scaler),
    Recipe("moved threshold", "a decision threshold between 35% and 65% instead of 50%", moved_threshold),
)  # fmt: skip


def read_recipes(recipes: Any) -> tuple[Recipe, ...]:
    """Read recipes, names of the recipes above, or functions by name; None means no recipes."""
    known = {recipe.name: recipe for recipe in RECIPES}
    chosen = []
    for name, value in by_name(recipes or (), "changes_of", "recipes or their names", str | Recipe):
        recipe = known.get(value, value) if isinstance(value, str) else value
        if name is not None and callable(recipe):
            sentence = (
                (getattr(recipe, "__doc__", None) or name).strip().partition("\n")[0].rstrip(".")
            )
            recipe = Recipe(name, sentence, recipe)
        if not isinstance(recipe, Recipe):
            raise InvalidInputError(
                f"changes_of: expected recipes, or names among {', '.join(known)}, got {recipe!r}"
            )
        chosen.append(recipe)
    if len({recipe.name for recipe in chosen}) != len(chosen):
        raise InvalidInputError(
            f"changes_of: expected each kind once, got {[recipe.name for recipe in chosen]}"
        )
    return tuple(chosen)


def _drawn(n: int, share: float, seed: int) -> Ints:
    """A share of `n` rows, at random, in their order."""
    return np.sort(np.random.default_rng(seed).permutation(n)[: max(1, round(share * n))])
