"""Missing values as other programs write them, rows that are dropped with the reason, and lines about the format."""

import re

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_files import put

from contrastive_st.data import read_examples, read_texts, tokenize, train_wordpiece
from contrastive_st.data.labels import read_labels
from contrastive_st.data.profile import MISSING
from contrastive_st.data.reading import open_table
from contrastive_st.data.reading.texts import corpus_texts
from contrastive_st.errors import InputError
from contrastive_st.text_format import reading_as


@pytest.fixture
def write(tmp_path):
    return lambda name, text: str(put(tmp_path, name, text))


@pytest.mark.parametrize("mark", sorted(MISSING))
def test_a_missing_text_drops_its_row_and_the_line_says_why(write, caplog, mark):
    source = write("a.csv", f"anchor,positive\none,uno\ntwo,{mark}\nthree,tres\n")
    for read in (lambda: read_examples(source)[0], lambda: read_texts(source)):
        caplog.clear()
        assert read()["anchor"][:] == ["one", "three"]
        assert f"dropped 1 of 3 rows, which have a blank cell; the first is {source}, row 3" in caplog.text
        assert f"({mark!r} counts as blank)" in caplog.text
    with pytest.raises(InputError, match=re.escape(f"row 3: a cell is blank ('{mark}' counts as blank)")):
        read_examples(source, strict=True)


def test_every_reader_has_the_same_rule(write, tmp_path, caplog):
    assert corpus_texts(write("a.csv", "text\none\nNA\n")) == ["one"]
    assert corpus_texts(write("a.jsonl", '{"text": "NULL"}\n{"text": "one"}\n')) == ["one"]
    pq.write_table(pa.table({"text": ["one", " NaN ", None]}), tmp_path / "a.parquet")
    assert read_texts(str(tmp_path / "a.parquet"))["text"][:] == ["one"]
    lists = write("b.jsonl", '{"anchor": "a", "positive": ["b", "NA"]}\n{"anchor": "NA", "positive": ["d"]}\n')
    assert len(read_examples(lists)[0]) == 1
    assert caplog.text.count("counts as blank") == 4


def test_a_stream_leaves_out_the_same_rows():
    rows = [("a", "b", 0.5), ("NA", "b", 0.5), ("a", None, 0.5), ("a", "b", None), ("c", "d", 1.0)]
    data = datasets.Dataset.from_list([dict(zip(("anchor", "positive", "score"), row, strict=True)) for row in rows])
    tokens = tokenize(data.to_iterable_dataset(), train_wordpiece(["a b c d"], 30), 8)
    assert [row["score"] for row in tokens] == [0.5, 1.0]
    data = datasets.Dataset.from_list([{"anchor": "a", "positive": "b", "score": "0,5"}])
    with reading_as(decimal="comma"):
        tokens = tokenize(data.to_iterable_dataset(), train_wordpiece(["a b c d"], 30), 8)
        assert [row["score"] for row in tokens] == [0.5]


def test_a_missing_label_is_no_class(write, caplog):
    source = write("a.csv", "text,label\none,a\ntwo,NA\nthree,b\nfour,NA\n")
    assert read_examples(source)[0]["label"][:] == [0, 1]
    assert "left out 2 rows without a label (NA)" in caplog.text
    assert read_labels(source).labels == ["a", "b"]
    assert "dropped 2 of 4 rows, which lack a text or a label" in caplog.text
    odd = write("a.jsonl", '{"text": "one", "label": 15}\n{"text": "two", "label": NaN}\n{"text": "three"}\n')
    assert read_labels(odd) == (["one"], ["15"])
    numbers = write("b.csv", "sentence1,sentence2,label\na,b,0\nc,d,NA\ne,f,1\ng,h,NA\ni,j,NA\n")
    assert read_examples(numbers)[0]["label"][:] == [0, 1]
    signs = write("c.csv", "sentence1,sentence2,label\na,b,-1\nc,d,NA\ne,f,1\ng,h,0\n")
    assert read_examples(signs)[0]["label"][:] == [0, 2, 1]


def test_escapes_of_postgresql_are_asked_for(write):
    written = 'text\tnote\nOne\\ntwo.\t\\N\n"Three" and\tC:\\\\new\n"Four."\t\\\\N\n'
    with reading_as(escapes="copy"):
        table = open_table(write("a.tsv", written))
    assert [tuple(row.cells.values()) for row in table] == [
        ("One\ntwo.", None), ('"Three" and', "C:\\new"), ('"Four."', "\\N"),
    ]  # fmt: skip
    with pytest.raises(InputError, match="--escapes copy"):
        list(open_table(write("b.tsv", written.replace('"', ""))))
    latex = open_table(write("c.tsv", written.replace('"', "") + "Five.\t\\alpha\n"))  # no export
    assert next(row.cells["text"] for row in latex) == "One\\ntwo."


def test_escapes_of_a_database_are_asked_for(write):
    source = write("a.tsv", "question\tanswer\nWhy?\tone\\ntwo\nWho?\tC:\\\\dir\n")
    with pytest.raises(InputError, match="--escapes true"):
        read_texts(source, ["answer"])
    with pytest.raises(InputError, match="before 'n'"):
        read_texts(source, ["answer"], escapes=True)
    assert read_texts(source, ["answer"], escapes="copy")["answer"] == ["one\ntwo", "C:\\dir"]
    assert read_texts(source, ["answer"], escapes=False)["answer"] == ["one\\ntwo", "C:\\\\dir"]


def test_a_backslash_that_is_text_is_text_in_every_column(write):
    source = write("a.csv", "question,answer\nWhy?,so\nWho?,one\\ntwo\n")
    for columns in (["answer"], ["question", "answer"], None):
        with pytest.raises(InputError, match="--escapes false"):
            read_texts(source, columns)
        assert read_texts(source, columns, escapes=False)["answer"] == ["so", "one\\ntwo"]


def test_a_column_that_a_file_lacks_is_the_reason(write, caplog):
    triplets = write("a.csv", "anchor,positive,hard_neg\na,b,c\n")
    pairs = write("b.csv", "anchor,positive\nd,e\nf,g\n")
    assert len(read_examples([triplets, pairs])[0]) == 1
    assert f"the first is {pairs}, row 2 (there is no column 'hard_neg')" in caplog.text


def test_a_backslash_in_a_table_with_rows_of_two_lines_is_text(write):
    """Code, as pandas writes it: a program that escapes line ends would have escaped this one."""
    source = write("code.csv", "query,answer\nhow to end a line,\"print('a\\n')\nprint(1)\"\n")
    assert read_texts(source, ["answer"])["answer"] == ["print('a\\n')\nprint(1)"]
