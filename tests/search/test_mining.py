"""Hard negatives: against a plain loop, against sentence-transformers, and never a positive."""

import functools
import json

import numpy as np
import pytest
import torch
from datasets import Dataset, load_dataset
from refusals import refused

from conftest import SENTENCES
from contrastive_st import (
    InputError,
    StaticEncoder,
    mine_hard_negatives,
    read_examples,
    read_texts,
    write_hard_negatives,
)
from contrastive_st.cli import main
from contrastive_st.models.protocol import FunctionEncoder
from contrastive_st.models.static_encoder import static_tokenizer
from contrastive_st.search.mining import HardNegatives, NegativeRules, hard_negatives, known_pairs


@functools.cache
def drawn_vector(seed, text):
    return np.random.default_rng([seed, *text.encode()]).normal(size=12)


def space(seed=0):
    """A model that gives each text a random vector of its own, the same for equal texts."""
    return FunctionEncoder("random", lambda texts: np.stack([drawn_vector(seed, plain(text)) for text in texts]))


def drawn(count=60, anchors=40, seed=0):
    """Pairs with several positives of an anchor, repeated pairs, and texts that differ by case and blanks alone."""
    random = np.random.default_rng(seed)
    rows = {"anchor": [], "positive": []}
    for _ in range(count):
        own = f"answer {random.integers(30)}"
        rows["anchor"].append(f"question {random.integers(anchors)}")
        rows["positive"].append(random.choice([own, own.upper(), own.replace(" ", "   ")]))
    return Dataset.from_dict(rows)


def plain(text):
    return " ".join(text.casefold().split())


def reference(pairs, model, judge=None, corpus=None, guide=None, cross_encoder=None, **options):
    """For each distinct anchor the negatives, by loops over all texts, one pair of texts at a time."""
    rules, judge = NegativeRules(**options), judge or model
    positives = {}
    for anchor, positive in zip(pairs["anchor"], pairs["positive"], strict=True):
        positives.setdefault(plain(anchor), {})[plain(positive)] = None
    documents = list(dict.fromkeys(plain(text) for text in (corpus or pairs["positive"])))
    found = {}
    for anchor, own in positives.items():
        scored = [(-cosine(model, anchor, text), i, text) for i, text in enumerate(documents) if text not in own]
        ranked = [text for *_, text in sorted(scored) if text != anchor][rules.range_min : rules.candidates]
        least = min(cosine(judge, anchor, text) for text in own)
        kept = []
        for text in ranked:
            score = cosine(judge, anchor, text)
            bad = rules.max_score is not None and score > rules.max_score
            bad |= rules.min_score is not None and score < rules.min_score
            bad |= rules.absolute_margin is not None and score > least - rules.absolute_margin
            bad |= rules.relative_margin is not None and score > least - abs(least) * rules.relative_margin
            if not bad:
                kept.append((score, text))
        found[anchor] = [text for _, text in sorted(kept, key=lambda pair: -pair[0])][: rules.num_negatives]
    return found


def cosine(model, a, b):
    x, y = (np.asarray(model.encode([text])[0], dtype=np.float64) for text in (a, b))
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def by_anchor(rows):
    """What was mined, as `reference` gives it."""
    names = [name for name in rows.column_names if name.startswith("negative")]
    found = {}
    for row in rows:
        own = found.setdefault(plain(row["anchor"]), [])
        own += [plain(row[name]) for name in names if plain(row[name]) not in own]
    return found


class CrossEncoder:
    """Cosines of another model, as a cross-encoder of both libraries gives them."""

    def predict(self, texts, **options):
        scores = [cosine(space(seed=1), a, b) for a, b in texts]
        return torch.tensor(scores) if options.get("convert_to_tensor") else np.array(scores)


CORPUS = [f"passage {i}" for i in range(40)] + ["ANSWER  3", "answer 4", "question 5"]


@pytest.mark.parametrize(
    "given",
    [
        {}, {"range_min": 2, "range_max": 7}, {"max_score": 0.3}, {"min_score": 0.1}, {"absolute_margin": 0.2},
        {"relative_margin": 0.25}, {"corpus": CORPUS}, {"guide": space(seed=1), "absolute_margin": 0.1},
        {"cross_encoder": CrossEncoder(), "range_max": 9, "absolute_margin": 0.1},
        {"range_min": 1, "range_max": 20, "max_score": 0.6, "absolute_margin": 0.05, "relative_margin": 0.1},
    ],
    ids=lambda given: " ".join(given) or "plain",
)  # fmt: skip
def test_it_is_what_a_plain_loop_finds(given, monkeypatch):
    monkeypatch.setattr(hard_negatives, "ANCHORS", 3)
    for module, name in ((known_pairs, "_READ"), (hard_negatives, "DOCUMENTS"), (hard_negatives, "PAIRS")):
        monkeypatch.setattr(module, name, 7)
    pairs, model, options = drawn(), space(), {"num_negatives": 4, **given}
    judge = space(seed=1) if {"guide", "cross_encoder"} & given.keys() else model
    expected = {anchor: own for anchor, own in reference(pairs, model, judge, **options).items() if own}
    assert by_anchor(mine_hard_negatives(pairs, model, output_format="triplet", **options)) == expected
    whole = {anchor: own for anchor, own in expected.items() if len(own) == 4}
    if whole:
        assert by_anchor(mine_hard_negatives(pairs, model, **options)) == whole


def test_random_ones_are_drawn_by_the_seed_from_those_that_may(monkeypatch):
    pairs, model = drawn(), space()
    allowed = reference(pairs, model, num_negatives=10, range_max=10, max_score=0.5)
    options = {"num_negatives": 2, "range_max": 10, "max_score": 0.5, "sampling_strategy": "random"}
    runs = [by_anchor(mine_hard_negatives(pairs, model, seed=seed, **options)) for seed in (0, 0, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    monkeypatch.setattr(hard_negatives, "ANCHORS", 5)
    assert by_anchor(mine_hard_negatives(pairs, model, seed=0, **options)) == runs[0]
    for anchor, own in runs[0].items():
        assert set(own) <= set(allowed[anchor])
        assert sorted(own, key=allowed[anchor].index) == own
    drawn_of = {text for run in runs for text in next(iter(run.values()))}
    assert len(drawn_of) > 2


@pytest.fixture
def peer(tokenizer, tmp_path):
    """A static model of sentence-transformers, its folder, and pairs with two positives of each anchor."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    random = np.random.default_rng(0)
    StaticEncoder.from_table(random.normal(size=(len(tokenizer), 64))).save_pretrained(tmp_path / "model")
    static_tokenizer(tokenizer).save_pretrained(tmp_path / "model")
    words = sorted({word for text in SENTENCES for word in text.split()})
    texts = list(dict.fromkeys(" ".join(sorted(random.choice(words, 6, replace=False))) for _ in range(60)))
    pairs = Dataset.from_dict({"anchor": [texts[i // 2] for i in range(40)], "positive": texts[20:60]})
    folder = str(tmp_path / "model")
    return sentence_transformers.SentenceTransformer(folder, device="cpu"), folder, pairs


PEERS = [
    {"output_format": "labeled-pair"}, {"output_format": "labeled-list"},
    {"output_format": "labeled-pair", "output_scores": True}, {"output_format": "labeled-list", "output_scores": True},
    {"output_format": "triplet", "output_scores": True},
    {"output_format": "n-tuple", "output_scores": True, "include_positives": True},
    {"output_format": "n-tuple", "query_prompt": "the cat ", "corpus_prompt": "old ", "batch_size": 8},
    {"output_format": "labeled-list", "max_score": 0.55, "range_max": 38},
    {"output_format": "triplet", "range_min": 3, "range_max": 38},
    {"output_format": "triplet", "absolute_margin": 0.1, "range_max": 38},
    {"output_format": "triplet", "relative_margin": 0.05, "range_max": 38},
    {"output_format": "triplet", "max_score": 0.2, "range_max": 38, "cross_encoder": CrossEncoder()},
]  # fmt: skip


@pytest.mark.allow_warnings
@pytest.mark.parametrize("options", PEERS, ids=lambda options: " ".join(options))
def test_the_options_and_formats_of_sentence_transformers(options, peer, tmp_path):
    from sentence_transformers.util import mine_hard_negatives as theirs

    model, folder, pairs = peer
    options, file = {"num_negatives": 3, **options}, tmp_path / "mined.parquet"
    wanted = theirs(pairs, model, verbose=False, **options)
    mined = mine_hard_negatives(pairs, folder, **options)
    write_hard_negatives(pairs, file, folder, **options)
    assert load_dataset("parquet", data_files=str(file), split="train", cache_dir=tmp_path).to_list() == mined.to_list()
    assert mined.column_names == wanted.column_names
    rows = [sorted(json.dumps(plain_row(row)) for row in data) for data in (mined, wanted)]
    assert len(rows[0]) == len(rows[1]) >= 20
    assert len({*rows[0]} & {*rows[1]}) >= 0.9 * len({*rows[1]})  # cosines of float16 differ in their last digits


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize(("name", "ending"), [
    ("n-tuple", ".parquet"), ("triplet", ".jsonl"), ("labeled-pair", ".csv"), ("labeled-list", ".csv"),
    ("labeled-list", ".jsonl"), ("labeled-list", ".parquet"),
])  # fmt: skip
def test_train_reads_what_mine_writes(name, scored, ending, tmp_path):
    judge = space(seed=7)
    pairs = drawn().map(lambda row: {"positive": f'{row["positive"]}, "so it is"\nand was'})
    options = {"num_negatives": 2, "output_format": name, "output_scores": scored, "guide": judge}
    mined = mine_hard_negatives(pairs, space(), **options)
    write_hard_negatives(pairs, tmp_path / f"mined{ending}", space(), **options)
    rows, roles = read_examples(str(tmp_path / f"mined{ending}"), scale=(-1, 1) if name == "labeled-pair" else None)
    kinds = {"labeled-pair": "scored_pairs"}
    assert roles.kind == kinds.get(name, "scored_candidates" if scored else "triplets")
    assert len(rows) == len(mined) > 10
    for row, written in zip(rows, mined, strict=True):
        anchor, *texts = (text for column, text in row.items() if column not in ("score", "scores") and text)
        names = ("positive", "negative", "negative_1", "negative_2")
        wanted = written["positive"] if name == "labeled-list" else [written[one] for one in names if one in written]
        assert (anchor, texts) == (written["anchor"], wanted)
        if scored:
            cosines = [cosine(judge, anchor, text) for text in texts]
            found = [2 * row["score"] - 1] if name == "labeled-pair" else row["scores"][: len(texts)]
            assert found == pytest.approx(cosines, abs=2e-3)


def plain_row(row):
    """A row without its scores, but their order."""
    numbers = {name: row[name] for name in ("score", "scores") if name in row}
    assert all(np.isfinite(value).all() for value in numbers.values())
    return {name: value for name, value in row.items() if name not in numbers}


def test_a_file_is_counted_and_not_overwritten(tmp_path):
    pairs, target = drawn(), tmp_path / "mined.csv"
    counts = write_hard_negatives(pairs, target, space(), num_negatives=2)
    assert (counts.rows, counts.without) == (len(read_texts(str(target))), 0)
    assert counts.anchors == len(set(pairs["anchor"]))
    assert counts.negatives == 2 * counts.anchors
    before = target.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        write_hard_negatives(pairs, target, space(), num_negatives=1)
    assert target.read_bytes() == before
    write_hard_negatives(pairs, target, space(), num_negatives=1, overwrite=True)
    assert read_texts(str(target)).column_names == ["anchor", "positive", "negative_1"]


def test_what_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(hard_negatives, "ANCHORS", 4)
    pairs, model = drawn(), space()
    calls = []

    def breaks(texts):
        calls.append(texts)
        return model.encode(texts) * (np.nan if len(calls) > 4 else 1)

    (tmp_path / "mined.csv").write_text("mine")
    with pytest.raises(InputError, match="NaN"):
        write_hard_negatives(pairs, tmp_path / "mined.csv", FunctionEncoder("m", breaks), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mined.csv"]
    assert (tmp_path / "mined.csv").read_text() == "mine"


def test_the_columns_can_be_named():
    rows = Dataset.from_dict({"label": ["x", "y"], "a": ["one", "two"], "b": ["uno", "due"]})
    mined = mine_hard_negatives(rows, space(), anchor_column_name="b", positive_column_name="a", num_negatives=1)
    assert mined.to_list()[0] == {"anchor": "uno", "positive": "one", "negative_1": "two"}
    with pytest.raises(InputError, match="both columns"):
        mine_hard_negatives(rows, space(), anchor_column_name="b")


def test_memory_does_not_hold_vectors_or_scores(monkeypatch):
    import tracemalloc

    count, dim = 4000, 64
    pairs = Dataset.from_dict({"anchor": [f"q{i}" for i in range(64)], "positive": [f"d{i}" for i in range(64)]})
    corpus = [f"c{i}" for i in range(count)]
    monkeypatch.setattr(known_pairs, "_READ", 256)
    monkeypatch.setattr(hard_negatives, "DOCUMENTS", 256)
    monkeypatch.setattr(hard_negatives, "ANCHORS", 32)
    encode = lambda texts: np.random.default_rng(len(texts)).normal(size=(len(texts), dim)).astype(np.float32)
    mined = HardNegatives(pairs, FunctionEncoder("m", encode), corpus=corpus, num_negatives=2)
    tracemalloc.start()
    for _ in mined:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * dim * 4, "as much as the vectors of the corpus in float32"


def test_the_command_mines_and_what_it_mines_trains(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{a} {i}", "answer": f"{b} {i}"} for i, (a, b) in
            enumerate((a, b) for a in SENTENCES[:4] for b in SENTENCES[4:])]  # fmt: skip
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["mine", "pairs.jsonl", "-o", "mined.parquet", "--num-negatives", "2"]
    asked += ["--sampling_strategy", "random", "--seed", "3"]
    assert main(asked) == 0, capsys.readouterr().err
    assert capsys.readouterr().err.startswith("mined.parquet: 32 negatives of 16 anchors in 16 rows; ")
    assert main(asked) == 2
    train = ["--max_steps", "2", "--per_device_train_batch_size", "4", "--report_to", "none", "--num_layers", "1",
             "--hidden_size", "16", "--vocab_size", "150", "--output_dir", "out"]  # fmt: skip
    assert main(["train", "--train_file", "mined.parquet", *train]) == 0, capsys.readouterr().err
    assert "mined.parquet: anchors, positives and hard negatives (triplets)" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "training_metadata.json").read_text())
    assert record["collator"] == "NLITripletCollator"
    guided = ["--guide", "out", "--output_format", "triplet", "--max_score", "2"]
    assert main(["mine", "pairs.jsonl", "-o", "b.csv", *guided]) == 0
    assert read_texts("b.csv").column_names == ["anchor", "positive", "negative"]


def test_the_columns_of_pairs_may_be_as_a_question_names_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").write_text("q,a\nhow to cook,boil it\nwhy is it blue,light scatters\n")
    command = ["mine", "own.csv", "-o", "out.csv", "--header", "true", "--num_negatives", "1"]
    advice = "--columns q=anchor a=positive"
    assert f"give {advice}; " in refused(capsys, *command)
    assert main([*command, *advice.split()]) == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("none.csv -o a.csv", "no such file"),
        ("pairs.csv -o a.txt", ".jsonl, .csv, .parquet"),
        ("pairs.csv -o no/a.csv", "does not exist"),
        ("pairs.csv -o a.csv --corpus two.csv", "--corpus_column"),
        ("pairs.csv -o a.csv --corpus two.csv --corpus_column c", "unknown column 'c'"),
        ("pairs.csv -o a.csv --corpus own.csv", "names of the columns, give --header true; if"),
        ("pairs.csv -o a.csv --corpus own.csv --header true", "give --corpus_column 'my text'; "),
        ("pairs.csv -o a.csv --num_negatives 0", "num_negatives 0"),
        ("pairs.csv -o a.csv --num_negatives 9", "none of 2 anchors has 9 negatives"),
        ("pairs.csv -o a.csv --range_min -1", "range_min -1"),
        ("pairs.csv -o a.csv --range_max 2", "range_max 2"),
        ("pairs.csv -o a.csv --max_score nan", "max_score nan"),
        ("pairs.csv -o a.csv --model /no/such", "/no/such"),
        ("pairs.csv -o a.csv --cross_encoder /no/such", "/no/such"),
        ("pairs.csv -o a.csv --guide a --cross_encoder b", "give only one of them"),
        ("pairs.csv -o a.csv --sampling_strategy all", "--sampling_strategy"),
        ("pairs.csv -o a.csv --output_format list", "output_format"),
        ("pairs.csv -o a.csv --include_positives --output_format triplet", "output_format"),
        ("labelled.csv -o a.csv", "mining needs anchors and their positives"),
        ("text.txt -o a.csv", "mining needs anchors and their positives"),
    ],
)
def test_bad_input_is_one_line(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("anchor,positive\nwhy,so\nhow,thus\n")
    (tmp_path / "two.csv").write_text("question,answer\none,uno\n")
    (tmp_path / "own.csv").write_text("my text,my head\none uno two,a\nthree tre four,b\n")
    (tmp_path / "labelled.csv").write_text("premise,hypothesis,label\na,b,0\n")
    (tmp_path / "text.txt").write_text("one\ntwo\n")
    assert words in refused(capsys, "mine", *args.split())
    assert not list(tmp_path.glob("a.*"))
