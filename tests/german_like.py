"""A made table shaped like German credit: 20 columns, 13 of them codes, and what the codes mean in two languages."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

TARGET, THRESHOLD = "good", 0.7

# For each column what people call it, and for each code how much it helps and what it means, in English and German.
CODES: dict[str, tuple[str, str, dict[str, tuple[float, str, str]]]] = {
    "checking": ("checking account", "Girokonto", {
        "A11": (-1.2, "overdrawn", "überzogen"), "A12": (-0.5, "below 200 DM", "unter 200 DM"),
        "A13": (0.4, "200 DM or more", "ab 200 DM"), "A14": (0.9, "none with us", "keines bei uns")}),
    "history": ("credit history", "bisherige Kredite", {
        "A30": (-0.9, "never borrowed", "nie einer"), "A31": (-0.8, "all repaid with us", "alle bei uns getilgt"),
        "A32": (0.0, "repaid on time so far", "bisher pünktlich getilgt"),
        "A33": (0.1, "late before", "früher verspätet"),
        "A34": (0.7, "known elsewhere", "anderswo bekannt")}),
    "purpose": ("purpose", "Verwendungszweck", {
        "A40": (-0.3, "a new car", "Neuwagen"), "A41": (0.6, "a used car", "Gebrauchtwagen"),
        "A42": (0.0, "furniture", "Möbel"), "A43": (0.3, "a television", "Fernseher"),
        "A46": (-0.4, "education", "Ausbildung"), "A49": (-0.1, "a business", "Geschäft")}),
    "savings": ("savings", "Ersparnisse", {
        "A61": (-0.5, "below 100 DM", "unter 100 DM"), "A62": (-0.1, "100 to 500 DM", "100 bis 500 DM"),
        "A63": (0.3, "500 to 1,000 DM", "500 bis 1.000 DM"), "A64": (0.9, "above 1,000 DM", "über 1.000 DM"),
        "A65": (0.4, "none known", "keine bekannt")}),
    "employment": ("time in employment", "Beschäftigungsdauer", {
        "A71": (-0.6, "unemployed", "arbeitslos"), "A72": (-0.4, "less than a year", "unter einem Jahr"),
        "A73": (0.0, "one to four years", "ein bis vier Jahre"),
        "A74": (0.5, "four to seven years", "vier bis sieben Jahre"),
        "A75": (0.4, "seven years or more", "sieben Jahre oder mehr")}),
    "personal_status": ("personal status", "Familienstand", {
        "A91": (-0.4, "divorced man", "Mann, geschieden"), "A92": (-0.3, "married woman", "Frau, verheiratet"),
        "A93": (0.3, "single man", "Mann, ledig"), "A94": (0.1, "married man", "Mann, verheiratet")}),
    "other_debtors": ("other debtors", "weitere Schuldner", {
        "A101": (0.0, "nobody", "niemand"), "A102": (-0.4, "a co-applicant", "Mitantragsteller"),
        "A103": (0.7, "a guarantor", "Bürge")}),
    "property": ("property", "Eigentum", {
        "A121": (0.4, "land or a house", "Haus oder Grundstück"),
        "A122": (0.1, "a building society contract", "Bausparvertrag"),
        "A123": (0.0, "a car or other things", "Auto oder anderes"), "A124": (-0.5, "unknown", "unbekannt")}),
    "other_plans": ("other instalment plans", "andere Ratenkäufe", {
        "A141": (-0.4, "at a bank", "bei einer Bank"), "A142": (-0.3, "at shops", "in Geschäften"),
        "A143": (0.3, "nowhere", "nirgends")}),
    "housing": ("housing", "Wohnen", {
        "A151": (-0.3, "rented", "gemietet"), "A152": (0.3, "owned", "Eigenheim"),
        "A153": (-0.1, "rent-free", "mietfrei")}),
    "job": ("job", "Beruf", {
        "A171": (-0.5, "unskilled without residence", "ungelernt ohne Wohnsitz"),
        "A172": (-0.1, "unskilled with residence", "ungelernt mit Wohnsitz"), "A173": (0.1, "skilled", "Fachkraft"),
        "A174": (0.4, "highly qualified", "hoch qualifiziert")}),
    "telephone": ("telephone", "Telefon", {
        "A191": (-0.1, "none", "keines"), "A192": (0.2, "registered", "angemeldet")}),
    "foreign_worker": ("foreign worker", "Gastarbeiter", {"A201": (-0.2, "yes", "ja"), "A202": (0.8, "no", "nein")}),
}  # fmt: skip
# For each column what people call it, its least and largest value, and how much its whole range helps.
NUMBERS: dict[str, tuple[str, str, int, int, float]] = {
    "duration": ("duration", "Laufzeit", 4, 60, -2.4),
    "amount": ("amount", "Kreditbetrag", 250, 15_000, -2.0),
    "instalment_rate": (
        "instalments, share of income",
        "Ratenlast, Anteil am Einkommen",
        1,
        4,
        -0.7,
    ),
    "residence": ("years at this address", "Jahre an dieser Anschrift", 1, 4, 0.0),
    "age": ("age", "Alter", 19, 75, 0.8),
    "credits": ("loans with us", "Kredite bei uns", 1, 4, -0.3),
    "dependants": ("dependants", "Unterhaltsberechtigte", 1, 2, -0.1),
}
UNITS = {"duration": "months", "amount": "DM"}
LABELS: dict[object, object] = {
    **{name: {"en": said[0], "de": said[1]} for name, said in (CODES | NUMBERS).items()},
    **{
        (name, code): {"en": en, "de": de}
        for name, said in CODES.items()
        for code, (_, en, de) in said[2].items()
    },
    ("duration", "months"): {"en": "months", "de": "Monate"},
}
ORDER = {name: list(CODES[name][2]) for name in ("job", "employment")}
PROTECTED = ["personal_status", "foreign_worker"]
FIXED = ["age", "dependants", "residence", "history", *PROTECTED]


def german_like(n: int = 1000, seed: int = 0, missing: float = 0.05) -> pd.DataFrame:
    """Made applicants, a share of whose values is missing, and whether each repaid."""
    rng = np.random.default_rng(seed)
    helps, columns = np.zeros(n), {}
    for name, (_, _, meanings) in CODES.items():
        weights = np.array([weight for weight, _, _ in meanings.values()])
        drawn = rng.choice(
            len(weights),
            n,
            p=rng.permuted(np.arange(1, len(weights) + 1)) / np.arange(len(weights) + 1).sum(),
        )
        columns[name], helps = np.array(list(meanings))[drawn], helps + weights[drawn]
    for name, (_, _, low, high, weight) in NUMBERS.items():
        shares = rng.beta(1.2, 2.5, n)
        columns[name], helps = (
            low + np.round(shares * (high - low)),
            helps + weight * (shares - 0.3),
        )
    table = pd.DataFrame(columns, index=pd.Index([f"K-{i}" for i in range(n)], name="id"))
    table = table.mask(rng.random(table.shape) < missing)
    return table.assign(
        **{TARGET: (helps + rng.logistic(size=n) > np.median(helps) - 0.8).astype(int)}
    )


def fit_pipeline(table: pd.DataFrame) -> Pipeline:
    """A scorecard as lenders have it: gaps filled, codes one-hot, numbers scaled, a logistic regression."""
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), list(CODES)),
        (
            make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()),
            list(NUMBERS),
        ),
    )
    return make_pipeline(steps, LogisticRegression(max_iter=1000)).fit(
        table.drop(columns=TARGET), table[TARGET]
    )
