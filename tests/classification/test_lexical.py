"""Words beside vectors: scikit-learn's TF-IDF, one regression over both, saved and opened."""

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from contrastive_st import SentenceClassifier
from contrastive_st.classification.lexical import Terms
from contrastive_st.models.protocol import as_encoder
from contrastive_st.vectors import unit_vectors

RNG = np.random.default_rng(0)
WORDS = ["good", "bad", "film", "day", "Ünlü", "a", "the", "not", "."]
TEXTS = [" ".join(RNG.choice(WORDS, RNG.integers(1, 9))) for _ in range(60)] + ["", "unseen"]
LABELS = np.where(["good" in text and "not" not in text for text in TEXTS], "yes", "no")
MANY = [[name for name in ("good", "day") if name in text] for text in TEXTS]


def plain():
    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, token_pattern=r"\w+|[^\w\s]")


def test_terms_are_those_of_scikit_learn():
    theirs = plain().fit(TEXTS)
    ours = Terms.of(TEXTS)
    assert ours.names == theirs.get_feature_names_out().tolist()
    np.testing.assert_allclose(ours.joined(np.ones((len(TEXTS), 1)), TEXTS).toarray()[:, 1:],
                               theirs.transform(TEXTS).toarray(), atol=1e-12)  # fmt: skip


def test_it_is_one_regression_over_both():
    x = unit_vectors(as_encoder("static-minilm").encode(TEXTS), np.float64)
    both = hstack([csr_array(x), plain().fit_transform(TEXTS)], "csr")
    theirs = LogisticRegression(C=3.0, max_iter=1000).fit(both, LABELS)
    ours = SentenceClassifier("static-minilm", C=3.0, lexical=True).fit(TEXTS, LABELS)
    np.testing.assert_allclose(ours.predict_proba(TEXTS), theirs.predict_proba(both), atol=1e-5)
    assert ours.score(TEXTS, LABELS) > SentenceClassifier("static-minilm", C=3.0).fit(TEXTS, LABELS).score(
        TEXTS, LABELS
    )


@pytest.mark.parametrize("labels", [LABELS, MANY], ids=["one", "several"])
def test_it_is_saved(labels, tmp_path):
    ours = SentenceClassifier("static-minilm", lexical=True).fit(TEXTS, labels)
    ours.save_pretrained(tmp_path / "saved")
    opened = SentenceClassifier.from_pretrained(tmp_path / "saved")
    assert (opened.lexical, opened.thresholds) == (True, "f1")
    np.testing.assert_array_equal(opened.head_.thresholds, ours.head_.thresholds)
    np.testing.assert_array_equal(opened.predict(TEXTS), ours.predict(TEXTS))
    np.testing.assert_array_equal(opened.predict_proba(TEXTS), ours.predict_proba(TEXTS))
    assert opened.predict_proba([]).shape == (0, len(opened.classes_))
