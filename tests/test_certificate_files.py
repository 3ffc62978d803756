"""Certificates and witnesses as files: written, read back, checked by others, and run in the stack they are for."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import holdfast as hf
from holdfast import checker
from holdfast.cli._app import app
from holdfast.datasets import make_loans
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.promises import (
    NoCertificateError,
    WitnessFileError,
    certificate,
    check_certificate,
    read_certificates,
    row_document,
    save_witness,
    write_certificate,
    write_certificates,
    write_parameters,
)
from holdfast.verify._verdict import Verdict


def _fitted(model, X, y):
    """Fitted as far as it gets: a good model is not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.fixture(scope="module")
def recourse():
    people = make_loans(400)
    X, y = people.drop(columns="accepted"), people["accepted"]
    space = hf.FeatureSpace.from_frame(X, immutable=["age"])
    network = hf.load_network(
        _fitted(MLPClassifier((6, 5), max_iter=300, random_state=0), space.encode(X), y)
    )
    denied = X[network.predict(space.encode(X)) == 0].head(12)
    return hf.explain(
        network,
        denied,
        target=1,
        changes=hf.PlausibleChanges(0.02),
        generator=hf.NNCE(X),
        space=space,
    )


def test_a_folder_of_certificates_is_checked_by_the_copied_module_alone(recourse, root, tmp_path):
    table = write_certificates(recourse, tmp_path / "promises")
    assert list(table.index) == list(recourse.factuals.index)
    assert table["certificate"].notna().all()
    assert set(table["verdict"]) == {"ROBUST", "NOT_ROBUST"}
    recourse.network.save(tmp_path / "model.npz")
    write_parameters(recourse.network, tmp_path / "model.json")
    (tmp_path / "space.json").write_text(json.dumps(recourse.space.to_dict()), encoding="utf-8")
    shutil.copy(root / "src" / "holdfast" / "checker.py", tmp_path / "alone.py")
    for model in ("model.npz", "model.json"):
        # -I -S: nothing but the standard library is there to be imported.
        files = [f"promises/{file.name}" for file in sorted((tmp_path / "promises").iterdir())]
        command = [
            sys.executable,
            "-I",
            "-S",
            "alone.py",
            *files,
            "--model",
            model,
            "--space",
            "space.json",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(": ACCEPTED: ") == len(recourse)
        assert "not checked: about, row" in done.stdout


def test_the_module_runs_from_the_package_and_rejects_with_a_reason(recourse, tmp_path):
    document = certificate(recourse, 0)
    write_certificate({**document, "verdict": "UNKNOWN"}, tmp_path / "forged.json")
    recourse.network.save(tmp_path / "model.npz")
    command = [sys.executable, "-m", "holdfast.checker", "forged.json", "--model", "model.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "REJECTED: id: the sha256" in done.stdout


def test_space_and_row_are_checked_where_they_are_given(recourse):
    document = certificate(recourse, 1)
    row, space = recourse.factuals.iloc[1], recourse.space
    assert check_certificate(document, recourse.network).not_checked == ("about", "space", "row")
    assert check_certificate(document, recourse.network, space=space, row=row).not_checked == (
        "about",
    )
    other = check_certificate(document, recourse.network, row=recourse.factuals.iloc[2])
    assert not other.accepted
    assert "hashes.row" in other.reason
    changed = space.constrained(immutable=["income"])
    assert "hashes.space" in check_certificate(document, recourse.network, space=changed).reason


def test_lines_and_single_files_read_back_the_same(recourse, tmp_path):
    write_certificates(recourse, tmp_path / "all.jsonl", rows=[0, 3], about={"case": "A-17"})
    first, second = read_certificates(tmp_path / "all.jsonl")
    assert first == certificate(recourse, 0, about={"case": "A-17"})
    write_certificate(second, tmp_path / "one.json")
    assert next(iter(read_certificates(tmp_path / "one.json"))) == second


def test_a_row_becomes_plain_values():
    row = pd.Series({"a": np.int64(3), "b": np.nan, "c": "x", "d": np.float32(0.5), "e": np.True_})
    assert row_document(row) == {"a": 3, "b": None, "c": "x", "d": 0.5, "e": True}


def test_no_certificate_without_a_verdict():
    network = hf.Network([[[1.0, -1.0]]], [[0.0]])
    certs = hf.certify(network, [[1.0, 0.5]], 1, hf.PlausibleChanges(0.1))
    unknown = np.array([0], dtype=np.int8)
    certs.outcome.verdict[:] = unknown
    assert certs.verdict[0] is Verdict.UNKNOWN
    with pytest.raises(NoCertificateError, match="row 0: the verdict is UNKNOWN"):
        certificate(certs, 0)


def test_a_false_verdict_gets_no_certificate():
    """The maker believes its checker, not the verdict it was given."""
    network = hf.Network([[[1.0, -1.0]]], [[0.0]])
    certs = hf.certify(network, [[1.0, 0.9]], 1, hf.PlausibleChanges(0.5))
    assert certs.verdict[0] is Verdict.NOT_ROBUST
    certs.outcome.verdict[:] = 1
    with pytest.raises(NoCertificateError, match="no certificate for this ROBUST row"):
        certificate(certs, 0)


def test_command_line(recourse, tmp_path):
    write_certificates(recourse, tmp_path / "all.jsonl")
    recourse.network.save(tmp_path / "model.npz")
    runner = CliRunner()
    done = runner.invoke(
        app, ["check", str(tmp_path / "all.jsonl"), "--model", str(tmp_path / "model.npz")]
    )
    assert done.exit_code == 0, done.output
    assert re.search(
        rf"{len(recourse)} of {len(recourse)} certificates hold \(\d+ NOT_ROBUST, \d+ ROBUST\)",
        done.output,
    )
    shifted = hf.Network(recourse.network.weights, [b + 0.001 for b in recourse.network.biases])
    shifted.save(tmp_path / "other.npz")
    done = runner.invoke(
        app, ["check", str(tmp_path / "all.jsonl"), "--model", str(tmp_path / "other.npz")]
    )
    assert done.exit_code == 3
    assert "all.jsonl was made for another model than other.npz" in done.output
    (tmp_path / "empty").mkdir()
    done = runner.invoke(
        app, ["check", str(tmp_path / "empty"), "--model", str(tmp_path / "model.npz")]
    )
    assert done.exit_code == 2


@pytest.fixture
def small(tmp_path):
    """A model in a file and a certificate for it in another."""
    network = hf.Network(
        [[[1.0, -1.0], [0.5, 0.25]], [[1.0, 1.0]]], [[0.0, 0.125], [0.25]], ["no", "yes"]
    )
    network.save(tmp_path / "model.npz")
    certs = hf.certify(network, [[1.0, 0.5]], "yes", hf.PlausibleChanges(0.01))
    write_certificate(certificate(certs, 0), tmp_path / "good.json")
    return network


def _rezipped(path, packed=False, **parts):
    """The same archive with some parts added, or put in another's place."""
    with zipfile.ZipFile(path) as archive:
        old = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(
        path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    ) as archive:
        for name, part in (old | parts).items():
            archive.writestr(name, part)


def _npy(values):
    content = io.BytesIO()
    np.save(content, np.asarray(values))
    return content.getvalue()


def test_a_model_file_means_the_same_to_every_reader(small, tmp_path):
    """numpy prefers a part named weight_0 to weight_0.npy: with both in it, a file would be two models."""
    path = tmp_path / "model.npz"
    assert checker.load_model(path).weights == [weight.tolist() for weight in small.weights]
    _rezipped(path, weight_0=_npy([[9.0, 9.0], [9.0, 9.0]]))
    with pytest.raises(FileFormatError, match="the parts"):
        hf.Network.load(path)
    with pytest.raises(checker.CheckError, match="the parts"):
        checker.load_model(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"layers": 1, "activations": []}, "the parts"),
        ({"layers": 10**9}, "the parts"),
        ({"format": "another"}, "format and version"),
        ({"version": 2}, "format and version"),
        ({"threshold": 0.75}, "expected the entries"),
    ],
)
def test_a_header_that_says_something_else_is_refused(small, tmp_path, change, reason):
    path = tmp_path / "model.npz"
    header = {"format": "holdfast-network", "version": 1, "layers": 2, "classes": ["no", "yes"]}
    header |= {"activations": ["relu"]}
    _rezipped(path, **{"header.npy": _npy(json.dumps(header))})
    assert checker.load_model(path).classes == ["no", "yes"]
    _rezipped(path, **{"header.npy": _npy(json.dumps(header | change))})
    with pytest.raises(checker.CheckError, match=reason):
        checker.load_model(path)


def test_a_small_file_that_unpacks_into_a_huge_one_is_refused_before_it_does(small, tmp_path):
    path = tmp_path / "model.npz"
    _rezipped(path, packed=True, **{"weight_0.npy": _npy(np.zeros((2, 500_000)))})
    assert path.stat().st_size < 100_000
    with pytest.raises(checker.CheckError, match="uncompressed"):
        checker.load_model(path)


def _alone(folder, *arguments, **options):
    command = [sys.executable, "-I", "-S", checker.__file__, *arguments, "--model", "model.npz"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", **options
    )


def test_nothing_in_a_certificate_writes_lines_of_the_answer(small, tmp_path):
    forged = "x\nforged.json: ACCEPTED: Every network\x1b[1A"
    (tmp_path / "forged.json").write_text(json.dumps({forged: 1}), encoding="utf-8")
    (tmp_path / "half.json").write_text(json.dumps({"\ud800": 1}), encoding="utf-8")
    done = _alone(tmp_path, "forged.json", "half.json", "good.json")
    assert done.returncode == 1, done.stderr
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()[:-1]] == [
        ["forged.json", "REJECTED"], ["half.json", "REJECTED"], ["good.json", "ACCEPTED"],
    ]  # fmt: skip
    assert "\x1b" not in done.stdout
    done = CliRunner().invoke(
        app, ["check", str(tmp_path / "forged.json"), "--model", str(tmp_path / "model.npz")]
    )
    assert "\x1b" not in done.output


def test_a_terminal_without_greek_letters_still_gets_an_answer(small, tmp_path):
    broken = certificate(hf.certify(small, [[1.0, 0.5]], "yes", hf.PlausibleChanges(2.0)), 0)
    broken["changes"]["delta"] = 0.5
    broken["statement"] = checker.statement(broken)
    broken["id"] = checker.sha256({**broken, "id": ""})
    write_certificate(broken, tmp_path / "broken.json")
    command = [
        sys.executable,
        "-X",
        "utf8=0",
        "-S",
        checker.__file__,
        "broken.json",
        "--model",
        "model.npz",
    ]
    environment = {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "REJECTED: proof: the witness lies outside \\u0394" in done.stdout


@pytest.mark.parametrize("name", ["empty.json", "empty.jsonl"])
def test_a_file_without_a_certificate_is_not_passed_over(small, tmp_path, name):
    (tmp_path / name).write_text("\n", encoding="utf-8")
    done = _alone(tmp_path, "good.json", name)
    assert done.returncode == 1
    assert f"{name}: REJECTED" in done.stdout


def test_every_statement_that_holds_is_told_once(small, tmp_path):
    folder = tmp_path / "promises"
    folder.mkdir()
    for k, delta in enumerate((0.01, 1e-6, 1e-6)):
        certs = hf.certify(small, [[1.0 + k, 0.5]], "yes", hf.PlausibleChanges(delta))
        write_certificate(certificate(certs, 0), folder / f"{k}.{'JSON' if k else 'json'}")
    done = CliRunner().invoke(app, ["check", str(folder), "--model", str(tmp_path / "model.npz")])
    assert done.exit_code == 0, done.output
    assert "1 certificate: Every network" in done.output
    assert re.search(r"2 certificates: Every network .* at most 1e-06 gives", done.output)
    assert "3 of 3 certificates hold" in done.output


def test_the_preprocessing_in_a_model_file_is_named_as_not_checked(tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]]), ["no", "no", "yes", "yes"]
    pipeline = _fitted(make_pipeline(StandardScaler(), LogisticRegression()), X, y)
    skops.dump(pipeline, tmp_path / "model.skops")
    network = hf.load_network(pipeline)
    point = pipeline[0].transform(X[-1:])
    certs = hf.certify(network, point, network.predict(point), hf.PlausibleChanges(0.01))
    write_certificate(certificate(certs, 0), tmp_path / "good.json")
    done = CliRunner().invoke(
        app, ["check", str(tmp_path / "good.json"), "--model", str(tmp_path / "model.skops")]
    )
    assert done.exit_code == 0, done.output
    assert re.search("not checked.*preprocessing", done.output)


def test_classes_that_are_equal_in_numpy_are_not_confused():
    """0, 0.0 and False are one class to numpy and three names to a certificate."""
    for classes in ([0, 1], [0.0, 1.0], [False, True]):
        network = hf.Network([[[1.0, -1.0]]], [[0.0]], classes)
        certs = hf.certify(network, [[1.0, 0.25]], network.classes[1], hf.PlausibleChanges(0.01))
        assert certificate(certs, 0)["target"]["label"] is classes[1] or classes[1] == 1.0


def test_classes_without_a_place_in_json_get_no_certificate():
    network = hf.Network(
        [[[1.0, -1.0]]], [[0.0]], np.array(["2026-01-01", "2027-01-01"], dtype="datetime64[D]")
    )
    certs = hf.certify(network, [[1.0, 0.25]], network.classes[1], hf.PlausibleChanges(0.01))
    with pytest.raises(NoCertificateError, match="not JSON"):
        certificate(certs, 0)


# --- witness files ----------------------------------------------------------------------------------------------------


def _broken(model, X, changes):
    """A row that the model accepts and a witness refuses, both as the network sees them."""
    network = hf.load_network(model)
    certs = hf.certify(network, X, network.predict(X), changes)
    row = next(i for i in range(len(X)) if str(certs.verdict[i]) == "NOT_ROBUST")
    return certs.witness(row), X[row], network.classes[certs.targets[row]].item()


@pytest.fixture(scope="module")
def table():
    X, y = make_classification(300, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=1)
    return X, y


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["logistic", "perceptron", "pipeline"])
def test_scikit_learn_loads_the_witness_and_sees_the_class_flip(table, classes, kind, tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y = table[0], np.array(["no", "yes", "perhaps"])[table[1] % classes]
    classifier = (
        LogisticRegression()
        if kind == "logistic"
        else MLPClassifier((6,), max_iter=60, random_state=0)
    )
    model = _fitted(
        make_pipeline(StandardScaler(), classifier) if kind == "pipeline" else classifier, X, y
    )
    seen = model[:-1].transform(X) if kind == "pipeline" else X
    changes = hf.PlausibleChanges(0.3)
    witness, x, target = _broken(model, seen, changes)
    saved = save_witness(
        witness, model, tmp_path / "witness.skops", point=x, target=target, changes=changes
    )
    assert not saved.rounded
    assert saved.network == witness
    loaded = skops.load(
        tmp_path / "witness.skops",
        trusted=skops.get_untrusted_types(file=tmp_path / "witness.skops"),
    )
    final = loaded[-1] if kind == "pipeline" else loaded
    assert final.predict(x[None, :])[0] == saved.predicted != target
    if kind == "pipeline":
        raw = model[0].inverse_transform(x[None, :])
        assert model.predict(raw)[0] == target != loaded.predict(raw)[0]


@pytest.mark.parametrize(("outputs", "double"), [(1, False), (1, True), (3, False)])
@pytest.mark.parametrize("squash", [False, True])
def test_torch_loads_the_state_dict_and_sees_the_class_flip(outputs, double, squash, tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    end = [torch.nn.Sigmoid() if outputs == 1 else torch.nn.Softmax(dim=1)] if squash else []
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, outputs), *end
    ).eval()
    module = module.double() if double else module
    X = np.random.default_rng(0).normal(size=(60, 4))
    changes = hf.PlausibleChanges(0.1)
    witness, x, target = _broken(module, X, changes)
    saved = save_witness(
        witness, module, tmp_path / "witness.pt", point=x, target=target, changes=changes
    )
    assert saved.rounded is not double
    assert changes.contains(hf.load_network(module), saved.network)
    state = torch.load(tmp_path / "witness.pt", weights_only=True)
    assert state["0.weight"].dtype is (torch.float64 if double else torch.float32)
    module.load_state_dict(state)
    assert hf.load_network(module) == saved.network
    assert saved.network.predict(x[None, :])[0] == saved.predicted != target


@pytest.mark.parametrize("maker", ["torch", "skl2onnx perceptron", "skl2onnx logistic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_onnx_runs_the_witness_and_sees_the_class_flip(table, maker, classes, tmp_path):
    pytest.importorskip("onnx")
    model = _onnx_model(maker, table[0], table[1] % classes)
    X = table[0].astype(np.float32).astype(np.float64)
    changes = hf.PlausibleChanges(0.2)
    witness, x, target = _broken(model, X, changes)
    saved = save_witness(
        witness, model, tmp_path / "witness.onnx", point=x, target=target, changes=changes
    )
    network = hf.load_network(str(tmp_path / "witness.onnx"))
    assert network == saved.network
    assert changes.contains(hf.load_network(model), network)
    assert network.predict(x[None, :])[0] == saved.predicted != target


def _onnx_model(maker, X, y):
    import onnx

    if maker == "torch":
        from onnx import TensorProto, helper, numpy_helper

        rng = np.random.default_rng(5)
        shapes = {"w0": (6, X.shape[1]), "b0": (6,), "w1": (6, y.max() + 1), "b1": (y.max() + 1,)}
        tensors = [
            numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n)
            for n, s in shapes.items()
        ]
        nodes = [
            helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["v"]),
            helper.make_node("MatMul", ["v", "w1"], ["m"]),
            helper.make_node("Add", ["m", "b1"], ["z"]),
        ]
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, None]) for n in ("x", "z")
        ]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    skl2onnx = pytest.importorskip("skl2onnx")
    logistic = "logistic" in maker
    classifier = _fitted(
        LogisticRegression() if logistic else MLPClassifier((6,), max_iter=5, random_state=0), X, y
    )
    proto = skl2onnx.to_onnx(classifier, X[:1].astype(np.float32), options={"zipmap": False})
    return onnx.load_model_from_string(proto.SerializeToString())


def test_a_witness_that_float32_cannot_hold_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    with torch.no_grad():
        module.weight[:], module.bias[:] = torch.tensor([[1.0, 0.0]]), 0.0
    # The least logit over Δ is 1 - 1 - 1e-12: below zero by less than float32 can say.
    changes = hf.PlausibleChanges(0.5 + 5e-13)
    certs = hf.certify(module, [[1.0, 0.0]], 1, changes)
    assert not certs.robust[0]
    with pytest.raises(WitnessFileError, match="float64 only"):
        save_witness(
            certs.witness(0), module, tmp_path / "w.pt", point=[1.0, 0.0], target=1, changes=changes
        )
    assert list(tmp_path.iterdir()) == []


def test_the_wrong_kind_of_file_is_refused(tmp_path):
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    network = hf.load_network(model)
    with pytest.raises(InvalidInputError, match=r"ends in \.skops"):
        save_witness(
            network,
            model,
            tmp_path / "w.onnx",
            point=[0.0],
            target=1,
            changes=hf.PlausibleChanges(0.1),
        )
    with pytest.raises(InvalidInputError, match="point: expected numbers"):
        save_witness(
            network,
            model,
            tmp_path / "w.skops",
            point=["rent"],
            target=1,
            changes=hf.PlausibleChanges(0.1),
        )


def test_class_names_of_any_column_can_be_certified():
    """A classifier that learned from a column of Python strings has classes of dtype object."""
    network = hf.Network([[[-1.0, 1.0]]], [[0.0]], np.array(["bad", "good"], dtype=object))
    certs = hf.certify(network, [[0.2, 0.9]], "good", hf.PlausibleChanges(0.05))
    document = hf.certificate(certs, 0)
    assert document["target"]["label"] == "good"
    assert hf.check_certificate(document, network).accepted
