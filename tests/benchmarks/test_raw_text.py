"""The study of the levers: every row is another run, a run is measured once, and corpora of a page do."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scripts import EXAMPLES, load

from contrastive_st.models import load_tokenizer

NOUNS, VERBS = ["cat", "dog", "town", "rain", "book", "road", "lamp"], ["saw", "left", "met", "found"]
TEXTS = [f"the {noun} {verb} the {other}" for noun in NOUNS for verb in VERBS for other in NOUNS]


@pytest.fixture
def study(tmp_path, monkeypatch):
    raw_text = load("raw_text", EXAMPLES.parent / "benchmarks")
    monkeypatch.setattr(raw_text, "SENTENCES", 48)
    monkeypatch.setattr(raw_text, "DIM", 6)
    judged = []
    monkeypatch.setattr(
        raw_text, "judged", lambda encoder, data: judged.append(encoder) or dict.fromkeys(raw_text.FIGURES, 50.0)
    )
    raw_text.judged_encoders = judged
    for name, half in zip(raw_text.CORPUS, (TEXTS[:98], TEXTS[98:]), strict=True):
        pq.write_table(pa.table({"text": half, "doc": [i // 14 for i in range(98)]}), tmp_path / name)
    raw_text.prepare(tmp_path, tmp_path / "work")
    return raw_text


def test_every_row_is_another_run(study):
    keys = [tuple(cell.key().values()) for cell in study.cells()]
    assert len(set(keys)) == len(keys)
    labels = [(cell.group, cell.label) for cell in study.cells()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("changes", [{}, {"encoder": "gru", "towers": 2, "targets": "tfidf_bin", "vectors": "random"}])
def test_a_run_is_measured_before_and_after_and_once(study, tmp_path, changes):
    cell = study.replace(study.MEAN, batch=16, hidden=6, **changes)
    tokenizer = load_tokenizer(tmp_path / "work")
    for _ in range(2):
        results = study.Results(tmp_path / "out.csv")
        before, after = study.run(cell, 0, results, tmp_path, tmp_path / "work", tokenizer)
        assert before["mean STS"] == after["mean STS"] == 50.0
    assert len(study.judged_encoders) == 2
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
    study.run(cell, 1, results, tmp_path, tmp_path / "work", tokenizer)
    assert len(study.judged_encoders) == 4


def test_intervals_are_students(study):
    assert study.interval([1.0, 2.0, 3.0]) == "2.0 ± 2.5"  # 4.303 / sqrt(3)
    assert study.interval([1.0]) == "1.0"


def test_the_picture_is_drawn(study, tmp_path):
    study.draw([("a row", [50.0, 51.0], [55.0, 54.0])], {"TF-IDF": 60.0}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"


def test_the_table_of_the_page_is_that_of_its_file(study, monkeypatch, capsys):
    docs = EXAMPLES.parent / "docs"
    monkeypatch.setattr(
        "sys.argv", ["raw_text.py", "no-data", "--recorded", "--output", str(docs / "raw_text_levers.csv")]
    )
    study.main()
    printed = capsys.readouterr().out.strip()
    assert printed.count("\n") >= 12
    assert f"\n\n{printed}\n\n" in (docs / "quickthoughts.md").read_text(encoding="utf-8")
