"""Hard negatives: against a plain loop, against sentence-transformers, and never a positive."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from datasets import Dataset, load_dataset
from transformers import BertForSequenceClassification

from conftest import SENTENCES, save_both
from contrastive_st import (
    InputError,
    SentenceEncoder,
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

OPTIONS = {
    "plain": {},
    "ranks": {"range_min": 2, "range_max": 7},
    "max_score": {"max_score": 0.3},
    "min_score": {"min_score": 0.1},
    "absolute_margin": {"absolute_margin": 0.2},
    "relative_margin": {"relative_margin": 0.25},
    "all": {"range_min": 1, "range_max": 20, "max_score": 0.6, "absolute_margin": 0.05, "relative_margin": 0.1},
}


def space(seed=0, dim=12):
    """A model that gives each text a random vector of its own, the same for equal texts."""

    def encode(texts):
        seeds = [[seed, *plain(text).encode()] for text in texts]
        return np.stack([np.random.default_rng(own).normal(size=dim) for own in seeds])

    return FunctionEncoder("random", encode)


def drawn(count=60, anchors=40, seed=0):
    """Pairs with several positives of an anchor, repeated pairs, and texts that differ by case and blanks alone."""
    random = np.random.default_rng(seed)
    rows = {"anchor": [], "positive": []}
    for _ in range(count):
        own = f"answer {random.integers(30)}"
        rows["anchor"].append(f"question {random.integers(anchors)}")
        rows["positive"].append(random.choice([own, own.upper(), own.replace(" ", "   ")]))
    return Dataset.from_dict(rows)


def unit(vector):
    return vector / np.linalg.norm(vector)


def plain(text):
    return " ".join(text.casefold().split())


def reference(pairs, model, corpus=None, judge=None, **options):
    """For each distinct anchor the negatives, by loops over all texts, one pair of texts at a time."""
    rules = NegativeRules(**options)
    judge = judge or (lambda a, b: cosine(model, a, b))
    positives = {}
    for anchor, positive in zip(pairs["anchor"], pairs["positive"], strict=True):
        positives.setdefault(plain(anchor), {})[plain(positive)] = None
    documents = list(dict.fromkeys(plain(text) for text in (corpus or pairs["positive"])))
    found = {}
    for anchor, own in positives.items():
        scored = [(-cosine(model, anchor, text), i, text) for i, text in enumerate(documents) if text not in own]
        ranked = [text for *_, text in sorted(scored) if text != anchor][rules.range_min : rules.candidates]
        least = min(judge(anchor, text) for text in own)
        kept = []
        for text in ranked:
            score = judge(anchor, text)
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


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(hard_negatives, "ANCHORS", 3)
    for module, name in ((known_pairs, "_READ"), (hard_negatives, "DOCUMENTS"), (hard_negatives, "PAIRS")):
        monkeypatch.setattr(module, name, 7)


@pytest.mark.parametrize("name", OPTIONS)
def test_it_is_what_a_plain_loop_finds(name, small_blocks):
    pairs, model = drawn(), space()
    options = {"num_negatives": 4, **OPTIONS[name]}
    expected = {anchor: own for anchor, own in reference(pairs, model, **options).items() if own}
    assert by_anchor(mine_hard_negatives(pairs, model, output_format="triplet", **options)) == expected
    whole = {anchor: own for anchor, own in expected.items() if len(own) == 4}
    if whole:
        assert by_anchor(mine_hard_negatives(pairs, model, **options)) == whole


def test_a_corpus_takes_the_place_of_the_positives(small_blocks):
    pairs, model = drawn(), space()
    corpus = [f"passage {i}" for i in range(40)] + ["ANSWER  3", "answer 4", "question 5"]
    expected = reference(pairs, model, corpus, num_negatives=3)
    mined = mine_hard_negatives(pairs, model, corpus=corpus)
    assert by_anchor(mined) == expected
    assert {text for own in by_anchor(mined).values() for text in own} <= {plain(text) for text in corpus}


@pytest.mark.parametrize("judge", ["guide", "cross_encoder"])
def test_a_judge_scores_in_the_models_place(judge, small_blocks):
    pairs, model, other = drawn(), space(), space(seed=1)

    class CrossEncoder:
        def predict(self, texts, show_progress_bar):
            return np.array([cosine(other, a, b) for a, b in texts])

    options = {"num_negatives": 2, "range_max": 9, "absolute_margin": 0.1}
    expected = reference(pairs, model, judge=lambda a, b: cosine(other, a, b), **options)
    given = {judge: other if judge == "guide" else CrossEncoder()}
    mined = mine_hard_negatives(pairs, model, output_format="triplet", **given, **options)
    assert by_anchor(mined) == {anchor: own for anchor, own in expected.items() if own}


def test_anchors_and_documents_have_the_prompts_that_the_model_records():
    seen = {}

    class Prompted(FunctionEncoder):
        def encode_query(self, texts):
            seen.setdefault("query", []).extend(texts)
            return self.encode(texts)

        def encode_document(self, texts):
            seen.setdefault("document", []).extend(texts)
            return self.encode(texts)

    pairs, model = drawn(), space()
    mined = mine_hard_negatives(pairs, Prompted("prompted", model.encode))
    assert by_anchor(mined) == reference(pairs, model)
    assert {plain(text) for text in seen["query"]} == {plain(text) for text in pairs["anchor"]}
    assert sorted(map(plain, seen["document"])) == sorted({plain(text) for text in pairs["positive"]})


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


class Judge:
    """A cross-encoder of both libraries."""

    def predict(self, texts, **options):
        scores = [cosine(space(), a, b) for a, b in texts]
        return torch.tensor(scores) if options.get("convert_to_tensor") else np.array(scores)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("options", [
    {}, {"range_min": 3}, {"max_score": 0.55}, {"absolute_margin": 0.1}, {"relative_margin": 0.05},
    {"max_score": 0.2, "cross_encoder": Judge()},
], ids=lambda options: " ".join(options) or "plain")  # fmt: skip
def test_sentence_transformers_finds_the_same(options, peer):
    from sentence_transformers.util import mine_hard_negatives as theirs

    model, folder, pairs = peer
    options = {"num_negatives": 3, "range_max": 38, "output_format": "triplet", **options}
    wanted = theirs(pairs, model, verbose=False, **options)
    mined = mine_hard_negatives(pairs, SentenceEncoder(folder), **options)
    assert len(wanted) > 30
    rows = [sorted((r["anchor"], r["positive"], r["negative"]) for r in data) for data in (mined, wanted)]
    assert [row[:2] for row in rows[0]] == [row[:2] for row in rows[1]]
    assert len({*rows[0]} & {*rows[1]}) > 0.9 * len(rows[1])  # others have equal scores but for float16
    scored = [sorted((a, b, cosine(model, a, c)) for a, b, c in own) for own in rows]
    np.testing.assert_allclose(*([score for *_, score in own] for own in scored), atol=2e-4)


FORMATS = {
    "labeled-pair": {"output_format": "labeled-pair"},
    "labeled-list": {"output_format": "labeled-list"},
    "labeled-pair, scores": {"output_format": "labeled-pair", "output_scores": True},
    "labeled-list, scores": {"output_format": "labeled-list", "output_scores": True},
    "triplet, scores": {"output_format": "triplet", "output_scores": True},
    "include_positives": {"include_positives": True, "output_format": "n-tuple", "output_scores": True},
    "prompts": {"query_prompt": "the cat ", "corpus_prompt": "old ", "batch_size": 8, "output_format": "n-tuple"},
    "limits": {"output_format": "labeled-list", "max_score": 0.55, "range_max": 38},
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_formats_and_prompts_of_sentence_transformers(name, peer, tmp_path):
    from sentence_transformers.util import mine_hard_negatives as theirs

    model, folder, pairs = peer
    options, file = {"num_negatives": 3, **FORMATS[name]}, tmp_path / "mined.parquet"
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
    options = {"num_negatives": 2, "output_format": name, "output_scores": scored}
    mined = list(mine_hard_negatives(drawn(), space(), **options))
    write_hard_negatives(drawn(), tmp_path / f"mined{ending}", space(), **options)
    rows, roles = read_examples(str(tmp_path / f"mined{ending}"), scale=(-1, 1) if name == "labeled-pair" else None)
    kinds = {"labeled-pair": "scored_pairs"}
    assert roles.kind == kinds.get(name, "scored_candidates" if scored else "triplets")
    assert len(rows) == len(mined)
    first = mined[0]
    texts = [
        first[column] for column in ("anchor", "positive", "negative", "negative_1", "negative_2") if column in first
    ]
    if name == "labeled-list":
        texts = [first["anchor"], *first["positive"]]
    assert list(rows[0].values())[: len(texts)] == texts
    if scored and name != "labeled-pair":
        assert rows[0]["scores"][: len(first["scores"])] == pytest.approx(first["scores"], abs=1e-5)


def plain_row(row):
    """A row without its scores, but their order."""
    numbers = {name: row[name] for name in ("score", "scores") if name in row}
    assert all(np.isfinite(value).all() for value in numbers.values())
    return {name: value for name, value in row.items() if name not in numbers}


def test_positives_among_the_negatives_are_for_n_tuples():
    with pytest.raises(InputError, match="output_format"):
        mine_hard_negatives(drawn(), space(), include_positives=True, output_format="triplet")
    rows = mine_hard_negatives(drawn(), space(), include_positives=True, num_negatives=10)
    positives = {}
    for row in drawn():
        positives.setdefault(row["anchor"], set()).add(plain(row["positive"]))
    assert any(plain(row[f"negative_{i}"]) in positives[row["anchor"]] for row in rows for i in range(1, 11))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_file_reads_back_and_is_not_overwritten(suffix, tmp_path):
    pairs = drawn()
    pairs = pairs.map(lambda row: {"positive": f'{row["positive"]}, "so it is"\nand was'})
    pairs.to_parquet(tmp_path / "pairs.parquet")
    target = tmp_path / f"mined{suffix}"
    counts = write_hard_negatives(tmp_path / "pairs.parquet", target, space(), num_negatives=2)
    rows = mine_hard_negatives(pairs, space(), num_negatives=2)
    read = read_texts(str(target))
    assert read.column_names == ["anchor", "positive", "negative_1", "negative_2"]
    assert read.to_list() == rows.to_list()
    assert (counts.rows, counts.without, counts.anchors) == (len(rows), 0, len(set(pairs["anchor"])))
    assert counts.negatives == 2 * counts.anchors
    before = target.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        write_hard_negatives(tmp_path / "pairs.parquet", target, space(), num_negatives=1)
    assert target.read_bytes() == before
    write_hard_negatives(tmp_path / "pairs.parquet", target, space(), num_negatives=1, overwrite=True)
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_negatives": 0}, "num_negatives 0: give a whole number of 1 or more"),
        ({"range_min": -1}, "range_min -1"),
        ({"range_min": 5, "range_max": 6}, "range_max 6: ranks 5 to 6 have fewer than 3 negatives; give 8 or more"),
        ({"max_score": float("nan")}, "max_score nan"),
        ({"sampling_strategy": "hardest"}, "sampling_strategy 'hardest'"),
        ({"output_format": "list"}, "output_format 'list'"),
        ({"guide": "a", "cross_encoder": "b"}, "give only one of them"),
        ({"anchor_column_name": "a"}, "both columns"),
        ({"max_score": -0.99}, "none of"),
        ({"corpus": []}, "the corpus: there are no rows"),
    ],
)
def test_bad_options_are_one_line(options, words):
    with pytest.raises(InputError, match=words):
        mine_hard_negatives(drawn(), space(), **options)


def test_pairs_that_are_none(tmp_path):
    labelled = Dataset.from_dict({"premise": ["a"], "hypothesis": ["b"], "label": [0]})
    with pytest.raises(InputError, match="anchors"):
        mine_hard_negatives(labelled, space())
    rows = Dataset.from_dict({"label": ["x", "y"], "a": ["one", "two"], "b": ["uno", "due"]})
    mined = mine_hard_negatives(rows, space(), anchor_column_name="b", positive_column_name="a", num_negatives=1)
    assert mined.to_list()[0] == {"anchor": "uno", "positive": "one", "negative_1": "two"}
    with pytest.raises(InputError, match="mining needs anchors"):
        mine_hard_negatives(Dataset.from_dict({"text": ["a", "b"]}), space())


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
    said = capsys.readouterr().err
    assert said.startswith("mined.parquet: 32 negatives of 16 anchors in 16 rows; 0 anchors with too few are left out")
    assert "GiB" in said
    assert main(asked) == 2
    assert "exists already" in capsys.readouterr().err
    train = ["--max_steps", "2", "--per_device_train_batch_size", "4", "--report_to", "none", "--num_layers", "1",
             "--hidden_size", "16", "--vocab_size", "150", "--output_dir", "out"]  # fmt: skip
    assert main(["train", "--train_file", "mined.parquet", *train]) == 0, capsys.readouterr().err
    assert "mined.parquet: anchors, positives and hard negatives (triplets)" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "training_metadata.json").read_text())
    assert record["collator"] == "NLITripletCollator"
    assert (
        main(["mine", "pairs.jsonl", "-o", "b.csv", "--guide", "out", "--output_format", "triplet", "--max_score", "2"])
        == 0
    )
    assert read_texts("b.csv").column_names == ["anchor", "positive", "negative"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["none.csv", "-o", "a.csv"], "no such file"),
        (["pairs.csv", "-o", "a.txt"], ".jsonl, .csv, .parquet"),
        (["pairs.csv", "-o", "no/a.csv"], "does not exist"),
        (["pairs.csv", "-o", "a.csv", "--corpus", "two.csv"], "--corpus_column"),
        (["pairs.csv", "-o", "a.csv", "--corpus", "two.csv", "--corpus_column", "c"], "unknown column 'c'"),
        (["pairs.csv", "-o", "a.csv", "--range_max", "2"], "range_max 2"),
        (["pairs.csv", "-o", "a.csv", "--num_negatives", "9"], "none of 2 anchors has 9 negatives"),
        (["pairs.csv", "-o", "a.csv", "--model", "/no/such"], "/no/such"),
        (["pairs.csv", "-o", "a.csv", "--cross_encoder", "/no/such"], "/no/such"),
        (["pairs.csv", "-o", "a.csv", "--sampling_strategy", "all"], "--sampling_strategy"),
        (["text.txt", "-o", "a.csv"], "mining needs anchors and their positives"),
    ],
)
def test_bad_input_of_the_command_is_one_line(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("anchor,positive\nwhy,so\nhow,thus\n")
    (tmp_path / "two.csv").write_text("question,answer\none,uno\n")
    (tmp_path / "text.txt").write_text("one\ntwo\n")
    assert main(["mine", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert words in error
    assert not list(tmp_path.glob("a.*"))


def test_a_static_model_mines_without_torch(tmp_path):
    (tmp_path / "pairs.csv").write_text("anchor,positive\nwhy,so\nhow,thus\n")
    code = "import sys; from contrastive_st.cli import main\nassert main(sys.argv[1:]) == 0\n"
    code += "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    asked = ["mine", str(tmp_path / "pairs.csv"), "-o", str(tmp_path / "mined.csv"), "--num_negatives", "1"]
    done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert (tmp_path / "mined.csv").read_text() == "anchor,positive,negative_1\nwhy,so,thus\nhow,thus,so\n"


@pytest.mark.allow_warnings
def test_a_cross_encoder_by_name(bert_config, tokenizer, tmp_path):
    from sentence_transformers import CrossEncoder

    for labels, name in ((1, "one"), (3, "three")):
        bert_config.num_labels = labels
        save_both(BertForSequenceClassification(bert_config), tokenizer, tmp_path / name)
    pairs = Dataset.from_dict({"anchor": SENTENCES[:4], "positive": SENTENCES[4:]})
    mined = mine_hard_negatives(pairs, cross_encoder=str(tmp_path / "one"), num_negatives=3)
    judge = CrossEncoder(str(tmp_path / "one"), device="cpu")
    for row in mined:
        scores = judge.predict([(row["anchor"], row[f"negative_{i}"]) for i in (1, 2, 3)])
        assert (np.diff(scores) <= 1e-6).all(), "the highest score first"
    with pytest.raises(InputError, match="3 scores"):
        mine_hard_negatives(pairs, cross_encoder=str(tmp_path / "three"), num_negatives=3)
    (tmp_path / "one" / "model.safetensors").rename(tmp_path / "one" / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickle"):
        mine_hard_negatives(pairs, cross_encoder=str(tmp_path / "one"), num_negatives=3)


@pytest.mark.parametrize(
    ("output_format", "ending"),
    [("n-tuple", ".jsonl"), ("n-tuple", ".csv"), ("triplet", ".csv"), ("triplet", ".parquet")],
)
def test_scores_are_those_of_the_judge(output_format, ending, tmp_path):
    pairs, judge = drawn(), space(seed=7)
    options = {"num_negatives": 2, "guide": judge, "output_format": output_format, "output_scores": True}
    write_hard_negatives(pairs, tmp_path / f"mined{ending}", space(), **options)
    rows, roles = read_examples(tmp_path / f"mined{ending}")
    assert (roles.kind, len(rows) > 10) == ("scored_candidates", True)
    plainly = mine_hard_negatives(pairs, space(), **{**options, "output_scores": False})
    assert plainly[:] == rows.remove_columns("scores")[:]
    for row in rows:
        anchor, *candidates = (unit(judge.encode([text])[0]) for name, text in row.items() if name != "scores")
        assert row["scores"] == pytest.approx([float(anchor @ other) for other in candidates], abs=2e-3)


def test_columns_that_are_not_used_are_named():
    rows = {"id": ["1", "2"], "anchor": ["a", "b"], "positive": ["c", "d"], "negative": ["e", "f"]}
    mined = HardNegatives(Dataset.from_dict(rows), space(), num_negatives=1)
    assert "not used: 'id' (its name says that it is not a text), 'negative' (new negatives are mined)" in str(
        mined.counts
    )
