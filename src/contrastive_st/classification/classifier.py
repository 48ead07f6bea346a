"""`SentenceClassifier`: texts to labels, in the manner of scikit-learn, saved in the folder of its encoder."""

from __future__ import annotations

import importlib.util
import json
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from contrastive_st.classification.heads import LinearHead, fit_logistic, fit_means, label_weights
from contrastive_st.classification.labels import Labels, as_classes, numbered, opened_classes, saved_classes
from contrastive_st.classification.lexical import LexicalHead, Terms
from contrastive_st.classification.settings import TuningSettings
from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import CLASSIFIER, local_folder
from contrastive_st.files.reading import JsonObject, read_json
from contrastive_st.files.writing import OPENED_BY, atomic_write, write_files
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.models.protocol import Encoder, as_encoder, open_encoder
from contrastive_st.options import Positive, check_options
from contrastive_st.tokens import items_in_order
from contrastive_st.vectors import check_finite

if TYPE_CHECKING or importlib.util.find_spec("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
else:  # a saved classifier needs nothing of scikit-learn

    class BaseEstimator: ...  # noqa: D101

    class ClassifierMixin: ...  # noqa: D101


if TYPE_CHECKING:
    from sklearn.utils import Tags

logger = logging.getLogger(__name__)
SUFFIX, _WEIGHTS = CLASSIFIER


class SentenceClassifier(ClassifierMixin, BaseEstimator):
    """Texts to classes: a sentence encoder and a linear layer over its unit vectors.

    With `tune` the encoder is first trained on pairs of texts of the same and of different classes, as setfit does
    (Tunstall et al. 2022, https://arxiv.org/abs/2209.11055); the given encoder is not changed.

    A text may have several classes: then `fit` gets a list of labels for each text, or an array `[N, K]` of 0 and 1,
    and `predict` returns such an array.

    Args:
        encoder: folder, Hub name or encoder; by default `default_model()`.
        head: `logistic`, logistic regression; `means`, the nearest class mean; or `differentiable`, a layer trained by
            gradient, together with the encoder if `tune`.
        C: inverse strength of the penalty of the logistic regression.
        lexical: with the head `logistic`, weigh words and pairs of words (TF-IDF) together with the vector. It helps
            with a few hundred examples or more.
        thresholds: where a text may have several classes and the head is `logistic`: `f1`, from the logit on that gives
            held-out examples the greatest F1, for each class; `half`, from a probability of 0.5 on, which few texts
            reach if the examples are few. With `tune`, the encoder has seen the held-out examples.
        class_weight: `balanced`, or a weight for each label, as scikit-learn has them. Weights are those of the head;
            the pairs that `tune` trains on have none.
        tune: train the encoder first.
        sampling_strategy, num_epochs, max_steps, batch_size, learning_rate, seed: of this training; see
            `contrastive_st.classification.TuningSettings`.
        show_progress_bar: show the steps of the training on stderr.

    Attributes:
        classes_: the K classes, in order.
        encoder_: the encoder, trained if `tune`.
        head_: the layer, a `LinearHead`.
        lexical_: the `LexicalHead` of the words if `lexical`, else None.
        multi_label_: whether a text may have several classes.
        listed_: whether it was fitted with lists of labels.

    Example:
        >>> texts = ["a hot day", "the sun burns", "snow and ice", "a freezing night"]
        >>> classifier = SentenceClassifier().fit(texts, ["warm", "warm", "cold", "cold"])
        >>> classifier.predict(["frost on the window"]).tolist()
        ['cold']
        >>> classifier.predict_proba(["frost on the window"]).shape, classifier.classes_.tolist()
        ((1, 2), ['cold', 'warm'])
    """

    def __init__(
        self,
        encoder: str | Path | Encoder | None = None,
        *,
        head: str = "logistic",
        C: float = 1.0,
        lexical: bool = False,
        thresholds: str = "f1",
        class_weight: str | Mapping[object, float] | None = None,
        tune: bool = False,
        sampling_strategy: str = "oversampling",
        num_epochs: float = 1.0,
        max_steps: int = -1,
        batch_size: int = 16,
        learning_rate: float = 2e-5,
        seed: int = 42,
        show_progress_bar: bool = False,
    ) -> None:
        self.encoder, self.head, self.C, self.class_weight, self.tune = encoder, head, C, class_weight, tune
        self.lexical, self.thresholds = lexical, thresholds
        self.sampling_strategy, self.num_epochs, self.max_steps = sampling_strategy, num_epochs, max_steps
        self.batch_size, self.learning_rate, self.seed = batch_size, learning_rate, seed
        self.show_progress_bar = show_progress_bar

    # ------------------------------------------------------------------ learning and predicting

    def fit(self, X: object, y: object, sample_weight: object = None) -> SentenceClassifier:
        """Learn from labelled texts.

        Args:
            X: N texts: a list, a column, or a data frame of one column.
            y: N labels, all strings or all numbers; N lists of labels; or `[N, K]` of 0 and 1, whose classes have the
                names of the columns of a data frame, else 0, 1, ...
            sample_weight: a weight for each text, `[N]`.

        Raises:
            InputError: texts and labels do not fit together, there is only one class, an unknown head, or an encoder
                that cannot be trained.
            ValueError: labels that are not classes, such as 0.37; from scikit-learn.
        """
        from sklearn.utils.validation import check_consistent_length

        heads = Literal["logistic", "means", "differentiable"]
        check_options(self, {"head": heads, "C": Positive, "thresholds": Literal["f1", "half"]})
        if self.head != "logistic" and self.lexical:
            raise InputError(f"the head {self.head} does not support lexical; choose logistic")
        texts = items_in_order(X)
        classes, numbers, listed = numbered(y)
        check_consistent_length(texts, numbers)
        if len(classes) < 2:
            present = ", ".join(map(repr, classes.tolist()))
            raise InputError(f"the examples are of {len(classes)} class ({present}); a classifier needs two or more")
        if numbers.ndim > 1:
            # Log the classes, columns of `[N, K]`, that do not tell texts apart, as in a fold of a cross-validation.
            for name in classes[numbers.all(0)]:
                logger.warning(f"all texts have the label {name}, so it is predicted for all")
            for name in classes[~numbers.any(0)]:
                logger.warning(f"no text has the label {name}, so it is predicted for none")
        weights = label_weights(self.class_weight, classes, numbers, sample_weight)
        encoder: Any = as_encoder(self.encoder)
        lexical = None
        if self.tune or self.head == "differentiable":
            from contrastive_st.classification.tuning import train_head, tune_on_pairs

            settings = TuningSettings(**{spec.name: getattr(self, spec.name) for spec in fields(TuningSettings)})
            encoder = tune_on_pairs(encoder, texts, numbers, settings) if self.tune else encoder
        if self.head == "differentiable":
            encoder, head = train_head(encoder, texts, numbers, self.tune, settings, weights)
        elif self.head == "means":
            head = fit_means(_vectors(encoder, texts), numbers, weights)
        else:
            x, terms = _vectors(encoder, texts), Terms.of(texts) if self.lexical else None
            features = x if terms is None else terms.joined(x, texts)
            head = fit_logistic(features, numbers, self.C, weights)
            if numbers.ndim > 1 and self.thresholds == "f1":
                from contrastive_st.classification.held_out import best_thresholds, held_out_logits

                logits = held_out_logits(features, numbers, self.C, weights, self.seed)
                head = replace(head, thresholds=best_thresholds(logits, numbers))
            if terms is not None:
                dim = x.shape[1]
                lexical = LexicalHead(terms, head.weights[:, dim:])
                head = replace(head, weights=head.weights[:, :dim])
        self.encoder_, self.head_, self.lexical_ = encoder, head, lexical
        self.classes_, self.multi_label_, self.listed_ = classes, numbers.ndim > 1, listed
        return self

    def logits(self, X: object) -> NDArray[np.float64]:
        """Logits `[N, K]` of `classes_`, for two classes too; with the head `means` these are cosines."""
        self._check_fitted()
        texts = items_in_order(X)
        return self.logits_of(_vectors(self.encoder_, texts), texts)

    def logits_of(self, vectors: NDArray[np.floating], texts: list[str]) -> NDArray[np.float64]:
        """As `logits`, of texts whose vectors `[N, d]` its encoder has made before."""
        logits = self.head_.logits(vectors)
        return logits if self.lexical_ is None else logits + self.lexical_.logits(texts)

    def decision_function(self, X: object) -> NDArray[np.float64]:
        """Logits `[N, K]`; for two classes `[N]`, the second's less the first's, as scikit-learn expects."""
        logits = self.logits(X)
        return logits if self.multi_label_ or logits.shape[1] > 2 else logits[:, 1] - logits[:, 0]

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """Probabilities `[N, K]` of `classes_`; with several labels a text, each is that of its label alone."""
        logits = self.logits(X)  # which sees whether there is a head
        return self.head_.probabilities(logits)

    def predict_log_proba(self, X: object) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`."""
        logits = self.logits(X)  # which sees whether there is a head
        return self.head_.log_probabilities(logits)

    def predict(self, X: object) -> Labels:
        """The class of each text `[N]`; with several labels a text `[N, K]` of 0 and 1, 1 from its threshold on."""
        logits = self.logits(X)  # which sees whether there is a head
        chosen = self.head_.chosen(logits)
        return chosen.astype(np.int64) if self.multi_label_ else np.asarray(self.classes_[chosen.argmax(1)])

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Accuracy: the share of texts whose labels are all predicted, and no other."""
        return float(super().score(X, self.as_predicted(y), sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        tags.classifier_tags.multi_label = True
        return tags

    def as_predicted(self, labels: object) -> Labels:
        """Labels in the form of `predict`, and of the type of `classes_`: `"3"` of a file is a class 3.

        Lists of labels become an array `[N, K]` of 0 and 1, and columns with the names of classes get their order.

        Raises:
            InputError: a label in a list is none of `classes_`, a label is of another kind than they are, or there are
                lists where the classifier knows one label per text, or the other way around.
        """
        self._check_fitted()
        return as_classes(labels, self.classes_, self.multi_label_, self.listed_)

    # ------------------------------------------------------------------ saving and opening

    def save_pretrained(self, folder: str | Path, name: str = "classes") -> Path:
        """Write the classifier into the folder of its encoder, so that the folder alone opens both, without pickles.

        A new folder gets the encoder too. A folder that has the same encoder, such as that of the model, gets only
        `NAME.classifier.safetensors` and `NAME.classifier.json`, so it can hold several classifiers.

        Args:
            folder: a new folder, or one with the same encoder.
            name: the name of the classifier in its folder.

        Returns:
            The path of the JSON file.

        Raises:
            InputError: the folder holds something else, the name is a path, or the encoder is a function, which cannot
                be saved.
        """
        self._check_fitted()
        check_name(name)
        folder = Path(folder)
        if any((folder / file).is_file() for file in OPENED_BY):
            saved = Checkpoint.find(folder)  # of the settings of the folder, which those of the encoder may replace
            recorded = saved.pooling or saved.is_table or saved.foreign
            opened = open_encoder(folder, pooling=None if recorded else getattr(self.encoder_, "pooling", None))
            if opened.fingerprint != self.encoder_.fingerprint:
                what = f"{folder} holds another encoder than {self.encoder_.name}, or one with other settings"
                raise InputError(f"{what}; choose a new folder")
            write_files(folder, self._files(name, str(self.encoder_.fingerprint)))
        else:
            if not hasattr(self.encoder_, "save_pretrained"):
                raise InputError(f"{self.encoder_.name} is a function, which cannot be saved; give a folder or name")
            with atomic_write(folder, flag="", parents=True) as new:
                self.encoder_.save_pretrained(new)
                write_files(new, self._files(name, str(open_encoder(new).fingerprint)))
        return folder / (name + SUFFIX)

    def _check_fitted(self) -> None:
        """Raises scikit-learn's `NotFittedError` before `fit`."""
        if not hasattr(self, "head_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "head_")

    def _files(self, name: str, fingerprint: str) -> dict[str, bytes]:
        saved: JsonObject = {
            **saved_classes(self.classes_), "multi_label": self.multi_label_, "listed": self.listed_,
            "head": self.head, "tuned": self.tune, "encoder": self.encoder_.name, "fingerprint": fingerprint,
            "parameters": {name: value for name, value in self.get_params(deep=False).items() if name != "encoder"},
        }  # fmt: skip
        if isinstance(self.class_weight, dict):  # its keys may be numbers
            saved["parameters"]["class_weight"] = list(self.class_weight.items())
        tensors = {key: getattr(self.head_, key) for key in ("weights", "bias", "thresholds")}
        if self.lexical_ is not None:
            saved["terms"] = self.lexical_.terms.names
            tensors |= {"term_weights": self.lexical_.weights, "idf": self.lexical_.terms.idf}
        arrays = {key: np.ascontiguousarray(x, dtype=np.float64) for key, x in tensors.items() if x is not None}
        return {
            name + _WEIGHTS: save(arrays),
            name + SUFFIX: (json.dumps(saved, indent=2, default=lambda number: number.item()) + "\n").encode(),
        }

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        name: str | None = None,
        encoder: str | Path | Encoder | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> SentenceClassifier:
        """Open what `save_pretrained` wrote or `push_to_hub` pushed.

        Args:
            source: folder or Hub name.
            name: which classifier, if there are several.
            encoder: an encoder that is open already, in place of that of the folder; it must be the same.
            revision: branch, tag or commit of a Hub name.
            options: options of `open_encoder`, such as `device`; `token` is used for the Hub.

        Raises:
            InputError: there is no such classifier, a file is damaged, or the encoder is another than the classifier
                was fitted with.
        """
        folder = local_folder(source, revision, token=options.pop("token", None))
        names = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob("*" + SUFFIX))
        if not names and (folder / "config_setfit.json").is_file():
            raise InputError(
                f"{source} has a classifier of setfit, which is a pickle and can run code when it is opened; fit one "
                f"on its encoder: SentenceClassifier({str(source)!r}).fit(texts, labels)"
            )
        if name not in names and not (name is None and len(names) == 1):
            what = f"no classifier {name!r}" if name else "several classifiers; name one" if names else "no classifier"
            raise InputError(f"{source}: {what} (there: {', '.join(names) or 'none'})")
        path = folder / ((name or names[0]) + SUFFIX)
        saved = read_json(path, dict)
        opened = as_encoder(folder if encoder is None else encoder, **options)
        weights = path.with_name(path.name.removesuffix(SUFFIX) + _WEIGHTS)
        with about(path):
            if opened.fingerprint != saved["fingerprint"]:
                encoder_name = "the encoder in this folder" if encoder is None else opened.name
                fitted = f"a trained copy of {saved.get('encoder')}" if saved["tuned"] else saved.get("encoder")
                raise InputError(
                    f"{source}: the classifier was fitted with {fitted}, and {encoder_name} gives other vectors; "
                    "open it with its own encoder, or fit it again"
                )
            parameters = {"head": saved["head"], "tune": saved["tuned"]} | saved.get("parameters", {})
            if isinstance(parameters.get("class_weight"), list):
                parameters["class_weight"] = dict(parameters["class_weight"])
            made = cls(opened, **parameters)
            made.classes_, made.multi_label_ = opened_classes(saved), saved["multi_label"]
            made.listed_ = saved.get("listed", False)
            tensors, made.lexical_ = load(weights.read_bytes()), None
            if (terms := saved.get("terms")) is not None:
                made.lexical_ = LexicalHead(Terms(terms, tensors.pop("idf")), tensors.pop("term_weights"))
            made.head_ = LinearHead(**tensors, multi_label=made.multi_label_)
        if made.head_.weights.shape[0] != len(made.classes_) or made.head_.bias.shape != made.classes_.shape:
            raise InputError(f"{weights}: not as many rows as classes; fit the classifier again")
        made.encoder_ = opened
        return made

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Save to a repository of the Hub with a model card; it is created if needed. Returns its address.

        Raises:
            InputError: the Hub refuses it.
        """
        from contrastive_st.hub.push import push

        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "classifier")
            self.save_pretrained(folder)
            commit = push(folder, repo_id, private=private, token=token, message="Add the classifier")
        return str(commit.repo_url)


def check_name(name: str) -> None:
    """Check that the name of a classifier is not a path: its files are in the folder of its encoder.

    Raises:
        InputError: it is a path, or empty.
    """
    if Path(name).name != name or name in ("", ".."):
        raise InputError(f"a classifier cannot be named {name!r}: give a name without a path")


def _vectors(encoder: Encoder, texts: list[str]) -> NDArray[np.floating]:
    vectors = np.asarray(encoder.encode(texts))
    return check_finite(vectors, encoder.name)
