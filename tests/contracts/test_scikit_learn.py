"""`SentenceClassifier` in scikit-learn's hands: its checks, and what people do with a classifier of texts."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version
from scipy.sparse import csr_matrix
from sklearn import calibration, ensemble, metrics, model_selection, multiclass, multioutput, pipeline
from sklearn.base import clone, is_classifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer
from sklearn.utils.estimator_checks import check_estimator

from contrastive_st import SentenceClassifier

pytestmark = pytest.mark.skipif(Version(sklearn.__version__) < Version("1.6"), reason="tags and checks are of 1.6")

RNG = np.random.default_rng(0)
WORDS = {
    "warm": ["sun", "heat", "summer", "hot", "beach", "desert", "fire", "oven", "sweat", "july"],
    "cold": ["snow", "ice", "frost", "winter", "freezing", "glacier", "polar", "sleet", "chill", "january"],
    "wet": ["rain", "river", "flood", "sea", "wave", "drizzle", "puddle", "swim", "pour", "monsoon"],
}
_OTHERS = ["the", "day", "was", "a", "night", "of", "in", "and", "it", "with"]
THREE = np.repeat(list(WORDS), 20)
TEXTS = [" ".join(RNG.permutation([*RNG.choice(WORDS[label], 2), *RNG.choice(_OTHERS, 4)])) for label in THREE]
ORDER = RNG.permutation(60)
TEXTS, THREE = [TEXTS[i] for i in ORDER], THREE[ORDER]
TWO = np.where(THREE == "warm", "warm", "not")
BINARY = (TWO == "warm").astype(int)
SEVERAL = [["warm"] if own == "warm" else [own, "not"] for own in THREE]
INDICATOR = MultiLabelBinarizer().fit_transform(SEVERAL)
WEIGHTS = RNG.random(60)


# ------------------------------------------------------------------ its checks


def rows(x):
    """An encoder of rows of numbers, which scikit-learn's checks give."""
    return np.asarray(x, dtype=np.float64)


class Rows(SentenceClassifier):
    """A classifier that says it takes rows of numbers; the checks pass over one of strings."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags


_FEATURES = "a text has no features, so there are none to count"
NOT_APPLICABLE = {
    "check_n_features_in": _FEATURES,
    "check_n_features_in_after_fitting": _FEATURES,
    "check_fit2d_predict1d": _FEATURES,
    "check_dtype_object": "an array of objects holds texts, in one column",
    "check_estimator_sparse_tag": "sparse rows are refused, but as a list of texts",
}
MEANS = {
    "check_estimators_empty_data_messages": _FEATURES,
    "check_all_zero_sample_weights_error": "a mean of nothing is the zero vector",
    "check_class_weight_classifiers": "a class has the same mean whatever its weight",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("head", ["logistic", "means"])
def test_the_checks_of_a_classifier(head):
    unfit = NOT_APPLICABLE | (MEANS if head == "means" else {})
    found = check_estimator(Rows(rows, head=head), on_fail=None, on_skip=None)
    failed = {own["check_name"] for own in found if own["status"] == "failed"}
    if head == "means":  # they tell which class is nearest, not how many a text has
        failed = {name for name in failed if not name.startswith("check_classifiers_multilabel")}
    assert failed <= unfit.keys()
    assert sum(own["status"] == "passed" for own in found) > 50


def test_its_tags():
    tags = SentenceClassifier().__sklearn_tags__()
    assert tags.estimator_type == "classifier"
    assert (tags.input_tags.string, tags.input_tags.two_d_array) == (True, False)
    assert tags.classifier_tags.multi_label
    assert tags.target_tags.required
    assert is_classifier(SentenceClassifier())


# ------------------------------------------------------------------ uses with texts


def ours(**options):
    return SentenceClassifier("static-minilm", **options)


def fitted(y=TWO, **options):
    return ours(**options).fit(TEXTS, y)


def good(model, y=TWO, least=0.7):
    """Whether a model, fitted on the first 40 texts, is right about the others."""
    y = np.asarray(y)
    return np.mean(np.asarray(model.fit(TEXTS[:40], y[:40]).predict(TEXTS[40:])) == y[40:]) >= least


def searched(search):
    """Whether a search has scores, and they are not those of an error."""
    return np.isfinite(search.fit(TEXTS, TWO).cv_results_["mean_test_score"]).all() and search.best_score_ > 0.7


def cross(scoring, y=TWO, **options):
    scores = model_selection.cross_val_score(ours(**options), TEXTS, y, cv=3, scoring=scoring, error_score="raise")
    return np.isfinite(scores).all()


def predicted(method, y=TWO):
    return model_selection.cross_val_predict(ours(), TEXTS, y, cv=3, method=method)


def same(first, second):
    np.testing.assert_allclose(first.predict_proba(TEXTS), second.predict_proba(TEXTS), atol=1e-6)
    return True


def reopened(tmp_path, **options):
    fitted(**options).save_pretrained(tmp_path / "saved")
    return SentenceClassifier.from_pretrained(tmp_path / "saved")


def lowered(texts):
    return [text.lower() for text in texts]


def weighted(weights):
    return ours().fit(TEXTS, TWO, sample_weight=weights)


def repeated(y, by_rows, class_weight):
    """Probabilities where texts of the second class count twice: each is there twice, or weighs 2."""
    times = np.where(BINARY == 1, 2, 1)
    rows, weights = (np.repeat(np.arange(60), times), None) if by_rows else (np.arange(60), times)
    classifier = ours(class_weight=class_weight).fit(np.array(TEXTS)[rows], y[rows], weights)
    return classifier.predict_proba(TEXTS)


def picked_c(scoring):
    grid = {"C": [1e-6, 1.0, 100.0]}
    return model_selection.GridSearchCV(ours(), grid, scoring=scoring, cv=3, error_score="raise").fit(TEXTS, TWO)


def frozen(model):
    from sklearn.frozen import FrozenEstimator

    return FrozenEstimator(model)


def good_frame(model, frame):
    return (model.fit(frame[:40], TWO[:40]).predict(frame[40:]) == TWO[40:]).mean() >= 0.8


USES = {
    # searches
    "grid by roc_auc": lambda: searched(picked_c("roc_auc")),
    "grid by log loss": lambda: np.isfinite(picked_c("neg_log_loss").cv_results_["mean_test_score"]).all(),
    "grid over heads": lambda: searched(model_selection.GridSearchCV(ours(), {"head": ["logistic", "means"]}, cv=3)),
    "grid over class_weight": lambda: searched(
        model_selection.GridSearchCV(ours(), {"class_weight": [None, "balanced", {"warm": 2.0}]}, cv=3)),
    "grid in a pipeline": lambda: searched(model_selection.GridSearchCV(
        pipeline.Pipeline([("low", FunctionTransformer(lowered)), ("own", ours())]), {"own__C": [1, 10]}, cv=3)),
    "threshold tuned": lambda: good(model_selection.TunedThresholdClassifierCV(ours(), scoring="f1_macro", cv=3)),
    # scores
    "roc_auc": lambda: cross("roc_auc"),
    "roc_auc, three classes": lambda: cross("roc_auc_ovr", THREE) and cross("roc_auc_ovo", THREE),
    "log loss": lambda: cross("neg_log_loss", THREE),
    "f1 of several labels": lambda: cross("f1_samples", INDICATOR),
    "roc_auc of means": lambda: cross("roc_auc", head="means"),
    "cross_validate": lambda: np.isfinite(model_selection.cross_validate(
        ours(), TEXTS, TWO, cv=3, scoring=["roc_auc", "accuracy"], return_train_score=True)["train_roc_auc"]).all(),
    "roc curve": lambda: len(metrics.roc_curve(BINARY, fitted(BINARY).decision_function(TEXTS))[0]) > 2,
    # predictions out of fold
    "out of fold, labels": lambda: (predicted("predict") == TWO).mean() > 0.7,
    "out of fold, margins": lambda: predicted("decision_function").shape == (60,),
    "out of fold, probabilities": lambda: predicted("predict_proba").shape == (60, 2),
    # meta-estimators
    "calibrated, sigmoid": lambda: good(calibration.CalibratedClassifierCV(ours(), cv=3)),
    "calibrated, three classes": lambda: good(calibration.CalibratedClassifierCV(ours(), cv=3), THREE),
    "calibrated, fitted before": lambda: calibration.CalibratedClassifierCV(frozen(fitted())).fit(
        TEXTS, TWO).predict_proba(TEXTS).shape == (60, 2),
    "calibrated means": lambda: good(calibration.CalibratedClassifierCV(ours(head="means"), cv=3)),
    "one against the rest": lambda: good(multiclass.OneVsRestClassifier(ours()), THREE),
    "one against the rest, several labels": lambda: multiclass.OneVsRestClassifier(ours()).fit(
        TEXTS, INDICATOR).predict_proba(TEXTS).shape == INDICATOR.shape,
    "several outputs": lambda: len(multioutput.MultiOutputClassifier(ours()).fit(
        np.array(TEXTS), INDICATOR).predict_proba(np.array(TEXTS))) == INDICATOR.shape[1],
    "voting, soft": lambda: good(ensemble.VotingClassifier([("a", ours()), ("b", ours(C=10))], voting="soft"), THREE),
    "voting with words": lambda: good(ensemble.VotingClassifier(
        [("a", ours()), ("b", pipeline.make_pipeline(TfidfVectorizer(), LogisticRegression()))], voting="soft")),
    "stacking": lambda: good(ensemble.StackingClassifier([("a", ours()), ("b", ours(head="means"))], cv=3)),
    "stacking on margins": lambda: good(
        ensemble.StackingClassifier([("a", ours())], cv=3, stack_method="decision_function"), THREE),
    # pipelines and data
    "pipeline with weights": lambda: pipeline.Pipeline([("own", ours())]).fit(
        TEXTS, TWO, own__sample_weight=WEIGHTS).score(TEXTS, TWO) > 0.8,
    "a frame of one column": lambda: good_frame(ours(), pd.DataFrame({"text": TEXTS})),
    "a series": lambda: ours().fit(pd.Series(TEXTS), pd.Series(TWO)).score(pd.Series(TEXTS), pd.Series(TWO)) > 0.8,
    "a categorical series": lambda: set(fitted(pd.Series(TWO).astype("category")).predict(TEXTS)) == set(TWO),
    "an array of objects": lambda: good(ours(), np.array(TWO, dtype=object)),
    "labels true and false": lambda: set(fitted(TWO == "warm").predict(TEXTS)) == {True, False},
    "labels as a column": lambda: fitted(BINARY[:, None]).predict(TEXTS).shape == (60,),
    "a sparse indicator": lambda:
        (fitted(csr_matrix(INDICATOR)).predict(TEXTS) == fitted(INDICATOR).predict(TEXTS)).all(),
    "a frame of labels": lambda: fitted(pd.DataFrame(INDICATOR)).predict(TEXTS).shape == INDICATOR.shape,
    # weights
    "equal weights change nothing": lambda: same(weighted(np.ones(60)), fitted()),
    "a weight of 2 is a repeat": lambda: all(
        np.allclose(repeated(y, False, weight), repeated(y, True, weight), atol=4e-4)
        for y, weight in ((TWO, None), (TWO, "balanced"), (INDICATOR, "balanced"), (INDICATOR, {1: 3.0}))),
    "class_weight is a sample_weight": lambda: same(
        fitted(class_weight={"warm": 3.0}), weighted(np.where(BINARY, 3.0, 1.0))),
    "balanced": lambda: fitted(class_weight="balanced").predict(TEXTS).tolist().count("warm")
        >= fitted().predict(TEXTS).tolist().count("warm"),
    "weights of means": lambda: not np.allclose(
        ours(head="means").fit(TEXTS, TWO, WEIGHTS).predict_proba(TEXTS), fitted(head="means").predict_proba(TEXTS)),
    "a weighted score": lambda: 0 <= fitted().score(TEXTS, TWO, sample_weight=WEIGHTS) <= 1,
    # margins
    "margins of two classes": lambda: np.allclose(
        1 / (1 + np.exp(-fitted().decision_function(TEXTS))), fitted().predict_proba(TEXTS)[:, 1]),
    "the sign is the class": lambda:
        ((fitted().decision_function(TEXTS) > 0) == (fitted().predict(TEXTS) == "warm")).all(),
    "log probabilities": lambda: np.allclose(
        fitted(THREE).predict_log_proba(TEXTS), np.log(fitted(THREE).predict_proba(TEXTS))),
    # copies
    "clone": lambda: same(clone(fitted(C=5.0)).fit(TEXTS, TWO), fitted(C=5.0)),
    "pickle": lambda: same(pickle.loads(pickle.dumps(fitted())), fitted()),
    "html": lambda: "SentenceClassifier" in fitted()._repr_html_(),
    "set_params": lambda: same(fitted().set_params(C=9.0).fit(TEXTS, TWO), fitted(C=9.0)),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_use(use):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*column-vector.*")
        assert USES[use]()


@pytest.mark.parametrize("options", [
    {"C": 0.3}, {"C": 7.0, "class_weight": "balanced"}, {"class_weight": {"warm": 2.0}}, {"head": "means"},
])  # fmt: skip
def test_the_clone_of_an_opened_one_trains_with_the_same_settings(tmp_path, options):
    opened = reopened(tmp_path, **options)
    wanted, found = ours(**options).get_params(), opened.get_params()
    assert {name: found[name] for name in wanted if name != "encoder"} == {
        n: v for n, v in wanted.items() if n != "encoder"
    }
    assert same(clone(opened).fit(TEXTS, TWO), fitted(**options))
    assert same(opened, fitted(**options))


def test_class_weights_of_numbers_are_opened_as_numbers(tmp_path):
    fitted(BINARY, class_weight={0: 1.0, 1: 4.0}).save_pretrained(tmp_path / "saved")
    assert SentenceClassifier.from_pretrained(tmp_path / "saved").class_weight == {0: 1.0, 1: 4.0}


def test_joblib_keeps_it(tmp_path):
    joblib.dump(fitted(), tmp_path / "model")
    assert same(joblib.load(tmp_path / "model"), fitted())
