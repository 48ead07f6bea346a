"""`SentenceClassifier` in scikit-learn's manner, its training, and what is saved and opened."""

import dataclasses
import json
import random
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from safetensors import SafetensorError
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from warm_python import python_with_package

from contrastive_st import SentenceClassifier, SentenceEncoder
from contrastive_st.classification.settings import TuningSettings
from contrastive_st.classification.tuning import LinearLoss, tune_on_pairs
from contrastive_st.errors import InputError, one_line
from contrastive_st.models import AutoModelForCL, add_lora
from contrastive_st.models.protocol import FunctionEncoder

WARM = ["a hot day", "the sun burns", "summer heat", "a warm evening", "sunny weather"]
COLD = ["snow and ice", "a freezing night", "winter frost", "a cold wind", "icy roads"]
TEXTS, LABELS = WARM + COLD, ["warm"] * 5 + ["cold"] * 5
NEW = ["heat in the sun", "frost at night"]


def words(texts):
    return np.array([[text.count("a"), text.count("o"), text.count("t")] for text in texts], dtype=float) + 0.1


# ------------------------------------------------------------------ scikit-learn's manner


def test_it_is_a_classifier_of_scikit_learn():
    classifier = SentenceClassifier("static-minilm", C=3.0)
    assert classifier.get_params()["C"] == 3.0
    defaults = {spec.name: spec.default for spec in dataclasses.fields(TuningSettings)}
    assert defaults.items() <= classifier.get_params().items()
    assert clone(classifier).set_params(head="means").head == "means"
    with pytest.raises(NotFittedError):
        classifier.predict(TEXTS)
    assert classifier.fit(TEXTS, LABELS) is classifier
    assert classifier.classes_.tolist() == ["cold", "warm"]
    assert classifier.predict(NEW).tolist() == ["warm", "cold"]
    shares = classifier.predict_proba(NEW)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert (classifier.classes_[shares.argmax(1)] == classifier.predict(NEW)).all()
    assert classifier.score(NEW, ["warm", "warm"]) == 0.5
    assert cross_val_score(SentenceClassifier("static-minilm"), TEXTS, LABELS, cv=5).mean() > 0.7


def test_labels_are_numbers_or_strings():
    classifier = SentenceClassifier("static-minilm").fit(np.array(TEXTS), [7] * 5 + [3] * 5)
    assert classifier.predict(NEW).tolist() == [7, 3]
    for texts, labels, message in (
        (TEXTS, LABELS[:-1], "inconsistent numbers of samples"),
        (TEXTS, ["warm"] * 10, r"of 1 class \('warm'\); a classifier needs two"),
        (TEXTS, ["1"] * 5 + [2] * 5, "give one kind"),
        (TEXTS, [["a"]] * 5 + ["b"] * 5, "give each text a list"),
        ("a text", LABELS, "give a list of strings"),
        ([], [], "of 0 class"),
        (TEXTS, [1.0] * 5 + [2.0] * 4 + [float("nan")], "a label is missing"),
        (TEXTS, ["a", None] * 5, "a label is missing"),
        (TEXTS, [[]] * 10, "of 0 class"),
        (TEXTS, None, "requires y to be passed"),
        (TEXTS, [0.1 * i for i in range(10)], "Unknown label type: continuous"),
        (np.array([TEXTS, TEXTS]).T, LABELS, r"shape \[10, 2\]; give a list of strings, or one column"),
        (TEXTS, pd.Series(["a", "b"] * 4 + ["a", pd.NA], dtype="string"), "a label is missing"),
        (TEXTS, [True, pd.NA] * 5, "a label is missing"),
        (TEXTS, pd.DataFrame({"a": [0, 1] * 5, "b": [1, None] * 5}), "a label is missing"),
        (TEXTS, np.array([["a", "b"]] * 10), "must be 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            SentenceClassifier("static-minilm").fit(texts, labels)
    with pytest.raises(InputError, match="'forest'"):
        SentenceClassifier("static-minilm", head="forest").fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="label"):
        classifier.score(NEW, [[7], [3]])


@pytest.mark.parametrize("options", [{}, {"thresholds": "half"}, {"lexical": True}, {"class_weight": "balanced"}])
def test_a_label_that_all_texts_have_or_none_is_predicted_for_all_or_none(options, caplog):
    rows = np.array([[1, 0, 1, 0]] * 5 + [[0, 1, 1, 0]] * 5)
    classifier = SentenceClassifier("static-minilm", **options).fit(TEXTS, rows)
    assert "all texts have the label 2, so it is predicted for all" in caplog.text
    assert "no text has the label 3, so it is predicted for none" in caplog.text
    assert classifier.predict(TEXTS)[:, 2:].tolist() == [[1, 0]] * 10
    np.testing.assert_allclose(classifier.predict_proba(NEW)[:, 2:], [[11 / 12, 1 / 12]] * 2)
    of_two = SentenceClassifier("static-minilm", **options).fit(TEXTS, rows[:, :2])
    np.testing.assert_array_equal(classifier.predict(NEW)[:, :2], of_two.predict(NEW))
    scores = cross_val_score(SentenceClassifier("static-minilm", **options), TEXTS, rows, cv=KFold(2))
    assert np.isfinite(scores).all()


def test_lists_of_the_classes_0_and_1_are_lists_in_any_batch(tmp_path):
    labels = [[0, 1], [1, 0], [1], [0], [0], [1], [0], [1], [0], [1]]
    classifier = SentenceClassifier("static-minilm").fit(TEXTS, labels)
    classifier.save_pretrained(tmp_path / "saved")
    for one in (classifier, SentenceClassifier.from_pretrained(tmp_path / "saved")):
        assert one.as_predicted(labels[:2]).tolist() == one.as_predicted(labels[:3])[:2].tolist() == [[1, 1], [1, 1]]
        assert one.as_predicted(np.array([[0, 1], [1, 0]])).tolist() == [[0, 1], [1, 0]]
    columns = SentenceClassifier("static-minilm").fit(TEXTS, [[0, 1], [1, 0]] * 5)
    assert columns.as_predicted([[0, 1], [1, 0]]).tolist() == [[0, 1], [1, 0]]


def test_rows_of_0_and_1_are_columns_of_classes_however_they_are_held():
    rows = [[1, 0], [1, 1], [0, 1], [0, 0], [1, 0]] * 2
    of_array = SentenceClassifier("static-minilm").fit(TEXTS, np.array(rows))
    frame = pd.DataFrame(rows, columns=["warm", "day"])
    for labels, names in ((rows, [0, 1]), (frame, ["warm", "day"]), (frame.astype("boolean"), ["warm", "day"])):
        classifier = SentenceClassifier("static-minilm").fit(TEXTS, labels)
        assert classifier.classes_.tolist() == names
        np.testing.assert_array_equal(classifier.predict(TEXTS), of_array.predict(TEXTS))
        assert classifier.score(TEXTS, labels) == of_array.score(TEXTS, np.array(rows))
    named = [["warm"], ["warm", "day"], ["day"], [], ["warm"]] * 2
    for same in (frame, frame[["day", "warm"]], rows, named):
        np.testing.assert_array_equal(classifier.as_predicted(same), rows)
    several = SentenceClassifier("static-minilm").fit(TEXTS, [[0, 1], [0], [1, 2], [2], []] * 2)
    assert several.as_predicted([[0, 1], [0, 1]]).tolist() == [[1, 1, 0]] * 2  # two labels, and not two columns
    with pytest.raises(InputError, match="examples"):
        classifier.score(TEXTS, frame.rename(columns={"day": "night"}))


@pytest.mark.parametrize("one", [
    ("warm", "cold"), (True, False), (3, 1), (2.0, 1.0), np.array([7, 2], np.uint8),
    np.array(["2026-01-02", "2026-01-01"], "datetime64[ns]"), np.array(["2026-01-02", "2026-01-01"], "datetime64[us]"),
], ids=lambda one: np.asarray(one).dtype.name)  # fmt: skip
def test_labels_of_any_kind_are_saved_and_compared_however_they_are_written(one, tmp_path):
    labels = np.repeat(np.asarray(one), 5)
    fitted = SentenceClassifier("static-minilm").fit(TEXTS, labels)
    fitted.save_pretrained(tmp_path / "saved")
    opened = SentenceClassifier.from_pretrained(tmp_path / "saved")
    assert (opened.classes_ == fitted.classes_).all()
    assert opened.predict(TEXTS).dtype == labels.dtype
    as_json = [json.dumps(own) for own in labels.tolist()] if labels.dtype.kind in "biuf" else labels.astype(str)
    for written in (labels, labels.astype(str), pd.Series(labels), as_json):
        assert opened.score(TEXTS, written) == 1


def test_a_label_that_is_none_of_the_classes_is_wrong_or_refused():
    numbers = SentenceClassifier("static-minilm").fit(TEXTS, [0] * 5 + [1] * 5)
    assert numbers.score(TEXTS[:2], [0, 7]) == 0.5  # as in scikit-learn
    with pytest.raises(InputError, match="examples"):
        numbers.score(TEXTS[:2], ["0", "warm"])
    padded = SentenceClassifier("static-minilm").fit(TEXTS, ["007", "7"] * 5)
    assert padded.as_predicted(["7", "007", 7]).tolist() == ["7", "007", "7"]


def test_texts_and_labels_may_be_columns_of_arrow():
    texts, labels = pa.chunked_array([TEXTS[:3], TEXTS[3:]]), pa.array(LABELS)
    classifier = SentenceClassifier("static-minilm").fit(texts, labels)
    assert classifier.score(texts, labels) == 1
    several = pa.array([["warm"], ["warm", "sun"], [], ["warm"], ["sun"], *[["cold"]] * 5])
    assert SentenceClassifier("static-minilm").fit(texts, several).classes_.tolist() == ["cold", "sun", "warm"]


def test_a_text_may_have_several_labels_or_none(tmp_path):
    labels = [["warm", "day"], ["warm"], ["warm"], ["warm"], ["warm", "day"], [], ["cold", "night"], ["cold"], [], []]
    classifier = SentenceClassifier("static-minilm", C=100.0, thresholds="half").fit(TEXTS, labels)
    assert classifier.classes_.tolist() == ["cold", "day", "night", "warm"]
    indicator = classifier.as_predicted(labels)
    assert indicator[0].tolist() == [0, 1, 0, 1]
    assert classifier.predict(TEXTS).tolist() == indicator.tolist()
    assert ((classifier.predict_proba(TEXTS) >= 0.5) == indicator).all()
    assert classifier.score(TEXTS, labels) == classifier.score(TEXTS, indicator) == 1
    as_columns = SentenceClassifier("static-minilm", C=100.0, thresholds="half").fit(TEXTS, indicator)
    assert as_columns.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(as_columns.predict(NEW), classifier.predict(NEW))
    classifier.save_pretrained(tmp_path / "saved")
    assert SentenceClassifier.from_pretrained(tmp_path / "saved").predict(TEXTS).tolist() == indicator.tolist()
    with pytest.raises(InputError, match="examples"):
        classifier.score(TEXTS[:1], [["snow"]])
    with pytest.raises(InputError, match="several"):
        classifier.score(TEXTS[:1], ["warm"])


# ------------------------------------------------------------------ training the encoder


def test_tuning_brings_texts_of_a_class_together_and_leaves_the_given_encoder(checkpoint):
    encoder = SentenceEncoder(checkpoint)
    before = encoder.fingerprint
    labels = np.repeat([0, 1], 5)
    tuned = tune_on_pairs(encoder, TEXTS, labels, TuningSettings(num_epochs=6, learning_rate=1e-3))
    alike = labels[:, None] == labels

    def gap(own):
        cosines = own.similarity(TEXTS, TEXTS)
        return cosines[alike].mean() - cosines[~alike].mean()

    assert gap(tuned) > gap(encoder) + 0.2
    assert encoder.fingerprint == before != tuned.fingerprint
    runs = [tune_on_pairs(encoder, TEXTS, labels, TuningSettings(max_steps=3)) for _ in range(2)]
    assert runs[0].fingerprint == runs[1].fingerprint


@pytest.mark.parametrize("kind", ["bert", "static"])  # a static model is stored in 8 bits a number
def test_a_tuned_classifier_is_saved_with_its_encoder(kind, checkpoint, tmp_path):
    model, atol = (str(checkpoint), 1e-6) if kind == "bert" else ("static-minilm", 5e-3)
    classifier = SentenceClassifier(model, tune=True, max_steps=2, batch_size=4, learning_rate=1e-3)
    classifier.fit(TEXTS, LABELS).save_pretrained(tmp_path / "tuned")
    opened = SentenceClassifier.from_pretrained(tmp_path / "tuned")
    assert opened.tune
    np.testing.assert_allclose(opened.predict_proba(TEXTS), classifier.predict_proba(TEXTS), atol=atol)
    vectors = SentenceEncoder(tmp_path / "tuned").encode(TEXTS)
    np.testing.assert_allclose(vectors, opened.encoder_.encode(TEXTS), atol=1e-6)
    if kind == "bert":
        with pytest.raises(InputError, match="another"):
            classifier.save_pretrained(checkpoint)
        with pytest.raises(InputError, match=f"{checkpoint.name} gives other vectors"):
            SentenceClassifier.from_pretrained(tmp_path / "tuned", encoder=checkpoint)


@pytest.mark.parametrize(("head", "tune"), [("logistic", True), ("differentiable", False), ("differentiable", True)])
def test_training_leaves_the_random_states_and_does_not_read_them(head, tune):
    heads = []
    for seed in (7, 8):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        before = random.getstate(), np.random.get_state()[1:], torch.get_rng_state()
        heads.append(SentenceClassifier("static-minilm", head=head, tune=tune, max_steps=1).fit(TEXTS, LABELS).head_)
        assert random.getstate() == before[0]
        np.testing.assert_equal(np.random.get_state()[1:], before[1])
        assert torch.equal(torch.get_rng_state(), before[2])
    np.testing.assert_array_equal(heads[0].weights, heads[1].weights)


def test_an_encoder_that_cannot_be_trained_is_refused():
    with pytest.raises(InputError, match="function"):
        SentenceClassifier(words, tune=True).fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="batch_size"):
        SentenceClassifier("static-minilm", tune=True, batch_size=0).fit(TEXTS, LABELS)


@pytest.mark.parametrize(("tune", "dim"), [(False, None), (True, None), (True, 8)])
def test_the_differentiable_head_learns_with_the_encoder_or_alone(checkpoint, tune, dim, tmp_path):
    encoder = SentenceEncoder(checkpoint, truncate_dim=dim)
    before = encoder.fingerprint
    classifier = SentenceClassifier(encoder, head="differentiable", tune=tune, max_steps=1).fit(TEXTS, LABELS)
    assert encoder.fingerprint == before
    assert (classifier.encoder_.fingerprint == before) != tune
    classifier.save_pretrained(tmp_path / "saved")
    recorded = json.loads((tmp_path / "saved" / "config.json").read_text())["contrastive"]["loss"]
    assert recorded != "LinearLoss"
    opened = SentenceClassifier.from_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(opened.predict_proba(NEW), classifier.predict_proba(NEW), atol=1e-6)


def test_the_differentiable_head_takes_several_labels(checkpoint):
    several = [["warm"], ["warm", "sun"], [], ["warm"], ["sun"], *[["cold"]] * 5]
    classifier = SentenceClassifier(checkpoint, head="differentiable").fit(TEXTS, several)
    assert classifier.predict_proba(NEW).shape == (2, 3)


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_the_loss_of_the_layer_is_the_plain_loop(several):
    loss = LinearLoss(4, 3, several).double()
    views = torch.randn(5, 1, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 2, (5, 3)).double() if several else torch.tensor([0, 2, 1, 1, 0]).double()
    weights = torch.rand(targets.shape).double()
    other = views.detach().clone().requires_grad_()
    total = 0
    for i in range(5):
        unit = other[i, 0] / other[i, 0].square().sum().sqrt()
        logits = [(unit * loss.linear.weight[k]).sum() + loss.linear.bias[k] for k in range(3)]
        if several:
            for k in range(3):
                share = 1 / (1 + torch.exp(-logits[k]))
                total = total - weights[i, k] * (torch.log(share) if targets[i, k] else torch.log(1 - share)) / 15
        else:
            chosen = logits[int(targets[i])]
            share = torch.exp(chosen) / sum(torch.exp(logit) for logit in logits)
            total = total - weights[i] * torch.log(share) / 5
    value = loss(views, torch.stack([targets, weights], 1))
    value.backward()
    total.backward()
    assert value.item() == pytest.approx(total.item(), abs=1e-12)
    torch.testing.assert_close(views.grad, other.grad, rtol=0, atol=1e-12)


# ------------------------------------------------------------------ saving and opening


def test_a_folder_alone_opens_in_a_fresh_process(checkpoint, tmp_path):
    classifier = SentenceClassifier(checkpoint, head="means").fit(TEXTS, LABELS)
    classifier.save_pretrained(tmp_path / "saved")
    (checkpoint / "model.safetensors").unlink()
    code = (
        "import sys; from contrastive_st import SentenceClassifier; "
        "print(SentenceClassifier.from_pretrained(sys.argv[1]).predict_proba(sys.argv[2:]).tolist())"
    )
    command = [python_with_package(), "-c", code, "saved", *NEW]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    np.testing.assert_allclose(json.loads(done.stdout), classifier.predict_proba(NEW), atol=1e-6)
    assert not [path for path in (tmp_path / "saved").rglob("*") if path.suffix in (".bin", ".pkl", ".joblib", ".pt")]


def test_another_encoder_is_refused_by_name(checkpoint, tmp_path):
    SentenceClassifier("static-minilm").fit(TEXTS, LABELS).save_pretrained(tmp_path / "saved")
    with pytest.raises(InputError, match="vectors"):
        SentenceClassifier.from_pretrained(tmp_path / "saved", encoder=checkpoint)
    classifier = SentenceClassifier(checkpoint).fit(TEXTS, LABELS)
    classifier.save_pretrained(checkpoint)
    with pytest.raises(InputError, match="settings"):
        SentenceClassifier(SentenceEncoder(checkpoint, max_length=4)).fit(TEXTS, LABELS).save_pretrained(checkpoint)
    SentenceClassifier.from_pretrained(checkpoint)
    encoder = SentenceEncoder(checkpoint)
    with torch.no_grad():
        next(encoder.model.parameters()).add_(1)
    encoder.save_pretrained(checkpoint)
    with pytest.raises(InputError, match="encoder"):
        SentenceClassifier.from_pretrained(checkpoint)


def test_a_folder_of_the_same_encoder_holds_several_classifiers(checkpoint):
    classifier = SentenceClassifier(checkpoint).fit(TEXTS, LABELS)
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir() if path.is_file()}
    classifier.save_pretrained(checkpoint, "weather")
    assert {name: (checkpoint / name).read_bytes() for name in before} == before
    assert SentenceClassifier.from_pretrained(checkpoint).classes_.tolist() == ["cold", "warm"]
    SentenceClassifier(checkpoint).fit(TEXTS, [1, 2] * 5).save_pretrained(checkpoint, "parity")
    with pytest.raises(InputError, match="classifiers"):
        SentenceClassifier.from_pretrained(checkpoint)
    assert SentenceClassifier.from_pretrained(checkpoint, name="parity").classes_.tolist() == [1, 2]
    with pytest.raises(InputError, match="'verbs'"):
        SentenceClassifier.from_pretrained(checkpoint, name="verbs")
    assert SentenceEncoder(checkpoint).encode(NEW).shape[0] == 2


def test_an_adapter_is_tuned_and_its_folder_holds_a_classifier(checkpoint, tmp_path):
    adapted = add_lora(AutoModelForCL.from_pretrained(checkpoint), r=2)
    SentenceEncoder(adapted, SentenceEncoder(checkpoint).tokenizer).save_pretrained(tmp_path / "adapter")
    SentenceClassifier(tmp_path / "adapter").fit(TEXTS, LABELS).save_pretrained(tmp_path / "adapter")
    opened = SentenceClassifier.from_pretrained(tmp_path / "adapter")
    tuned = SentenceClassifier(tmp_path / "adapter", tune=True, max_steps=1).fit(TEXTS, LABELS)
    assert tuned.encoder_.fingerprint != opened.encoder_.fingerprint


def test_a_folder_of_setfit_says_that_its_classifier_is_a_pickle(checkpoint):
    (checkpoint / "config_setfit.json").write_text("{}")
    with pytest.raises(InputError, match="classifier"):
        SentenceClassifier.from_pretrained(checkpoint)


def test_what_is_damaged_or_cannot_be_saved_is_told(checkpoint, tmp_path):
    classifier = SentenceClassifier(FunctionEncoder("words", words, fingerprint="1")).fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="function"):
        classifier.save_pretrained(tmp_path / "new")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        SentenceClassifier(checkpoint).fit(TEXTS, LABELS).save_pretrained(tmp_path / "full")
    with pytest.raises(InputError, match="without"):
        SentenceClassifier(checkpoint).fit(TEXTS, LABELS).save_pretrained(checkpoint, "../others")
    path = SentenceClassifier(checkpoint).fit(TEXTS, LABELS).save_pretrained(checkpoint)
    weights = path.with_name("classes.classifier.safetensors")
    content = weights.read_bytes()
    weights.write_bytes(content[:50])
    with pytest.raises(SafetensorError) as caught:
        SentenceClassifier.from_pretrained(checkpoint)
    assert "classes.classifier" in one_line(caught.value)
    weights.write_bytes(content)
    path.write_text(path.read_text().replace('"cold",', '"cold", "mild",'))
    with pytest.raises(InputError, match="classes"):
        SentenceClassifier.from_pretrained(checkpoint)
    for content in ("{", "{}"):
        path.write_text(content)
        with pytest.raises((InputError, KeyError)) as caught:
            SentenceClassifier.from_pretrained(checkpoint)
        assert "classes.classifier.json" in one_line(caught.value)
