"""scikit-learn: the imported network scores and predicts as the estimator does, and what it cannot say is refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from holdfast import Network
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers import load_model, load_network

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
BINARY = (X @ [1.0, -2.0, 0.5, 0.0] > 0.2).astype(int)
SEVERAL = np.array(["high", "low", "middle"])[np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])]
NEW = RNG.normal(scale=3.0, size=(500, 4))


def fitted(estimator, features, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(features, labels)


def perceptron(**options):
    return MLPClassifier(
        **{"hidden_layer_sizes": (6, 5), "max_iter": 30, "random_state": 0} | options
    )


def logit(probabilities):
    return np.log(probabilities[:, 1] / probabilities[:, 0])


@pytest.mark.parametrize("labels", [BINARY, SEVERAL], ids=["binary", "several"])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        LogisticRegression(fit_intercept=False),
        LogisticRegressionCV(
            Cs=2, cv=2, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="accuracy"
        ),
    ],
    ids=["plain", "no intercept", "cv"],
)
def test_logistic_regression_scores(estimator, labels):
    fitted(estimator, X, labels)
    network = load_network(estimator)
    scores = estimator.decision_function(NEW).reshape(len(NEW), -1)
    np.testing.assert_allclose(network.logits(NEW), scores, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(network.predict(NEW), estimator.predict(NEW))


def test_sparsified_coefficients():
    estimator = LogisticRegression().fit(X, BINARY)
    scores = estimator.decision_function(NEW)
    np.testing.assert_allclose(
        load_network(estimator.sparsify()).logits(NEW)[:, 0], scores, atol=1e-9
    )


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5), (4, 3, 2)], ids=str)
def test_perceptron_with_two_classes(hidden):
    estimator = fitted(perceptron(hidden_layer_sizes=hidden), X, BINARY)
    network = load_network(estimator)
    assert network.hidden == hidden
    np.testing.assert_allclose(
        network.logits(NEW)[:, 0], logit(estimator.predict_proba(NEW)), atol=1e-6
    )
    np.testing.assert_array_equal(network.predict(NEW), estimator.predict(NEW))


def test_perceptron_with_several_classes():
    estimator = fitted(perceptron(), X, SEVERAL)
    network = load_network(estimator)
    logits = network.logits(NEW)
    differences = logits - logits[:, :1]
    log_probabilities = np.log(estimator.predict_proba(NEW))
    np.testing.assert_allclose(differences, log_probabilities - log_probabilities[:, :1], atol=1e-6)
    np.testing.assert_array_equal(network.predict(NEW), estimator.predict(NEW))


def test_float32_parameters_are_kept_exactly():
    estimator = fitted(perceptron(), X.astype(np.float32), BINARY)
    assert estimator.coefs_[0].dtype == np.float32
    np.testing.assert_array_equal(
        load_network(estimator).weights[0], estimator.coefs_[0].T.astype(np.float64)
    )


def test_an_identity_perceptron_without_hidden_layers_is_linear():
    estimator = fitted(perceptron(hidden_layer_sizes=(), activation="identity"), X, BINARY)
    np.testing.assert_array_equal(load_network(estimator).predict(NEW), estimator.predict(NEW))


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
def test_smooth_activations_are_refused(activation):
    estimator = fitted(perceptron(activation=activation), X, BINARY)
    with pytest.raises(
        UnsupportedModelError, match=rf"hidden layer 1 \(activation='{activation}'\).*'relu'"
    ):
        load_network(estimator)


def test_multi_label_is_refused():
    estimator = fitted(perceptron(), X, np.column_stack([BINARY, 1 - BINARY, BINARY]))
    with pytest.raises(UnsupportedModelError, match="3 labels at once"):
        load_network(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(n_estimators=2),
        SVC(),
        OneVsRestClassifier(LogisticRegression()),
        make_pipeline(StandardScaler(), SVC()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_other_estimators_are_refused_by_name(estimator):
    estimator.fit(X, BINARY)
    name = "SVC" if isinstance(estimator, Pipeline) else type(estimator).__name__
    with pytest.raises(
        UnsupportedModelError,
        match=rf"{name} is not supported: expected LogisticRegression.*Pipeline",
    ):
        load_network(estimator)


def test_a_subclass_may_score_in_its_own_way_and_is_refused():
    class Flipped(LogisticRegression):
        def decision_function(self, X):
            return -super().decision_function(X)

    with pytest.raises(UnsupportedModelError, match="Flipped is not supported"):
        load_network(Flipped().fit(X, BINARY))


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), perceptron(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_unfitted_model_is_said_to_be_unfitted(estimator):
    with pytest.raises(InvalidInputError, match="not fitted"):
        load_network(estimator)


class TestPipelines:
    def test_preprocessing_stays_out_of_the_parameters(self):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X * 100 + 7, BINARY)
        model = load_model(pipeline)
        raw = NEW * 100 + 7
        np.testing.assert_array_equal(model.network.weights[0], pipeline[-1].coef_)
        np.testing.assert_allclose(model.variables(raw), pipeline[0].transform(raw))
        logits = model.network.logits(model.variables(raw))
        np.testing.assert_allclose(logits[:, 0], pipeline.decision_function(raw), atol=1e-9)

    @pytest.mark.parametrize(
        "pipeline",
        [
            Pipeline([("classifier", LogisticRegression())]),
            Pipeline([("nothing", "passthrough"), ("classifier", LogisticRegression())]),
            Pipeline(
                [
                    ("nothing", None),
                    ("scale", StandardScaler()),
                    ("classifier", LogisticRegression()),
                ]
            ),
            make_pipeline(StandardScaler(), make_pipeline(PCA(2), LogisticRegression())),
            make_pipeline(make_pipeline(StandardScaler(), PCA(2)), LogisticRegression()),
            GridSearchCV(
                make_pipeline(StandardScaler(), LogisticRegression()),
                {"logisticregression__C": [1.0]},
                cv=2,
            ),
            make_pipeline(
                StandardScaler(),
                RandomizedSearchCV(LogisticRegression(), {"C": [1.0]}, n_iter=1, cv=2),
            ),
        ],
        ids=[
            "alone",
            "passthrough",
            "none",
            "nested at the end",
            "nested at the start",
            "searched",
            "search inside",
        ],
    )
    def test_shapes_of_pipelines(self, pipeline):
        frame, new = (pd.DataFrame(values, columns=list("abcd")) for values in (X, NEW))
        pipeline.fit(frame, BINARY)
        model = load_model(pipeline)
        assert model.feature_names == ("a", "b", "c", "d")
        np.testing.assert_array_equal(
            model.network.predict(model.variables(new)), pipeline.predict(new)
        )
        np.testing.assert_array_equal(model.variables(new[list("dbca")]), model.variables(new))
        np.testing.assert_array_equal(model.variables(NEW), model.variables(new))

    def test_without_earlier_steps_there_is_no_preprocessing(self):
        pipeline = Pipeline([("nothing", "passthrough"), ("classifier", LogisticRegression())]).fit(
            X, BINARY
        )
        assert load_model(pipeline).preprocess is None

    def test_a_search_without_refit(self):
        search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2, refit=False).fit(X, BINARY)
        with pytest.raises(InvalidInputError, match="refit=False"):
            load_model(search)


class TestColumnTransformer:
    frame = pd.DataFrame(
        {"income": [1.0, 2.0, 3.0, 4.0], "job": ["a", "b", "a", "c"], "age": [30, 40, 50, 60]}
    )

    @pytest.fixture(params=[True, False], ids=["sparse", "dense"])
    def pipeline(self, request):
        columns = make_column_transformer(
            (StandardScaler(), ["income", "age"]),
            (OneHotEncoder(sparse_output=request.param), ["job"]),
            sparse_threshold=1.0,
        )
        return make_pipeline(columns, LogisticRegression()).fit(
            self.frame, ["no", "no", "yes", "yes"]
        )

    def test_a_frame_goes_in_and_dense_variables_come_out(self, pipeline):
        model = load_model(pipeline)
        variables = model.variables(self.frame)
        assert isinstance(variables, np.ndarray)
        assert variables.shape == (4, 5)
        assert variables.dtype == np.float64
        np.testing.assert_array_equal(
            model.network.predict(variables), pipeline.predict(self.frame)
        )
        np.testing.assert_array_equal(
            model.variables(self.frame[["age", "job", "income"]]), variables
        )
        np.testing.assert_array_equal(model.variables(self.frame.to_numpy()), variables)

    def test_columns_are_checked_by_name(self, pipeline):
        model = load_model(pipeline)
        with pytest.raises(InvalidInputError, match=r"missing \['job'\]"):
            model.variables(self.frame.drop(columns="job"))
        with pytest.raises(InvalidInputError, match=r"unknown to the model \['target'\]"):
            model.variables(self.frame.assign(target=1))
        with pytest.raises(InvalidInputError, match=r"\['age'\] more than once"):
            model.variables(self.frame[["income", "job", "age", "age"]])

    def test_what_preprocessing_refuses_is_an_invalid_input(self, pipeline):
        model = load_model(pipeline)
        with pytest.raises(InvalidInputError, match=r"preprocessing accepts.*unknown categor"):
            model.variables(self.frame.assign(job="unheard of"))
        with pytest.raises(
            InvalidInputError, match=r"expected a table with the columns .* got shape \(4, 2\)"
        ):
            model.variables(np.zeros((4, 2)))

    def test_it_pickles(self, pipeline):
        model = load_model(pipeline)
        copy = pickle.loads(pickle.dumps(model))
        assert copy.network == model.network
        np.testing.assert_array_equal(copy.variables(self.frame), model.variables(self.frame))


def test_an_array_and_a_nameless_frame_are_the_same_to_a_model_fitted_on_arrays():
    model = load_model(LogisticRegression().fit(X, BINARY))
    assert model.feature_names is None
    frame = pd.DataFrame(NEW, columns=["some", "other", "column", "names"])
    np.testing.assert_array_equal(model.variables(frame), NEW)


def test_a_bare_classifier_fitted_on_a_frame_knows_its_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = load_model(LogisticRegression().fit(frame, BINARY))
    assert model.preprocess is None
    np.testing.assert_array_equal(model.variables(frame[list("cabd")]), X)
    with pytest.raises(InvalidInputError, match=r"missing \['d'\], unknown to the model \['e'\]"):
        model.variables(frame.rename(columns={"d": "e"}))


class NeedsColumns(TransformerMixin, BaseEstimator):
    """A transformer of the caller's own that remembers no names."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.log(X["income"].to_numpy())[:, None]


def test_a_transformer_of_ones_own_gets_the_frame_as_it_is():
    frame = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0], "note": ["w", "x", "y", "z"]})
    model = load_model(make_pipeline(NeedsColumns(), LogisticRegression()).fit(frame, [0, 0, 1, 1]))
    np.testing.assert_allclose(model.variables(frame)[:, 0], np.log(frame["income"]))


def test_values_are_checked_by_the_network():
    model = load_model(LogisticRegression().fit(X, BINARY))
    with pytest.raises(InvalidInputError, match="expected a table with 4 columns"):
        model.variables(np.zeros((2, 3)))
    with pytest.raises(InvalidInputError, match="finite"):
        model.variables(np.full((1, 4), np.nan))


class TestDispatch:
    def test_a_network_and_a_model_come_back_as_they_are(self):
        network = Network([[[1.0]]], [[0.0]])
        model = load_model(network)
        assert load_network(network) is network
        assert model.network is network
        assert load_model(model) is model
        assert load_network(model) is network

    @pytest.mark.parametrize(
        "thing", [3, None, {"weight": [1.0]}, np.zeros(3)], ids=lambda x: type(x).__name__
    )
    def test_other_objects_are_refused_by_class(self, thing):
        with pytest.raises(
            UnsupportedModelError, match=rf"expected a fitted .*got .*{type(thing).__name__}"
        ):
            load_model(thing)

    def test_a_class_is_not_an_object_of_it(self):
        with pytest.raises(
            UnsupportedModelError, match="got the class LogisticRegression, not an object of it"
        ):
            load_model(LogisticRegression)
