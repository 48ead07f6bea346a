"""Words: every query of a list finds its document first, and after any writes a store ranks as a plain BM25 does."""

import math
import threading
from collections import Counter

import numpy as np
import pytest
from store_places import by_words, new_store, unit_vectors

from contrastive_st.search.bm25 import K1, B
from contrastive_st.search.lexemes import lexemes_of
from contrastive_st.search.postgres import postings
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow

#: Queries, each with the document that it must find first
QUERIES = [
    ("1234", "The parcel AB-1234 was lost near the depot."),
    ("ZX-77", "Order ZX-77 is late."),
    ("ZX‑78", "Order ZX-78 is late."),  # a hyphen that does not break
    ("order 79", "ZX–79 is an order with a dash from a word processor."),
    ("CVE-2024-3094", "CVE-2024-3094 is a backdoor in a compression library."),
    ("1,299.00", "It costs 1,299.00 dollars with tax."),
    ("2024-05-01", "The deadline is 2024-05-01 at noon."),
    ("v2.3.1", "Release v2.3.1 repairs the crash."),
    ("1914-1918", "The war of 1914–1918 changed the continent."),
    ("+49 30 901820", "Call +49 30 901820 for an appointment."),
    ("--no-cache", "Build the image with docker build --no-cache today."),
    ("--dry-run=client", "kubectl apply --dry-run=client only prints."),
    ("set -euo pipefail", "Begin a script with set -euo pipefail to stop early."),
    ("/etc/hosts", "Names are in /etc/hosts on this machine."),
    ("C:\\Windows\\System32", "The library is in C:\\Windows\\System32 usually."),
    ("__init__.py", "A package has a file __init__.py in its folder."),
    ("std::vector<int>", "A std::vector<int> grows when it is full."),
    ("C++", "C++ has templates and exceptions."),
    (".NET", "Microsoft publishes .NET twice a decade."),
    ("user@example.org", "Write to user@example.org for help."),
    ("https://example.net/a/b?c=d", "Open https://example.net/a/b?c=d in a browser."),
    ("@dataclass", "Decorate the class with @dataclass before use."),
    ('"to be or not to be"', "To be, or not to be, that is the question."),
    ("“curly quotes”", "These are curly quotes in a novel."),
    ("rock 'n' roll", "They danced to rock 'n' roll all night."),
    ("-penguins", "Emperor penguins walk over the ice."),
    ("- - - lighthouse - - -", "The lighthouse stands on a rock."),
    ("-" * 40 + " volcano", "A volcano erupted on the island."),
    ("don't panic!", "Don’t panic, said the guide."),
    ("CAFÉ", "The café at the corner is open."),
    ("STRASSE", "Die Straße ist gesperrt."),
    ("Krankenversicherungsbeitrag", "Der Krankenversicherungsbeitrag steigt im Januar."),
    ("Ärztekammer", "Die Landesärztekammer tagt in Mainz."),
    ("东京", "我去年在东京住了三个月。"),
    ("東京都", "東京都に住んでいます。"),
    ("자연어", "한국어 자연어처리는 어렵다."),
    ("ภาษาไทย", "ฉันพูดภาษาไทยไม่ได้"),
    ("ХЛЕБ", "Хлеб лежит на столе."),
    ("हिन्दी", "वह हिन्दी बोलता है।"),
]  # fmt: skip
NOISE = [
    "The cat and the dog are not at home today.", "No order of this kind was late in the shop.",
    "A run in the cache of the house.", "Der Beitrag der Gesellschaft war gut, und die Kammer war voll.",
    "To see more of the world, give it a number and a name.", "He read the book twice on the way to the machine.",
    "我昨天走过城市，天气很好。", "これは本です。", "Names of functions in a file of a package.",
    "Use the address of the house, and call at noon.", "C is a letter; D is another.", "Paper is made of wood.",
    "The year 2023 was long; 12 months, 34 weeks.", "net profit rose.",
]  # fmt: skip
TEXTS = [document for _, document in QUERIES] + NOISE


def put(store, rows):
    store.upsert(list(rows), list(rows.values()), unit_vectors(len(rows)))


@pytest.mark.parametrize("language", ["simple", "german", "english"])
def test_each_query_finds_its_document_first_by_words(place, language):
    with new_store(place, f"list_{language}") as store:
        put(store, dict(enumerate(TEXTS)))
        store.build_index("none", language=language)
        missed = [query for number, (query, _) in enumerate(QUERIES) if by_words(store, query)[:1] != [number]]
        compounds = {"Schifffahrt", "Ärztekammer", "Rechtsschutz"} if language != "german" else set()
        assert set(missed) <= compounds


def plain_bm25(texts, query, language, k=10):
    """Ids by BM25, computed by loops over the lexemes."""
    held = {id: Counter(lexemes_of(text, language)) for id, text in texts.items()}
    average = sum(counts.total() for counts in held.values()) / max(len(held), 1)
    scores = {}
    for lexeme in set(lexemes_of(query, language, query=True)):
        has = sum(lexeme in counts for counts in held.values())
        idf = math.log(1 + (len(held) - has + 0.5) / (has + 0.5))
        for id, counts in held.items():
            if times := counts[lexeme]:
                norm = K1 * (1 - B + B * counts.total() / average)
                scores[id] = scores.get(id, 0) + idf * times / (times + norm)
    return {id: scores[id] for id in sorted(scores, key=lambda id: -scores[id])[:k]}, scores


def check(store, texts, language="simple", queries=("sea", "the sea and a bird", "bird w1 w2 w3", "w4", "a")):
    for query in queries:
        best, scores = plain_bm25(texts, query, language)
        found = by_words(store, query)
        assert len(found) == len(best)
        np.testing.assert_allclose([scores[id] for id in found], list(best.values()), rtol=1e-5)


def sentence(random):
    words = ["sea", "bird", "the", "a", "and", *(f"w{number}" for number in range(8))]
    return " ".join(random.choice(words, random.integers(1, 12), p=[0.1] * 5 + [0.0625] * 8))


def test_after_any_writes_the_words_are_those_of_a_new_index(place, monkeypatch):
    for name, value in {"_MANY": 4, "_TAIL": 10, "_SMALL": 40, "_MOST": 80, "_BATCH": 16, "_CACHE": 2_000}.items():
        monkeypatch.setattr(postings, name, value)
    random, texts = np.random.default_rng(0), {}
    with new_store(place, "written") as store, VectorStore(place, "written") as other:
        for step in range(45):
            match random.integers(6):
                case 0 | 1 | 2:
                    rows = {int(id): sentence(random) for id in random.integers(0, 60, random.integers(1, 25))}
                    put(store, rows)
                    texts |= rows
                case 3 if texts:
                    gone = random.choice(list(texts), min(5, len(texts)), replace=False).tolist()
                    store.delete(gone)
                    texts = {id: text for id, text in texts.items() if id not in gone}
                case 4:
                    store.delete_matching({"(id)": {"<": 10}}) if any(id < 10 for id in texts) else None
                    texts = {id: text for id, text in texts.items() if id >= 10}
                case 5 if step % 4 == 0:
                    store.build_index("none", language=str(random.choice(["simple", "english"])))
            language = store.now().language or "simple"
            check(store if step % 3 else other, texts, language)
        store.build_index("none", language="simple")
        check(other, texts)


def test_writers_at_once_lose_no_words(place, monkeypatch):
    monkeypatch.setattr(postings, "_MANY", 6)
    texts, faults = {}, []
    with new_store(place, "shared") as store:

        def write(seed):
            random = np.random.default_rng(seed)
            try:
                for _ in range(8):
                    rows = {int(id): sentence(random) for id in random.integers(0, 40, 5)}  # contended ids
                    put(store, rows)
                    store.delete(random.integers(0, 40, 2).tolist())
            except Exception as error:
                faults.append(error)

        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            by_words(store, "the sea and a bird")
        assert not faults
        texts = {int(id): text for ids, rows, *_ in store.scan() for id, text in zip(ids, rows, strict=True)}
        check(store, texts, store.now().language or "simple")
