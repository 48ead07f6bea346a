"""Small indices in memory with known clusters, and an encoder of words that needs no model."""

import zlib

import numpy as np

from contrastive_st.search.exact import ExactIndex

TOPICS = {
    "sea": "tide wave harbour sailor ship anchor storm gull sail current",
    "kitchen": "oven bread flour recipe knife onion butter soup pepper spoon",
    "space": "planet orbit rocket comet telescope star galaxy lunar probe asteroid",
}


class WordEncoder:
    """A unit vector a text: the sum of a fixed random vector a word. What shares words is near."""

    def __init__(self, dimension=64, name="words", fingerprint="words-1"):
        self.dimension, self.name, self.fingerprint = dimension, name, fingerprint
        self.known = {}

    def knows(self, texts):
        return np.ones(len(texts), bool)

    def encode(self, texts):
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[0] = 1e-3
            for word in text.lower().split():
                row += self._vector(word.strip(".,!?"))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_query(self, texts):
        return self.encode(texts)

    def encode_document(self, texts):
        return self.encode(texts)

    def _vector(self, word):
        if word not in self.known:
            rng = np.random.default_rng([zlib.crc32(word.encode("utf-8", "replace")), self.dimension])
            self.known[word] = rng.standard_normal(self.dimension).astype(np.float32)
        return self.known[word]


def client_of(index, encoder, name="docs", **options):
    """A client of the API of one index and its encoder, which is answered where the API fails, too."""
    from starlette.testclient import TestClient

    from contrastive_st.serve.api import IndexServed, Served, make_api

    served = Served(encoder)
    api = make_api({encoder.name: served}, {name: IndexServed(index, served)}, **options)
    return TestClient(api, base_url="http://localhost", raise_server_exceptions=False)


def topic_texts(n=60, seed=0):
    """n texts a topic, in turns, each five of the topic's words; with metadata `topic`, `year` and `date`."""
    rng = np.random.default_rng(seed)
    texts, metadata = [], []
    for i in range(n):
        for number, (topic, words) in enumerate(TOPICS.items()):
            texts.append("the " + " ".join(rng.choice(words.split(), 5, replace=False)))
            year = 2000 + (i * (number + 1)) // n  # the first topic keeps to the first year
            metadata.append({"topic": topic, "year": year, "date": f"{year}-0{1 + i % 9}-01", "number": i})
    return texts, metadata


def topic_index(n=60, encoder=None, texts=None, metadata=None):
    """An `ExactIndex` of `topic_texts`, or of the given texts."""
    encoder = encoder or WordEncoder()
    if texts is None:
        texts, metadata = topic_texts(n)
    ids = np.arange(len(texts)) * 7 + 3
    return ExactIndex(ids, texts, encoder.encode(texts), metadata, encoder.fingerprint, encoder.name)
