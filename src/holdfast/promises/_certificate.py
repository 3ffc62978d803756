"""Write verdicts to files that others can check: `certificate`, `write_certificate`, `check_certificate`.

docs/certificates.md and docs/certificate.schema.json describe the format. `holdfast.checker` checks every certificate
before it is returned, as the text of its file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast import checker
from holdfast._classifier import Classifier
from holdfast._files import Document, Facts, Place, write_text
from holdfast._given import given_row
from holdfast._network import Network
from holdfast._parallel import jobs, spread
from holdfast._progress import progress_bar
from holdfast._trees import TreeEnsemble
from holdfast.changes import Changes, EnsembleShift, PlausibleShift
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError, UnsupportedModelError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.importers import Model, load_model, load_network
from holdfast.importers._model import as_network
from holdfast.verify import Certificates, Verdict
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._exact import NoProofError, parameters, plain_model
from holdfast.verify._trees import MovingTrees

Source = Certificates | Recourse
_MAX_CASES = 5000
# With fewer rows one rarely waits.
_LONG = 200
# Rows that a worker is given at once.
_TOGETHER = 16


class NoCertificateError(HoldfastError):
    """No certificate can be made for a row; the message gives the reason."""


def certificate(
    source: Source,
    row: int,
    *,
    space: FeatureSpace | None = None,
    factual: Mapping[Any, Any] | pd.Series | None = None,
    about: Facts | None = None,
    max_cases: int = _MAX_CASES,
) -> Document:
    """Make the certificate of one row as the content of its file, checked by `holdfast.checker`.

    Parameters
    ----------
    source
        The result of `certify` or `explain`.
    row
        The row's number, counted from 0.
    space, factual
        The feature space and the data row whose hashes the certificate carries. A `Recourse` brings its own.
    about
        Further facts to record, such as a reference number. They are part of the id, but not of the proof.
    max_cases
        Largest number of cases in a proof.

    Raises
    ------
    NoCertificateError
        The row is UNKNOWN or has no advice, or there is no proof in a form that the checker takes.

    Examples
    --------
    >>> from holdfast import PlausibleChanges, certify
    >>> certs = certify(Network([[[-1.0, 1.0]]], [[0.0]]), [[0.7, 0.9]], 1, PlausibleChanges(0.1, biases=False))
    >>> document = certificate(certs, 0)
    >>> document["verdict"], document["proof"]["parts"][0]["method"]
    ('ROBUST', 'interval')
    >>> check_certificate(document, certs.network).accepted
    True
    """
    row = given_row(row, len(source))
    certs, place = _certificates_of(source, row)
    if isinstance(source, Recourse):
        space = source.space if space is None else space
        factual = source.factuals.iloc[row] if factual is None else factual
    verdict = certs.verdict[place]
    if verdict is Verdict.UNKNOWN:
        raise NoCertificateError(
            f"row {row}: the verdict is UNKNOWN; only ROBUST and NOT_ROBUST rows have certificates"
        )
    target = int(certs.targets[place])
    label = certs.classifier.classes.tolist()[target]
    try:
        chance = source.chance(row) if isinstance(source, Recourse) else None
        changes = _changes_document(certs.changes.calibrated(chance))
        threshold = _threshold_document(certs.decider.model, certs.classifier)
        # What is hashed is the model as it was trained; the threshold is stated.
        model = _plain_model(certs, bool(threshold))
    except (checker.CheckError, UnsupportedModelError) as error:
        raise NoCertificateError(
            f"row {row}: no certificate, because it takes a network, whose numbers others can check: {error}"
        ) from error
    point: list[Any] = (
        certs.classifier.row(certs.points[place])
        if isinstance(certs.classifier, TreeEnsemble)
        else certs.points[place].tolist()
    )
    document: Document = {
        "format": checker.FORMAT,
        "version": checker.VERSION,
        "id": "",
        "statement": "",
        "verdict": str(verdict),
        "target": {"index": target, "label": label},
        "changes": changes,
        "hashes": {
            "model": model.sha256,
            "point": checker.sha256(point),
            "space": None if space is None else checker.space_sha256(space.to_dict()),
            "row": None if factual is None else checker.sha256(row_document(factual)),
        },
        "point": point,
        "proof": {},
        "about": dict(about or {}),
        **({"threshold": threshold} if threshold else {}),
    }
    document["statement"] = checker.statement(document)
    try:
        if isinstance(certs.decider, ClosedForm):
            document["proof"] = {"method": "closed form"}
        elif verdict is Verdict.ROBUST:
            document["proof"] = {"parts": certs.proof(place, max_cases)}
        else:
            document["proof"] = _witness_proof(certs.network, certs.witness(place), point, target)
        document["id"] = checker.sha256(document)
        report = checker.check(json.loads(_text(document)), model)
        if not report.accepted:
            raise NoProofError(report.reason)
    except (checker.CheckError, ValueError) as error:
        raise NoCertificateError(
            f"row {row}: no certificate for this {verdict} row: {error}"
        ) from error
    return document


def _certificates_of(source: Source, row: int) -> tuple[Certificates, int]:
    """The certificates behind a result, and the row's position among them."""
    if isinstance(source, Certificates):
        return source, row
    if not isinstance(source, Recourse):
        raise InvalidInputError(
            f"source: expected the result of certify or explain, got {type(source).__name__}"
        )
    if not source.found[row]:
        raise NoCertificateError(f"row {row}: there is no advice to certify: {source.reason[row]}")
    if source.certificates is None:
        raise NoCertificateError(
            f"row {row}: explain was called without changes (Δ) to certify against"
        )
    return source.certificates, int(source.found[:row].sum())


def _plain_model(certs: Certificates, moved: bool) -> Any:
    """The model as it was trained, before a threshold moved it, in the checker's form."""
    decider, shift = certs.decider, isinstance(certs.changes, PlausibleShift)
    trained = decider.model.trained if moved and decider.model is not None else certs.classifier
    if shift and isinstance(trained, TreeEnsemble) and trained.score.shares:
        raise UnsupportedModelError(
            "the margin of a forest under a shift is a logarithm of its shares"
        )
    return plain_model(
        trained if shift or isinstance(decider, MovingTrees) else as_network(trained)
    )


def _threshold_document(model: Model | None, classifier: Classifier) -> Document:
    """The threshold of the decision, and the amount it subtracts from each logit; empty for equal logits."""
    if isinstance(classifier, TreeEnsemble) and classifier.score.first:
        bar = classifier.score.bar
        assert bar is not None
        return {"probability": bar, "offsets": [math.log1p(-bar) - math.log(bar)], "first": True}
    if model is None or not any(model.offsets):
        return {}
    said = list(model.threshold) if isinstance(model.threshold, tuple) else model.threshold
    return {
        "probability": said if model.calibration is None else None,
        "offsets": list(model.offsets),
    }


def _changes_document(changes: Changes) -> Document:
    """The changes of the model, with the models of an ensemble in full."""
    document = changes.to_dict()
    if changes.chance is not None and changes.chance.record is not None:
        # Of whom it was measured is nothing that everyone with a certificate is to know.
        document["chance"]["record"].pop("people", None)
    if isinstance(changes, EnsembleShift):
        document["models"] = [
            _numbers(load_network(model), "weights", "biases", "activations")
            for model in changes.models
        ]
    return document


def _numbers(network: Network, *names: str) -> Document:
    """Some of the recorded numbers of a network."""
    full = parameters(network)
    return {name: full[name] for name in names}


def _witness_proof(
    network: Network, witness: Network | None, point: list[Any], target: int
) -> Document:
    if witness is None:
        raise NoProofError("its counter-model was not kept")
    margins = checker.unmoved(plain_model(witness), point, target)[1]
    # The class that comes closest to the target, or is furthest ahead of it.
    rival = min(margins, key=margins.__getitem__)
    proof: Document = {
        "rival": rival,
        "method": "today",
        "bound": checker.float_below(margins[rival]),
    }
    if witness == network:
        return proof
    return {**proof, "method": "witness", **_numbers(witness, "weights", "biases")}


def write_parameters(model: Any, path: Place) -> None:
    """Write the parameters of a model as plain JSON, which the checker reads as well as `Network.save`'s format.

    A threshold of the model is not written: the certificates state it. Trees are written in full.
    """
    document = parameters(load_model(model).trained)
    write_text(json.dumps(document, indent=1, allow_nan=False), Path(path))


def row_document(row: Mapping[Any, Any] | pd.Series) -> Document:
    """A row of data as plain JSON values, in the form that is hashed."""
    return {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if value is None or (not isinstance(value, str) and bool(pd.isna(value))):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else str(value)


def _text(document: Facts) -> str:
    return json.dumps(document, allow_nan=False)


def write_certificate(document: Facts, path: Place) -> None:
    """Write one certificate to a file."""
    write_text(_text(document) + "\n", Path(path))


def write_certificates(
    source: Source,
    path: Place,
    *,
    rows: Iterable[int] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Write the certificates of many rows to a folder (a file each, named by its id) or a file of lines (.jsonl).

    Returns a table with the source's index: `verdict`, `certificate` (the id, None if there is none) and `reason` (why
    there is none). `options` are those of `certificate`. `n_jobs` is the number of rows processed in parallel, as in
    joblib. `progress` shows a bar on stderr, by default from two hundred rows on if stderr is a terminal.
    """
    path = Path(path)
    chosen = range(len(source)) if rows is None else [given_row(row, len(source)) for row in rows]
    index = source.index if isinstance(source, Certificates) else source.factuals.index
    answers: list[tuple[str | None, Document | None, str]] = []
    parts = (chosen[start : start + _TOGETHER] for start in range(0, len(chosen), _TOGETHER))
    bar = progress_bar("write_certificates", len(chosen), wanted=progress, long=_LONG)
    with jobs(n_jobs), bar as advance:
        for part in spread(partial(_certified, source, options), parts):
            answers += part
            advance(len(part))
    documents = [document for _, document, _ in answers if document]
    if path.suffix == ".jsonl":
        write_text("".join(_text(document) + "\n" for document in documents), path)
    else:
        path.mkdir(parents=True, exist_ok=True)
        for document in documents:
            write_certificate(document, path / f"{document['id'][:16]}.json")
    return pd.DataFrame(
        [(verdict, document and document["id"], reason) for verdict, document, reason in answers],
        columns=["verdict", "certificate", "reason"],
        index=index[list(chosen)],
        dtype=object,
    )


def _certified(
    source: Source, options: Facts, rows: Sequence[int]
) -> list[tuple[str | None, Document | None, str]]:
    """The verdict of each row with its certificate, or the reason why there is none."""
    answers = []
    for row in rows:
        verdict = source.verdict[row]
        document, reason = None, ""
        try:
            document = certificate(source, row, **options)
        except NoCertificateError as error:
            reason = str(error)
        answers.append((verdict and str(verdict), document, reason))
    return answers


def read_certificates(path: Place) -> Iterator[Document]:
    """Read every certificate in a file (.json, .jsonl) or a folder, without checking them."""
    for where, content in certificate_texts(Path(path)):
        try:
            document = checker.strict_json(content)
        except checker.CheckError as error:
            raise FileFormatError(f"{where}: expected a certificate, got: {error}") from error
        if not isinstance(document, dict):
            raise FileFormatError(f"{where}: expected a certificate, got: {document!r:.80}")
        yield document


def certificate_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read the texts of a file (.json), of each line (.jsonl) or of the files in a folder, each with its place."""
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.suffix.lower() in (".json", ".jsonl"):
                yield from certificate_texts(file)
    elif path.suffix.lower() == ".jsonl":
        lines = enumerate(path.read_bytes().split(b"\n"), 1)
        yield from ((f"{path}:{number}", line) for number, line in lines if line.strip())
    else:
        yield str(path), path.read_bytes()


def check_certificate(
    document: Any,
    model: Any,
    *,
    space: FeatureSpace | None = None,
    row: Mapping[Any, Any] | pd.Series | None = None,
) -> checker.Report:
    """Check a certificate with `holdfast.checker`; `model` is any network, or trees, that `load_model` takes.

    Examples
    --------
    >>> check_certificate({"format": "holdfast-certificate"}, Network([[[1.0]]], [[0.0]])).reason[:32]
    'certificate: expected the entrie'
    """
    return checker.check(
        document,
        plain_model(load_model(model).trained),
        space=None if space is None else space.to_dict(),
        row=None if row is None else row_document(row),
    )
