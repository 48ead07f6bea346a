"""`contrastive-st classify`: tables or files of one label, its classifiers, their figures, and what it refuses."""

import argparse
import io
import json
import math
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluation_files import ANIMALS, TOOLS, write
from refusals import refused, told

from contrastive_st import SentenceClassifier
from contrastive_st.classification.cli import Classify
from contrastive_st.data.reading import open_table
from contrastive_st.errors import InputError
from contrastive_st.evaluation.scorers.few_shot import METHODS
from contrastive_st.options import add_flags, parsed


def run(*arguments):
    parser = argparse.ArgumentParser()
    add_flags(parser, Classify)
    return parsed(Classify, parser.parse_args([*map(str, arguments)]))()


@pytest.fixture
def table(tmp_path):
    rows = [f"the {word} is old,{label}" for label, words in (("animal", ANIMALS), ("tool", TOOLS)) for word in words]
    return write(tmp_path / "nouns.csv", ["text,label", *rows]) or tmp_path / "nouns.csv"


def test_it_learns_from_a_table_tells_its_figures_and_finds_its_model_again(table, tmp_path, capsys):
    run("--train_file", table, "--test_file", table, "--output", tmp_path / "nouns")
    out, err = capsys.readouterr()
    assert "learned from 4 animal, 4 tool" in err
    assert "macro-F1, with 95% intervals, on 8 texts" in out
    figures = [line for line in out.splitlines() if line.startswith(("logistic", *METHODS))]
    assert len(figures) == len(METHODS)  # logistic regression is there once
    assert figures[0].split()[1:] == ["100.0", "(100.0", "to", "100.0)"] * 2
    write(tmp_path / "new.txt", ["a new saw", "the old horse"])
    run(tmp_path / "new.txt", "--output", tmp_path / "nouns")
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["tool", "animal"]
    assert all(0.5 <= float(score) <= 1 for _, score, _ in lines)
    assert [text for *_, text in lines] == ["a new saw", "the old horse"]
    run(table, "--model", tmp_path / "nouns")  # a classifier's folder is a model, and a table of texts can be labelled
    assert len(capsys.readouterr().out.splitlines()) == 8
    run("--test_file", table, "--output", tmp_path / "nouns")  # without the examples
    assert "keywords" not in capsys.readouterr().out


def test_predictions_are_the_rows_with_their_labels(table, tmp_path, capsys):
    run("--train_file", table, "--output", tmp_path / "nouns")
    rows = [
        {"id": 7, "text": "a new saw", "label": "x", "n": 1.5, "ok": False, "tags": ["a"], "any": 1},
        {"id": 8, "text": "the old horse", "label": None, "n": 2.0, "ok": True, "tags": [], "any": "b"},
    ]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for ending, kept in (
        (".csv", _of_csv),
        (".jsonl", dict),
        (".parquet", lambda row: {**row, "any": str(row["any"])}),
    ):
        run(tmp_path / "new.jsonl", "--output", tmp_path / "nouns", "--predictions", tmp_path / f"out{ending}")
        assert "2 rows with predicted_label and score in" in capsys.readouterr().err
        found = [row.cells for row in open_table(tmp_path / f"out{ending}")]
        assert [cells.pop("predicted_label") for cells in found] == ["tool", "animal"]
        assert [type(cells["score"]) for cells in found] == [str if ending == ".csv" else float] * 2
        assert all(0.5 <= float(cells.pop("score")) <= 1 for cells in found)
        assert found == list(map(kept, rows))
    before = (tmp_path / "out.csv").read_bytes()
    for wrong, words in (
        (["--predictions", tmp_path / "out.csv"], "exists already"),
        (["--predictions", tmp_path / "out.xlsx"], "write one of .jsonl, .csv, .parquet"),
        (["--columns", "txet"], "unknown column 'txet'; choose one of id, text, label, n"),
    ):
        with pytest.raises(InputError, match=words):
            run(tmp_path / "new.jsonl", "--output", tmp_path / "nouns", *wrong)
    with pytest.raises(InputError, match="'txet'"):
        run("--train_file", table, "--columns", "txet", "label", "--output", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert (tmp_path / "out.csv").read_bytes() == before


def test_the_columns_of_parquet_keep_their_types_and_values(table, tmp_path):
    run("--train_file", table, "--output", tmp_path / "nouns")
    cells = {
        "at": pa.array([1714555800123456789, None], pa.timestamp("ns")), "hash": pa.array([1 << 63, 7], pa.uint64()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), "size": pa.array([0.1, None], pa.float32()),
        "made": pa.array([[("by", 1)], None], pa.map_(pa.string(), pa.int64())),
        "kind": pa.array(["new", None]).dictionary_encode(),
        "rates": pa.array([[1.5, math.nan, math.inf], []]), "text": ["a new saw", "the old horse"],
    }  # fmt: skip
    for folder in ("year=2020", "year=2021"):
        (tmp_path / "new" / folder).mkdir(parents=True)
        pq.write_table(pa.table(cells), tmp_path / "new" / folder / "a.parquet")
    for ending in (".parquet", ".jsonl"):
        run(tmp_path / "new", "--columns", "text", "-o", tmp_path / "nouns", "--predictions", tmp_path / f"out{ending}")
    written, added = pq.read_table(tmp_path / "out.parquet"), ["year", "label", "score"]
    assert written.column_names == [*cells, *added]
    given = pa.concat_tables([pa.table(cells)] * 2).drop_columns("rates")
    assert written.drop_columns(["rates", *added]).equals(given)  # no table with NaN equals another
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in lines[:2])
    assert (first["hash"], first["price"], first["made"]) == (1 << 63, 1.5, {"by": 1})
    assert (first["rates"], first["at"]) == ([1.5, None, None], "2024-05-01 09:30:00.123456789")
    assert (second["price"], second["rates"]) == (None, [])


def _of_csv(row):
    """The cells of a row as .csv has them."""
    return {
        name: cell if isinstance(cell, str) else "" if cell is None else json.dumps(cell) for name, cell in row.items()
    }


def _accuracy(capsys):
    return next(line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("logistic "))


@pytest.mark.parametrize("labels", [("warm", "cold"), (True, False), (3, 1), (2.0, 1.0)], ids=str)
def test_labels_of_files_are_those_of_a_classifier_fitted_in_python(labels, tmp_path, capsys):
    texts, y = [f"the {word} is old" for word in (*ANIMALS, *TOOLS)], [labels[0]] * 4 + [labels[1]] * 4
    SentenceClassifier("static-minilm").fit(texts, y).save_pretrained(tmp_path / "nouns")
    frame = pd.DataFrame({"text": texts, "label": y})
    frame.to_csv(tmp_path / "test.csv", index=False)
    frame.to_json(tmp_path / "test.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "test.parquet")
    for ending in (".csv", ".jsonl", ".parquet"):
        run("--test_file", tmp_path / f"test{ending}", "-o", tmp_path / "nouns")
        assert _accuracy(capsys) == "100.0"
    run("--train_file", tmp_path / "test.csv", "--test_file", tmp_path / "test.jsonl", "-o", tmp_path / "again")
    assert _accuracy(capsys) == "100.0"
    run(tmp_path / "test.csv", "-o", tmp_path / "nouns", "--predictions", tmp_path / "out.jsonl")
    assert [row.cells["predicted_label"] for row in open_table(tmp_path / "out.jsonl")] == y
    assert SentenceClassifier.from_pretrained(tmp_path / "again").score(texts, y) == 1


def test_columns_are_those_of_the_tables_and_lines_have_none(tmp_path, capsys):
    rows = [f"the {word} is old,{stars}" for stars, words in ((1, ANIMALS), (2, TOOLS)) for word in words]
    write(tmp_path / "stars.csv", ["review,stars", *rows])
    write(tmp_path / "new.txt", ["a new saw"])
    run(tmp_path / "new.txt", "--train_file", tmp_path / "stars.csv", "--columns", "review", "stars=label", "-o",
        tmp_path / "stars")  # fmt: skip
    assert capsys.readouterr().out.startswith("2\t")


def test_the_columns_that_a_question_about_examples_asks_for_suit_an_input_too(tmp_path, capsys):
    rows = [f"the {word} is old,{kind}" for kind, words in (("animal", ANIMALS), ("tool", TOOLS)) for word in words]
    write(tmp_path / "train.csv", ["text,label", *rows])
    write(tmp_path / "new.csv", ["text,n", "a new saw,1"])
    given = [tmp_path / "new.csv", "--train_file", tmp_path / "train.csv", "-o", tmp_path / "out", "--columns", "text"]
    with pytest.raises(InputError, match="give --columns text label; "):
        run(*given)
    run(*given, "label")
    run(tmp_path / "train.csv", *given[1:], "label")  # an input that has labels of its own
    assert capsys.readouterr().out.startswith("tool\t")


def test_a_file_for_each_label_and_means_as_before(checkpoint, tmp_path, capsys):
    for name, nouns in (("animal", ANIMALS), ("tool", TOOLS)):
        write(tmp_path / f"{name}.txt", [f"the {word} is old" for word in nouns])
    examples = [f"{name}={tmp_path / name}.txt" for name in ("animal", "tool")]
    run("--model", checkpoint, "--train_file", *examples, "--test_file", *examples, "--head", "means")
    out, err = capsys.readouterr()
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == ["means", "logistic regression", "keywords"]
    assert "4 animal, 4 tool" in err
    run(tmp_path / "tool.txt", "--model", checkpoint)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.split("\t")[0] in ("animal", "tool") for line in lines)


def test_tuning_writes_a_new_model(checkpoint, table, tmp_path, capsys):
    tune = ("--model", checkpoint, "--train_file", table, "--tune", "--max_steps", "2", "--batch_size", "4")
    with pytest.raises(InputError, match="--tune"):
        run(*tune)
    with pytest.raises(InputError, match="exists already"):
        run(*tune, "--output", checkpoint)
    run(*tune, "--test_file", table, "--output", tmp_path / "tuned")
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("tuned encoder, logistic")
    assert "train_runtime" not in out
    assert json.loads((tmp_path / "tuned" / "classes.classifier.json").read_text())["tuned"]


def test_several_labels_are_printed_together_and_are_lists_in_files(tmp_path, capsys, monkeypatch):
    rows = [f"the {word} is old,animal|pet" for word in ANIMALS] + [f"the {word} is old,tool" for word in TOOLS]
    write(tmp_path / "nouns.csv", ["text,label", *rows, "nothing,"])
    run("--train_file", tmp_path / "nouns.csv", "--separator", "|", "-o", tmp_path / "nouns")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("the old\u2028horse\n\n".encode())))
    run("-", "-o", tmp_path / "nouns")
    labels, scores, text = capsys.readouterr().out.rstrip("\n").split("\t")
    assert text == "the old horse"
    assert labels.count("|") == scores.count("|")
    run("--test_file", tmp_path / "nouns.csv", "--separator", "|", "-o", tmp_path / "nouns")
    assert "on 9 texts" in capsys.readouterr().out
    written = []
    for ending in (".jsonl", ".parquet", ".csv"):
        out = "-o", tmp_path / "nouns", "--predictions", tmp_path / f"out{ending}"
        run(tmp_path / "nouns.csv", *out, "--separator", ";")
        cells = [row.cells["predicted_label"] for row in open_table(tmp_path / f"out{ending}")]
        written.append([cell.split(";") if cell else [] for cell in cells] if ending == ".csv" else cells)
    assert written[0] == written[1] == written[2]
    assert any(len(labels) > 1 for labels in written[0])


def test_files_of_single_labels_and_of_lists_go_together(table, tmp_path, capsys):
    lists, single = tmp_path / "lists.jsonl", tmp_path / "single.jsonl"
    lists.write_text('{"text": "a horse with a saw", "label": ["animal", "tool"]}\n{"text": "rain", "label": []}\n')
    single.write_text('{"text": "a horse", "label": ["animal"]}\n')
    run("--train_file", table, lists, "--test_file", table, "-o", tmp_path / "both")
    out, err = capsys.readouterr()
    assert "on 8 texts" in out
    assert "learned from 5 animal, 5 tool" in err
    run("--test_file", table, "-o", tmp_path / "both")
    run("--train_file", table, "--test_file", single, "-o", tmp_path / "one")
    assert capsys.readouterr().out.count("on 8 texts") == 1
    write(tmp_path / "joined.csv", ["text,label", "a horse with a saw,animal|tool"])
    with pytest.raises(InputError, match="--separator"):
        run("--test_file", tmp_path / "joined.csv", "-o", tmp_path / "both")
    with pytest.raises(InputError, match="'animal'"):
        run("--train_file", table, "--test_file", lists, "-o", tmp_path / "not_there")
    assert not (tmp_path / "not_there").exists()


def test_what_it_refuses(checkpoint, table, tmp_path, capsys):
    write(tmp_path / "other.csv", ["text,label", "a stone,mineral"])
    run("--train_file", table, "-o", tmp_path / "static")
    model = ("--model", checkpoint)
    for arguments, words in (
        ((*model, "--train_file", "=x.txt"), "LABEL=FILE"),
        ((*model, "--train_file", "animal"), "animal is not a file"),
        *(((*model, "--train_file", table, "--classifier", name), "without") for name in ("../../x", "a/b", "..", "")),
        (model, "nothing to do"),
        (("--train_file", table), "--model"),
        ((table,), "classifier"),
        (("--train_file", table, "-o", tmp_path / "unknown", "--test_file", tmp_path / "other.csv"), "training"),
        (("-o", tmp_path / "static", "--test_file", tmp_path / "other.csv"), "training"),
        ((table, "-o", tmp_path / "static", *model), "was fitted with static-minilm, and model gives other vectors"),
    ):
        capsys.readouterr()
        assert words in refused(capsys, "classify", *map(str, arguments))
    assert not (tmp_path / "unknown").exists()  # it is told before anything is fitted
    assert not list(tmp_path.parent.glob("x*"))


def test_a_card_says_what_it_labels(table, tmp_path, capsys):
    run("--train_file", table, "-o", tmp_path / "nouns")
    printed = told(capsys, "push", tmp_path / "nouns", "alice/nouns", "--dry-run").out
    assert "classes.classifier.safetensors\n" in printed
    assert "pipeline_tag: text-classification" in printed
    assert "one of the labels animal, tool" in printed
    assert 'SentenceClassifier.from_pretrained("alice/nouns", name="classes")' in printed
