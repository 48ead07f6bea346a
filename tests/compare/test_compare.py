"""`contrastive-st compare` on documents without labels: what is held out, who wins, and what it says."""

import csv
import json
import math
import time

import numpy as np
import pytest
from refusals import error_of, refused, told

from contrastive_st import InputError, SentenceEncoder, open_index, rerank
from contrastive_st.cli import main
from contrastive_st.compare.queries import LEAST, Search, read_search
from contrastive_st.compare.report import Comparison
from contrastive_st.compare.systems import (
    System,
    encoder_system,
    hybrid_system,
    lexical_systems,
    reranked_system,
    tuned_system,
)
from contrastive_st.data.documentation import near_copies
from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, reciprocal_ranks, relevant_rows
from contrastive_st.search.exact import ExactIndex

SYLLABLES = ("ba", "co", "di", "fu", "ge", "ha", "jo", "ki", "lu", "me", "no", "pa", "ri", "so", "tu", "ve")


def words(random, count):
    return ["".join(random.choice(SYLLABLES, 3)) for _ in range(count)]


def documents(count):
    """Texts of random words; the first line shares two of them with the rest."""
    random = np.random.default_rng(0)
    for _ in range(count):
        rest = words(random, 12)
        yield " ".join([*words(random, 3), *rest[:2]]), " ".join(rest)


def write_table(path, rows, names=("title", "body")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return str(path)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "talks.csv", documents(400))


def test_what_is_tuned_on_is_no_near_copy_of_what_is_searched(tmp_path):
    rows = list(documents(400))
    copies = [(f"{title} again", f"{body} more") for title, body in rows[:150]]
    search = read_search(write_table(tmp_path / "talks.csv", [*rows, *copies, *rows[:20]]))
    held = [pair._replace(title="", text=text) for pair, text in zip(search.training, search.documents, strict=False)]
    assert not near_copies(search.training, held).any()
    assert not {pair.title for pair in search.training} & set(search.queries)
    assert search.left_out["near copies of documents to find, not tuned on"] > 20
    assert search.left_out["documents that have the query or the text of another"] == 20
    assert 2 * LEAST - 40 <= len(search.queries) <= 2 * LEAST


@pytest.mark.parametrize("layout", ["folder", "blocks", "lines"])
def test_the_first_line_of_a_file_a_block_or_a_row_finds_the_rest(layout, tmp_path):
    rows = list(documents(400))
    if layout == "folder":
        for number, (title, body) in enumerate(rows):
            (tmp_path / f"{number}.txt").write_text(f"{title}\n\n{body}\n{body[::-1]}\n", encoding="utf-8")
        source = tmp_path
    else:
        ends = ("\n", "\n\n") if layout == "blocks" else (". ", ".\n")
        source = tmp_path / "all.txt"
        source.write_text("".join(a.capitalize() + ends[0] + b.capitalize() + ends[1] for a, b in rows), "utf-8")
    search = read_search(str(source))
    titles = {title.lower() for title, _ in rows}
    assert {query.lower().rstrip(".") for query in search.queries} <= titles
    assert search.relevant == [[i] for i in range(len(search.queries))]


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_of_tables_is_read_as_one_table(pattern, table, tmp_path):
    rows = list(documents(400))
    for number in range(2):
        write_table(tmp_path / f"{number}.csv", rows[200 * number : 200 * (number + 1)])
    (tmp_path / ".cache").mkdir()
    for other in ("README.md", ".cache/0.csv.metadata"):  # of a data set of the Hub
        (tmp_path / other).write_text("rows\n")
    parts, one = (read_search(source, ["title", "body"]) for source in (str(tmp_path / pattern), table))
    assert (parts.queries, parts.documents, parts.made) == (one.queries, one.documents, one.made)


def test_pairs_that_are_labelled_0_are_none(tmp_path):
    rows = [(i % 2, *row) for i, row in enumerate(documents(800))]
    names = ("is_duplicate", "question1", "question2")
    search = read_search(write_table(tmp_path / "pairs.csv", rows, names))
    assert search.left_out["pairs whose is_duplicate is 0"] == 400
    assert set(search.queries) <= {query for label, query, _ in rows if label}
    assert (search.made, search.column) == ("the column question1 of each", "question2")
    grades = [(label + 1, *row) for label, *row in rows]
    assert main(["compare", write_table(tmp_path / "grades.csv", grades, names), "-o", str(tmp_path / "out")]) == 2


def test_too_few_documents_are_an_error_with_the_number_that_would_do(tmp_path, capsys):
    for number, (title, body) in enumerate(documents(50)):
        (tmp_path / f"{number}.txt").write_text(f"{title}\n{body}\n", encoding="utf-8")
    error = refused(capsys, "compare", tmp_path, "-o", tmp_path / "out")
    assert "50 documents" in error
    assert "about 300" in error
    assert not (tmp_path / "out").exists()


def test_documents_that_are_too_short_are_an_error_that_asks_for_longer_ones(tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"Line {number} of a list.\n" for number in range(600)))
    with pytest.raises(InputError, match="600 of them are too short"):
        read_search(str(tmp_path / "lines.txt"))
    same = [(f"{title} {i}", body) for i, (title, body) in enumerate([*documents(7)] * 100)]
    with pytest.raises(InputError, match="693 of them are copies of others"):
        read_search(write_table(tmp_path / "copies.csv", same, ("title", "text")))


def test_queries_of_the_user_find_documents_by_their_ids(tmp_path):
    rows = [(f"d{i}", *row) for i, row in enumerate(documents(500))]
    corpus = write_table(tmp_path / "talks.csv", rows, ("id", "title", "text"))
    asked = [(f"where are {body[35:50]}", id) for id, _, body in rows[:250]] + [("nowhere", "d999")]
    search = read_search(corpus, queries=write_table(tmp_path / "queries.csv", asked, ("query", "id")))
    assert len(search.queries) == 250
    for query, own in zip(search.queries, search.relevant, strict=True):
        assert query.removeprefix("where are ") in search.documents[own[0]]
    assert search.left_out["queries without a document that is read"] == 1
    ids, titles, texts = zip(*rows, strict=True)
    index = ExactIndex(ids, texts, np.eye(len(rows), dtype=np.float32), [{"title": title} for title in titles])
    assert len(read_search("", queries=str(tmp_path / "queries.csv"), index=index).queries) == 250


def test_the_first_half_of_the_queries_chooses_and_the_other_confirms():
    """One system is best on the first half alone; the table tells both, and the doubt."""
    count = 40
    search = Search(
        [f"q{i}" for i in range(count)], [f"d{i}" for i in range(count)], [[i] for i in range(count)], [], ""
    )
    right, wrong = np.eye(count), np.roll(np.eye(count), 1, axis=1)
    lucky = np.concatenate([right[:20], wrong[20:]])
    result = Comparison(search, [System("steady", (right + wrong * 1.1) / 2, "s"), System("lucky", lucky, "l")])
    assert result.best.name == "lucky"
    steady, winner = result.rows
    assert (winner.choosing, winner.confirming, winner.behind) == (1, pytest.approx(1 / 39, abs=0.03), None)
    assert (steady.choosing, steady.confirming) == (0.5, 0.5)
    assert steady.behind[0] == pytest.approx(winner.confirming - 0.5)
    assert steady.behind[2] < 0
    assert "steady" in result.verdict()


def test_recall_is_that_of_all_documents_of_a_query_as_evaluate_has_it():
    scores = np.tile(-np.arange(40.0), (4, 1))
    relevant = [[0, 39], [1, 2], [3, 30], [5, 6, 38, 39]]
    search = Search(["q"] * 4, ["d"] * 40, relevant, [], "")
    [row] = Comparison(search, [System("s", scores)]).rows
    theirs = ranking_metrics(scores[2:], np.eye(40), relevant_rows(relevant[2:]), similarity="dot")
    assert row.recall == theirs["recall@10"] == 0.5
    alone = Search(["q"] * 4, ["d"] * 40, [[0], [9], [10], [39]], [], "")
    assert alone.recalls(scores).tolist() == (alone.ranks(scores) <= 10).tolist()
    assert alone.recalls(np.full((4, 40), np.nan)).tolist() == [0.0] * 4


def refuse(*args):
    raise InputError("the end")


def test_a_run_prints_the_table_writes_the_page_and_saves_the_tuned_model(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("contrastive_st.compare.systems._LEAST_STEPS", 6)
    out = tmp_path / "out"
    printed = told(capsys, "compare", table, "--output", out, "--minutes", "2")
    result = json.loads((out / "results.json").read_text())
    *names, hybrid = [system["name"] for system in result["systems"]]
    assert names == ["BM25, words", "BM25, characters", "static-minilm", "static-minilm, tuned"]
    assert hybrid in ("static-minilm, hybrid", "static-minilm, tuned, hybrid")
    best = max(result["systems"], key=lambda system: system["choosing"])
    assert result["winner"] == best["name"]
    assert [system["behind"] is None for system in result["systems"]] == [
        system is best for system in result["systems"]
    ]
    page = (out / "report.html").read_text()
    for name in names:
        assert name in printed.out
        assert page.count(f"<td>{name}</td>") == 11
    assert "data:image/png;base64," in page
    assert f"contrastive-st index {table} --columns body --model" in printed.out
    assert SentenceEncoder(out / "tuned").encode(["a"]).shape == (1, 256)
    assert "--overwrite" in error_of(capsys, "compare", table, "--output", out)
    before = {path: path.stat().st_ino for path in out.rglob("*")}
    monkeypatch.setattr("contrastive_st.compare.systems.hybrid_system", refuse)  # after the tuned model is saved
    assert "the end" in error_of(capsys, "compare", table, "--output", out, "--overwrite")
    assert {path: path.stat().st_ino for path in out.rglob("*")} == before
    monkeypatch.undo()
    monkeypatch.setattr("contrastive_st.compare.cli._OF_TUNING", 0)
    told(capsys, "compare", table, "--output", out, "--overwrite")
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "results.json"]


def test_a_checkpoint_is_chosen_by_what_the_table_shows(table, tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive_st.compare.systems._LEAST_STEPS", 5)
    search = read_search(table)
    search.documents = [f"{'of ' * 140}{text}" for text in search.documents]
    base = encoder_system(search, SentenceEncoder(), "static-minilm", math.inf)
    tuned = tuned_system(search, base, tmp_path / "tuned", math.inf)
    chosen = max(row["eval_mrr@10"] for row in tuned.curve if "eval_mrr@10" in row)
    assert chosen == pytest.approx(reciprocal_ranks(search.ranks(tuned.scores))[: search.half].mean(), abs=0.01)
    assert SentenceEncoder(tmp_path / "tuned").max_length is None  # as that of its base


def test_what_does_not_fit_into_the_time_is_left_out_and_named(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("contrastive_st.compare.cli._OF_TUNING", 0)
    printed = told(capsys, "compare", table, "-o", tmp_path / "out")
    assert "tuned" not in printed.out.replace("to tune on", "")
    assert "--minutes" in printed.err
    assert "--minutes" in error_of(capsys, "compare", table, "-o", tmp_path / "other", "--minutes", "0.0001")


def test_reading_the_corpus_takes_no_time_from_the_models(table, tmp_path, capsys, monkeypatch):
    clock, hours = time.perf_counter, []
    monkeypatch.setattr("time.perf_counter", lambda: clock() + 3600 * len(hours))

    def read_for_an_hour(*args, **options):
        hours.append(1)
        return read_search(*args, **options)

    monkeypatch.setattr("contrastive_st.compare.queries.read_search", read_for_an_hour)
    monkeypatch.setattr("contrastive_st.compare.cli._OF_TUNING", 0)
    assert "static-minilm" in told(capsys, "compare", table, "-o", tmp_path / "out", "--minutes", "1").out


def test_hybrid_search_and_reranking_are_those_of_the_index(table, tmp_path):
    class Letters:
        def predict(self, pairs, show_progress_bar):
            return [len(set(query) & set(text)) + len(text) % 7 for query, text in pairs]

    search, encoder = read_search(table), SentenceEncoder()
    texts = tmp_path / "texts.jsonl"
    texts.write_text("\n".join(json.dumps({"text": text}) for text in search.documents))
    assert main(["index", str(texts), "--output", str(tmp_path / "shards")]) == 0
    index = open_index(str(tmp_path / "shards"))
    hybrid = hybrid_system(encoder_system(search, encoder, "m", math.inf), next(lexical_systems(search)))
    reranked = reranked_system(search, hybrid, Letters(), "letters", 20, math.inf)
    assert reranked.options == ("--hybrid", "--rerank", "letters", "--rerank_top", "20")
    for number, query in enumerate(search.queries[:25]):
        hits = index.search(encoder.encode_query(query), 100, text=query)[0][:30]
        for system, found in ((hybrid, hits), (reranked, rerank(query, hits, Letters(), 20))):
            assert np.argsort(-system.scores[number])[:30].tolist() == [hit.id for hit in found]
    with pytest.raises(InputError, match="--rerank_top"):
        reranked_system(search, hybrid, Letters(), "letters", 20, 0)
