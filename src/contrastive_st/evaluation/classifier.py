"""A few-shot text classifier that is saved beside its model: one centroid a class."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from contrastive_st.errors import InputError
from contrastive_st.evaluation.encoders import OpenedEncoder
from contrastive_st.evaluation.few_shot import centroids

SUFFIX = ".centroids.safetensors"


@dataclass
class MeanClassifier:
    """Texts to classes by the nearest class mean: `labels` of K classes and unit `centres` `[K, d]`.

    Example:
        >>> model = OpenedEncoder("vowels", lambda texts: np.array([[t.count("a"), t.count("o")] for t in texts]))
        >>> classifier = MeanClassifier.fit(model, ["banana", "papaya", "oslo"], ["fruit", "fruit", "town"])
        >>> classifier.predict(["cassava", "pogo"])
        [('fruit', 1.0), ('town', 1.0)]
    """

    encoder: OpenedEncoder
    labels: list[str]
    centres: NDArray[np.floating]

    @classmethod
    def fit(cls, encoder: OpenedEncoder, texts: Sequence[str], labels: Sequence[str]) -> MeanClassifier:
        """Average the embeddings of each label's texts.

        Raises:
            InputError: fewer than two labels.
        """
        names = sorted(set(labels))
        if len(names) < 2:
            raise InputError(f"all examples are labelled {names[0]!r}; a classifier needs two labels or more")
        y = np.array([names.index(label) for label in labels])
        return cls(encoder, names, centroids(_finite(encoder, texts), y))

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Cosine with each centroid, `[N, K]`."""
        x = np.asarray(_finite(self.encoder, texts), dtype=np.float64)
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) @ self.centres.T

    def predict(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """The nearest label of each text, and its cosine with that label's centroid."""
        scores = self.scores(texts)
        return [(self.labels[i], float(row[i])) for row, i in zip(scores, scores.argmax(1), strict=True)]

    def save(self, folder: str | Path, name: str = "classes") -> Path:
        """Write the centroids into the model's folder, as `NAME.centroids.safetensors`."""
        path = Path(folder, name + SUFFIX)
        about = {"labels": json.dumps(self.labels), "model": self.encoder.fingerprint or ""}
        save_file({"centres": np.asarray(self.centres, dtype=np.float32)}, path, metadata=about)
        return path

    @classmethod
    def load(cls, encoder: OpenedEncoder, folder: str | Path, name: str = "classes") -> MeanClassifier:
        """Read what `save` wrote.

        Raises:
            InputError: there are no such centroids, or they were made with another model.
        """
        path = Path(folder, name + SUFFIX)
        if not path.is_file():
            known = ", ".join(sorted(p.name.removesuffix(SUFFIX) for p in Path(folder).glob("*" + SUFFIX))) or "none"
            raise InputError(f"{path}: no such centroids (there: {known}); make them with --examples FILE")
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        about = header["__metadata__"]
        if about["model"] != (encoder.fingerprint or ""):
            raise InputError(f"{path} was made with another model or other settings; make it anew with --examples FILE")
        return cls(encoder, json.loads(about["labels"]), load_file(path)["centres"].astype(np.float64))


def _finite(encoder: OpenedEncoder, texts: Sequence[str]) -> NDArray[np.floating]:
    vectors = np.asarray(encoder.encode(list(texts)))
    if not np.isfinite(vectors).all():
        raise InputError(f"{encoder.name} returns NaN or infinite embeddings; did training diverge?")
    return vectors
