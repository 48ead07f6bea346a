"""Every format and every kind of bad input of `read_texts`, from real small files. No network."""

import codecs
import csv
import gzip
import logging
import re
import subprocess

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusal
from small_files import put

from contrastive_st.data import read_examples, read_texts
from contrastive_st.data.reading import columns, content, open_table, rows as reading_rows, table as reading_table
from contrastive_st.errors import InputError, one_line
from contrastive_st.search.document_readers import read_document


@pytest.fixture
def write(tmp_path):
    """Write a file of this name and give its path as a string."""

    def _write(name, content):
        path = tmp_path / name
        if isinstance(content, pa.Table):
            pq.write_table(content, path, row_group_size=2)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return _write


def rows(data):
    return [tuple(row.values()) for row in data]


def refused(source, *fragments, **arguments):
    """`read_texts` raises an InputError of one line that holds these fragments."""
    with refusal("", *fragments):
        read_texts(source, **arguments)


# ---- formats


def test_txt_is_a_sentence_a_line_whatever_its_punctuation(write):
    lines = ['Well, "quoted, once', "tab\tinside", " padded ", "no\u2028line end here", "x\x0cy"]
    data = read_texts(write("a.txt", "\r\n".join(lines)))
    assert data.column_names == ["text"]
    assert data.features["text"] == datasets.Value("string")
    assert data["text"][:] == [line.strip() for line in lines]


def test_a_byte_order_mark_is_dropped(write):
    assert rows(read_texts(write("a.txt", b"\xef\xbb\xbfone\ntwo\n"))) == [("one",), ("two",)]
    assert read_texts(write("a.csv", b"\xef\xbb\xbftext\none\n")).column_names == ["text"]
    assert rows(read_texts(write("a.jsonl", b'\xef\xbb\xbf{"text": "one"}\n'))) == [("one",)]
    for name, first, line in (("b.txt", "", "one"), ("b.jsonl", "", '{"text": "one"}'), ("b.csv", "text\n", "one")):
        joined = write(name, first + f"\ufeff{line}\n" * 2)
        assert rows(read_texts(joined, ["text"])) == [("one",), ("one",)]


@pytest.mark.parametrize("in_memory", [False, True])
def test_parquet_is_stripped_where_it_needs_it_and_stays_where_it_is(write, monkeypatch, in_memory):
    monkeypatch.setattr(reading_table, "IN_MEMORY", in_memory << 30)
    source = write("a.parquet", pa.table({"q": ["one ", "two"], "n": pa.array([1, 2])}))
    data = read_texts(source, ["n", "q"])
    assert rows(data) == [("1", "one"), ("2", "two")]
    assert data.features == {"n": datasets.Value("string"), "q": datasets.Value("string")}
    assert bool(data.cache_files) is not in_memory
    assert rows(read_texts(source, ["q"])) == [("one",), ("two",)]


def test_parquet_counts_rows_over_batches(write, monkeypatch, caplog):
    monkeypatch.setattr(columns, "CHUNK", 2)
    monkeypatch.setattr(reading_table, "IN_MEMORY", 0)
    source = write("a.parquet", pa.table({"q": ["a", "b", "c", "d", "", "f", ""]}))
    assert rows(read_texts(source)) == [("a",), ("b",), ("c",), ("d",), ("f",)]
    assert "2 of 7 rows" in caplog.text
    assert "row 5" in caplog.text


def test_a_parquet_file_written_anew_is_read_anew(write):
    assert rows(read_texts(write("a.parquet", pa.table({"q": ["old one"]})))) == [("old one",)]
    assert rows(read_texts(write("a.parquet", pa.table({"q": ["the new one"]})))) == [("the new one",)]


def test_chunks_join_in_order(write, monkeypatch):
    monkeypatch.setattr(columns, "CHUNK", 3)
    expected = [(f"s{i}", f"t{i}") for i in range(10)]
    content = "anchor,positive\n" + "".join(f"{a},{b}\n" for a, b in expected)
    for name, encoding in (("a.csv", "utf-8"), ("b.csv", "utf-16")):  # by Arrow, and row by row
        assert rows(read_texts(write(name, content.encode(encoding)))) == expected


def test_a_long_cell_is_read_with_columns_too(write):
    csv.field_size_limit(131_072)  # as in a new process
    path = write("a.csv", "text,label\na,0\n" + "b" * 140_000 + ",1\n")
    assert len(list(open_table(path, columns=["text", "label"]))) == 2


def test_a_column_of_folders_that_is_in_the_files_too_is_one(tmp_path):
    table = open_table(put(tmp_path, "d", {"label=yes": {"a.csv": "text,label\na b,no\n"}}))
    assert (table.names, [row.cells for row in table]) == (["text", "label"], [{"text": "a b", "label": "yes"}])


def test_a_name_that_is_no_file_is_asked_of_the_hub(monkeypatch):
    asked = []

    def load_dataset(*args, **kwargs):
        asked.append((args, kwargs))
        table = {"label": [0, 1, 1], "q": ["one", " two", ""], "a": ["x", "y", "z"]}
        return datasets.Dataset.from_dict(table)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert rows(read_texts("owner/name", split="test")) == [("one", "x"), ("two", "y")]
    assert rows(read_texts("owner/name:config", ["a", "label"])) == [("x", "0"), ("y", "1"), ("z", "1")]
    assert asked[0] == (("owner/name", None), {"split": "test"})
    assert asked[1] == (("owner/name", "config"), {"split": "train"})


# ---- columns


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_columns_by_name_or_position_in_the_order_wanted(tmp_path, name):
    source = str(put(tmp_path, name, [{column: f"{column[-1]}{i}" for column in ("text", "y", "z")} for i in (1, 2)]))
    assert rows(read_texts(source, ["z", "text"])) == [("z1", "t1"), ("z2", "t2")]
    assert rows(read_texts(source, [2, "y"])) == [("z1", "y1"), ("z2", "y2")]
    assert rows(read_texts(source, ["1"])) == [("y1",), ("y2",)]
    assert rows(read_texts(source, "y")) == [("y1",), ("y2",)]


def test_a_column_named_by_a_digit_goes_before_a_position(write):
    assert rows(read_texts(write("a.csv", "1,0\none,nought\n"), ["0"], header=True)) == [("nought",)]


@pytest.mark.parametrize("column", ["c", 2, -1])
def test_an_unknown_column_is_told_with_those_there_are(write, column):
    refused(write("a.csv", "a,b\n1,2\n"), "a.csv", repr(str(column)), "a, b", columns=[column], header=True)


def test_other_faults_of_columns(write):
    source = write("a.csv", "a,b\n1,2\n")
    refused(source, "twice", "'a'", columns=["a", 0])
    refused(source, "no column", "a, b", columns=[], header=True)
    refused(write("c.parquet", pa.Table.from_arrays([["1"], ["2"]], ["text", "text"])), "two columns are named 'text'")
    refused(write("a.txt", "one\n"), "'label'", "text", columns=["label"])
    refused(write("a.jsonl", '{"id": 1}\n'), "no column of text", "id")
    refused(write("a.parquet", pa.table({"id": [1]})), "no column of text", "id")
    refused(write("b.parquet", pa.table({"v": [[1]]})), "'v'", "list", columns=["v"])
    refused(write("b.jsonl", '{"v": "a"}\n{"v": [1]}\n'), "line 2", "'v'", columns=["v"])


# ---- blank cells


BLANKS = {
    "a.txt": "one\n \ntwo\n\n",
    "a.csv": 'text,b\none,x\n,y\n  ,"z"\ntwo,x\n',
    "b.csv": "text\none\n\ntwo\n",
    "a.tsv": "text\tb\none\tx\n\ty\ntwo\tx\n",
    "a.jsonl": '{"a": "one"}\n{"a": null}\n{"b": 1}\n{"a": " "}\n{"a": "two"}\n',
    "a.parquet": pa.table({"a": ["one", None, "\t", "two"]}),
}


@pytest.mark.parametrize(
    ("name", "dropped", "where"),
    [
        ("a.txt", "2 of 4 lines", "line 2"),
        ("a.csv", "2 of 4 rows", "row 3"),
        ("b.csv", "1 of 3 rows", "row 3"),
        ("a.tsv", "1 of 3 rows", "row 3"),
        ("a.jsonl", "3 of 5 lines", "line 2"),
        ("a.parquet", "2 of 4 rows", "row 2"),
    ],
)
def test_blank_cells_drop_their_row_with_one_warning_or_are_refused(write, caplog, name, dropped, where):
    source = write(name, BLANKS[name])
    with caplog.at_level(logging.WARNING, logger=reading_rows.__name__):
        data = read_texts(source, [0])
    assert rows(data) == [("one",), ("two",)]
    (record,) = (record for record in caplog.records if record.name == reading_rows.__name__)
    assert dropped in record.getMessage()
    assert where in record.getMessage()
    refused(source, name, where, columns=[0], strict=True)


def test_only_wanted_columns_are_looked_at_for_blanks(write, caplog):
    source = write("a.csv", "a,b\none,\ntwo,x\n")
    assert rows(read_texts(source, ["a"], strict=True)) == [("one",), ("two",)]
    assert not caplog.records


def test_nothing_left_is_refused(write):
    refused(write("a.txt", " \n\t\n"), "all 2 lines")
    refused(write("a.csv", "a,b\n,x\n,y\n"), "all 2 rows", columns=["a", "b"])
    refused(write("a.parquet", pa.table({"a": ["", " "]})), "all 2 rows")


# ---- bad input


def test_what_is_not_there_or_not_a_file(write, tmp_path, monkeypatch):
    def load_dataset(*args, **kwargs):
        raise ConnectionError("no route to the Hub\nsecond line")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    refused("./gone", "./gone", "no such file")
    with pytest.raises(ConnectionError) as caught:
        read_texts("owner/gone")
    assert one_line(caught.value).startswith("owner/gone is not a file")
    refused(str(tmp_path), "is a folder")
    refused(write("plain", "x"), "no extension", ".txt")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.json", "a.jsonl", "a.parquet"])
def test_empty_files(write, name):
    refused(write(name, ""), name, "empty")


def test_a_packed_file_with_nothing_in_it_is_empty(write):
    refused(write("a.csv.gz", gzip.compress(b"")), "a.csv.gz", "the file is empty")


def test_files_without_rows(write):
    refused(write("a.csv", "text,b\n"), "no rows")
    refused(write("b.csv", "\na,b\n"), "row 1", "names of the columns", header=True)
    refused(write("a.json", "[]"), "no objects")
    refused(write("a.parquet", pa.table({"a": pa.array([], pa.string())})), "no rows")
    schema, sink = pa.schema([("a", pa.string())]), pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    refused(write("a.arrow", sink.getvalue().to_pybytes()), "no rows")


def test_broken_quotes(write):
    refused(write("a.csv", 'text,b\nx,y\n"never closed,y\nx,y\n'), "row 3", "quote")
    refused(write("b.csv", 'text,b\nx,"one" more\n'), "row 2", "quote")
    refused(write("c.csv", 'text,b\n"a,"b,x\n'), "row 2", "quote", columns=["text"])


@pytest.mark.parametrize(
    ("encoding", "texts"),
    [
        ("cp1254", ["Bisiklet lastiğini nasıl tamir ederim", "Kütüphanede nerede çalışabilirim"]),
        ("cp1255", ["איך מתקנים תקר באופניים", "כמה פעמים צריך להשקות עגבניות"]),
        ("cp1256", ["كيف أصلح إطار الدراجة", "متى أقلم أشجار التفاح"]),
        ("cp1257", ["Kaip sutaisyti dviračio padangą", "Kada genėti obelis šiaurėje, ar kiekvieną mėnesį"]),
        ("cp874", ["ซ่อมยางจักรยานอย่างไร", "ตัดแต่งต้นแอปเปิลเมื่อไร"]),
        ("cp932", ["これは質問です", "これは答えです"]),
        ("cp1250", ["Jak naprawić dziurawą dętkę?", "Kiedy przycinać jabłonie?"]),
        ("cp1252", ["Où est le café ?", "Größe", "¿Dónde está?", "Blåbær"]),
        ("cp1252", [f"It’s “number {i}” of 50 – really…" for i in range(50)]),
        ("cp1252", [f"It costs £{i} or {i}½" for i in range(50)]),
        ("cp1253", ["Πώς επισκευάζω ένα λάστιχο"]),
        ("koi8_r", ["Как починить велосипед?", "Когда обрезать яблони?"]),
        ("gb18030", ["如何修理自行车轮胎", "西红柿多久浇一次水？"]),
        ("big5", ["如何修理自行車輪胎", "今天天氣很好"]),
        ("cp949", ["자전거 타이어를 어떻게 고치나요"]),
    ],
)
def test_an_encoding_that_is_not_unicode_is_known_by_its_letters(write, caplog, encoding, texts):
    data = read_texts(write("a.csv", "\n".join(["text", *(f'"{text}"' for text in texts)]).encode(encoding)))
    assert data["text"][:] == texts
    assert f"not UTF-8: read as {codecs.lookup(encoding).name}" in caplog.text


def test_a_row_of_an_export_without_its_labels_is_refused(write):
    lists = '{"anchor": "a b", "positive": ["b c"], "labels": [1]}\n{"anchor": "a", "positive": ["b"]}\n'
    with refusal("a.jsonl, line 2 is not a row of lists of labeled texts as the first one is"):
        read_examples(write("a.jsonl", lists))


def test_a_scale_does_not_make_a_class_of_single_texts_a_score(write):
    _, roles = read_examples(write("a.csv", "text,label\na b,1\nc d,2\n"), scale=(0, 5))
    assert roles.kind == "labelled_texts"


def test_broken_json(write):
    refused(write("a.jsonl", '{"a": "x"}\n\n{"a": "y"\n'), "line 3", "JSON")
    refused(write("a.json", '[\n{"a": "x"},\n{"a" "y"}\n]'), "line 3", "JSON")
    refused(write("b.jsonl", '{"a": "x"}\n"y"\n'), "line 2", "not an object")
    refused(write("c.jsonl", '{"a": "x"}\n{"a": "\\ud83d"}\n'), "line 2", "surrogate")


@pytest.mark.parametrize(
    "name", ["a.txt", "a.csv", "a.tsv", "a.json", "a.jsonl", "a.parquet", "a.md", "a.html", "a.pdf"]
)
def test_a_file_of_ten_gigabytes_of_zeros_is_refused_at_the_door(tmp_path, name):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(10 << 30)  # sparse
    with pytest.raises((InputError, pa.ArrowException), match=r"bytes") as found:
        list(read_document(path, name) if name in ("a.md", "a.html", "a.pdf") else open_table(path))
    assert len(str(found.value).splitlines()) == 1


def test_a_list_of_json_is_read_as_a_whole_up_to_a_bound(write, monkeypatch):
    path = write("a.json", '[{"text": "one"}]')
    assert [row.cells for row in open_table(path)] == [{"text": "one"}]
    monkeypatch.setattr(content, "LARGEST_WHOLE", 16)
    with pytest.raises(InputError, match="bytes"):
        open_table(path)


def test_a_line_of_the_longest_length_is_read(write, monkeypatch):
    monkeypatch.setattr(content, "LONGEST_LINE", 5)
    assert [row.cells["text"] for row in open_table(write("a.txt", "four\nabcd\nabcd"))] == ["four", "abcd", "abcd"]
    with pytest.raises(InputError, match=r"a\.txt"):
        list(open_table(write("a.txt", "four\nabcde\n")))


def test_a_file_that_is_not_text_is_known_by_its_first_bytes(write):
    packed = gzip.compress(b"anchor,positive\na,b\n")
    for held, mend in ((packed, "rename it to .*a.csv.gz"), (b"PK\x03\x04" + packed, "save it as csv")):
        path = write("a.csv", held)
        with pytest.raises(InputError, match=mend):
            read_texts(path)


def test_the_command_for_a_compressed_table_unpacks_it(write):
    path = write("a.csv.gz", gzip.compress(b"anchor,positive\na,b\nanchor,positive\nc,d\n"))
    with pytest.raises(InputError) as error:
        read_examples(path)
    subprocess.run(re.search("run (.*?);", str(error.value))[1], shell=True, check=True)
    assert len(read_examples(path.replace(".csv.gz", ".new.csv"))[0]) == 2


@pytest.mark.parametrize(
    "files",
    [
        {"a.csv": "anchor,positive\na,b\nbad row\nc,d\n"},
        {"a.csv.gz": "anchor,positive\na,b\nbad\n", "b.csv": "anchor,positive\nc,d\n"},
    ],
)
@pytest.mark.parametrize("name", ["d", "d/*.csv*"])
def test_what_a_command_writes_takes_the_place_of_a_file_in_a_folder(tmp_path, name, files):
    put(tmp_path, "d", files)
    with pytest.raises(InputError) as error:
        read_examples(str(tmp_path / name))
    subprocess.run(re.search("run (.* > .*csv)", str(error.value))[1], shell=True, check=True)
    assert len(read_examples(str(tmp_path / name))[0]) == 2
