"""Files: what is safe is read, what can run code is opened only on trust, and a bad file is an error of our own."""

import contextlib
import os
import pickle
import sys
import zipfile

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from torch import nn

from holdfast import Network
from holdfast.errors import (
    FileFormatError,
    HoldfastError,
    InvalidInputError,
    MissingExtraError,
    UnsupportedModelError,
    UntrustedFileError,
)
from holdfast.importers import load_model, load_network, read_model

NETWORK = Network([[[1.0, -2.0], [0.5, 0.25]], [[1.0, -1.0]]], [[0.1, 0.2], [0.3]], ["no", "yes"])
FRAME = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0], "job": ["a", "b", "a", "c"]})
LABELS = np.array([0, 1, 0, 1])


def pipeline(classifier):
    columns = make_column_transformer((StandardScaler(), ["income"]), (OneHotEncoder(), ["job"]))
    return make_pipeline(columns, classifier).fit(FRAME, LABELS)


class TestSavedNetworks:
    @pytest.mark.parametrize("name", ["net.npz", "net.hfn", "net", "net.bin", "net.onnx"])
    def test_the_content_counts_and_not_the_name(self, tmp_path, name):
        NETWORK.save(tmp_path / name)
        assert load_network(tmp_path / name) == NETWORK
        assert load_network(str(tmp_path / name)) == NETWORK
        assert read_model(tmp_path / name).preprocess is None

    def test_arrays_of_another_program(self, tmp_path):
        np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
        with pytest.raises(
            FileFormatError, match=r"arrays\.npz: expected a network saved by holdfast"
        ):
            read_model(tmp_path / "arrays.npz")

    def test_a_header_without_its_parts(self, tmp_path):
        header = np.array('{"format": "holdfast-network", "version": 1, "layers": 1}')
        np.savez(tmp_path / "net.npz", header=header, weight_0=np.ones((1, 2)), bias_0=np.ones(1))
        with pytest.raises(FileFormatError, match="classes"):
            read_model(tmp_path / "net.npz")
        np.savez(tmp_path / "net.npz", header=np.array(str(header)[:-1] + ', "classes": [0, 0], "activations": []}'),
                 weight_0=np.ones((1, 2)), bias_0=np.ones(1))  # fmt: skip
        with pytest.raises(FileFormatError, match="different labels"):
            read_model(tmp_path / "net.npz")

    def test_a_file_is_written_whole_and_through_no_link(self, tmp_path, monkeypatch):
        NETWORK.save(tmp_path / "net")
        before = (tmp_path / "net").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(np, "savez", lambda file, **parts: file.write(b"half") / None)
            with pytest.raises(TypeError):
                NETWORK.save(tmp_path / "net")
        assert (tmp_path / "net").read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["net"]
        # Someone who foresaw the name of the file that is written first.
        monkeypatch.setattr("secrets.token_hex", lambda size: "foreseen")
        (tmp_path / ".foreseen.partial.net").symlink_to(tmp_path / "planted")
        with pytest.raises(InvalidInputError, match="expected a file that can be written"):
            NETWORK.save(tmp_path / "net")
        assert not (tmp_path / "planted").exists()

    @pytest.mark.parametrize("name", ["net.npz", "net.skops", "net.bin"])
    def test_damage_raises_errors_of_our_own(self, tmp_path, name):
        NETWORK.save(tmp_path / "whole")
        whole = (tmp_path / "whole").read_bytes()
        for seed in range(100):
            rng = np.random.default_rng(seed)
            damaged = bytearray(whole[: rng.integers(0, len(whole) + 1)])
            for position in rng.integers(0, max(1, len(damaged)), size=3):
                damaged[position : position + 1] = rng.bytes(1)
            (tmp_path / name).write_bytes(bytes(damaged))
            with contextlib.suppress(HoldfastError):
                assert read_model(tmp_path / name).network.n_features == 2


class TestSkops:
    @pytest.mark.parametrize(
        "classifier", [LogisticRegression(), MLPClassifier((3,), max_iter=400, tol=0.1)], ids=str
    )
    def test_a_pipeline_comes_back_whole(self, tmp_path, classifier):
        fitted = pipeline(classifier)
        skops.io.dump(fitted, tmp_path / "model.skops")
        model = load_model(tmp_path / "model.skops")
        assert model.feature_names == ("income", "job")
        np.testing.assert_array_equal(
            model.network.predict(model.variables(FRAME)), fitted.predict(FRAME)
        )

    def test_other_types_are_refused_by_name(self, tmp_path):
        model = make_pipeline(FunctionTransformer(os.path.basename), LogisticRegression())
        model.steps[-1][1].fit(FRAME[["income"]], LABELS)
        skops.io.dump(model, tmp_path / "model.skops")
        with pytest.raises(
            UntrustedFileError, match=r"scikit-learn and numpy types only, got posixpath\.basename"
        ):
            read_model(tmp_path / "model.skops")

    def test_functions_of_trusted_packages_are_no_types(self, tmp_path):
        model = make_pipeline(FunctionTransformer(np.testing.rundocs), LogisticRegression())
        model.steps[-1][1].fit(FRAME[["income"]], LABELS)
        skops.io.dump(model, tmp_path / "model.skops")
        with pytest.raises(UntrustedFileError, match="rundocs"):
            read_model(tmp_path / "model.skops")

    def test_unsupported_models_inside(self, tmp_path):
        skops.io.dump(StandardScaler().fit(FRAME[["income"]]), tmp_path / "model.skops")
        with pytest.raises(UnsupportedModelError, match="StandardScaler is not supported"):
            read_model(tmp_path / "model.skops")

    def test_a_missing_package_names_its_install_command(self, tmp_path, monkeypatch):
        (tmp_path / "model.skops").write_bytes(b"")
        monkeypatch.setitem(sys.modules, "skops.io", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'holdfast\[skops\]'"):
            read_model(tmp_path / "model.skops")


class Mischief:
    """Leaves a trace if it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class TestPickles:
    @pytest.mark.parametrize("name", ["m.pkl", "m.pickle", "m.joblib", "m.pt", "m.pth", "M.PKL"])
    def test_nothing_is_opened_without_trust(self, tmp_path, name):
        (tmp_path / name).write_bytes(pickle.dumps(Mischief(tmp_path / "trace")))
        with pytest.raises(
            UntrustedFileError,
            match=r"runs the code in it.*trust_pickle=True \(--trust-pickle.*\.skops",
        ):
            read_model(tmp_path / name)
        with pytest.raises(UntrustedFileError):
            load_model(tmp_path / name)
        assert not (tmp_path / "trace").exists()

    @pytest.mark.parametrize(
        "dump", [joblib.dump, lambda thing, path: path.write_bytes(pickle.dumps(thing))]
    )
    @pytest.mark.parametrize("name", ["m.pkl", "m.joblib"])
    def test_scikit_learn_on_trust(self, tmp_path, name, dump):
        fitted = pipeline(LogisticRegression())
        dump(fitted, tmp_path / name)
        model = read_model(tmp_path / name, trust_pickle=True)
        np.testing.assert_array_equal(
            model.network.predict(model.variables(FRAME)), fitted.predict(FRAME)
        )

    def test_torch_on_trust(self, tmp_path):
        module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        torch.save(module, tmp_path / "m.pt")
        assert read_model(tmp_path / "m.pt", trust_pickle=True).network == load_network(module)

    def test_a_state_dict_does_not_say_its_activations(self, tmp_path):
        torch.save(
            nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).state_dict(),
            tmp_path / "m.pt",
        )
        with pytest.raises(
            UnsupportedModelError,
            match=r"whole torch module, got a dictionary .*'0\.weight'.*activations",
        ):
            read_model(tmp_path / "m.pt", trust_pickle=True)

    def test_another_object(self, tmp_path):
        joblib.dump([1, 2], tmp_path / "m.joblib")
        with pytest.raises(UnsupportedModelError, match=r"got builtins\.list"):
            read_model(tmp_path / "m.joblib", trust_pickle=True)

    @pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.pt"])
    @pytest.mark.parametrize(
        "content", [b"", b"no pickle", b"\x80\x04."], ids=["empty", "text", "cut"]
    )
    def test_a_damaged_pickle(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileFormatError, match="got a file that cannot be loaded"):
            read_model(tmp_path / name, trust_pickle=True)


class TestPaths:
    def test_no_such_file(self, tmp_path):
        with pytest.raises(
            InvalidInputError,
            match=r"missing\.onnx: expected the path of a model file, got no such file",
        ):
            read_model(tmp_path / "missing.onnx")

    def test_a_folder(self, tmp_path):
        with pytest.raises(InvalidInputError, match="got a folder"):
            load_model(tmp_path)

    @pytest.mark.parametrize("name", ["model.h5", "model", "model.yaml"])
    def test_an_unknown_ending(self, tmp_path, name):
        (tmp_path / name).write_text("{}")
        with pytest.raises(
            FileFormatError, match=r"expected a file named \.onnx, \.npz.*\.skops.*, got"
        ):
            read_model(tmp_path / name)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("model.onnx", "ONNX model"),
            ("model.skops", r"\.skops file"),
            ("model.npz", "saved by holdfast"),
            ("model.hfn", "saved by holdfast"),
        ],
    )
    @pytest.mark.parametrize(
        "content", [b"", b"some text", b"PK\x03\x04 cut"], ids=["empty", "text", "zip"]
    )
    def test_another_content_than_the_name_says(self, tmp_path, name, expected, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileFormatError, match=expected):
            read_model(tmp_path / name)

    def test_a_zip_of_something_else(self, tmp_path):
        for name in ("model.onnx", "model.skops", "model.npz"):
            with zipfile.ZipFile(tmp_path / name, "w") as archive:
                archive.writestr("hello.txt", "hello")
            with pytest.raises(FileFormatError):
                read_model(tmp_path / name)


def test_a_damaged_network_is_told_apart_where_it_is_read(tmp_path):
    """`Network.load` itself, without the reader of files around it: every byte spoilt in turn, never a raw error."""
    NETWORK.save(tmp_path / "net.npz")
    content = (tmp_path / "net.npz").read_bytes()
    refused = 0
    for place in range(0, len(content), 3):
        spoilt = bytearray(content)
        spoilt[place] ^= 0xFF
        (tmp_path / "spoilt.npz").write_bytes(bytes(spoilt))
        try:
            type(NETWORK).load(tmp_path / "spoilt.npz")
        except FileFormatError:
            refused += 1
    assert refused > len(content) / 3 / 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": "holdfast-feature-space", "version": 1}', "got 'holdfast-feature-space'"),
        ('{"weights": [], "biases": []}', "got an object with 'weights', 'biases'"),
        ('{"a": 1, "b": 2, "c": 3, "d": 4}', "got an object with 'a', 'b', 'c', ..."),
        ("{}", "got an object with nothing"),
        ('[{"learner": 1}]', "got a list"),
        ("{", "got a file that is not JSON"),
        ("[" * 100_000, "got a file that is not JSON"),
    ],
    ids=["space", "network", "object", "empty", "list", "half", "deep"],
)
def test_a_json_file_that_is_no_model_says_what_is_in_it(tmp_path, monkeypatch, text, words):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(FileFormatError) as error:
        read_model(tmp_path / "model.json")
    assert "expected a model of XGBoost or CatBoost" in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ('{"learner": {}}', "xgboost"),
        ('{\n "version": [3, 2, 0], "learner": {}}', "xgboost"),
        ('{"features_info": {}, "oblivious_trees": []}', "catboost"),
        ('{"model_info": {}, "trees": []}', "catboost"),
    ],
)
def test_a_json_file_goes_to_the_library_whose_it_is(tmp_path, monkeypatch, text, library):
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(MissingExtraError, match=rf"reading a \.json file needs .*{library}"):
        read_model(tmp_path / "model.json")
