"""Corpora are read as streams, cut up, and named where they are faulty."""

import json
import math
import re
import zipfile
from types import SimpleNamespace

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_files import put

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.documents import by_file, cut, open_corpus, texts_corpus
from contrastive_st.search.opening import open_index
from contrastive_st.search.report import Report
from contrastive_st.search.splitting import sentences, split
from contrastive_st.text_format import reading_as

ROWS = [{"text": ' one, "two" ', "year": 1999, "note": "n"}, {"text": "three", "year": 2004, "note": ""}]


def write(folder, name):
    path = folder / name
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist([{**row, "vector": [1.0]} for row in ROWS]), path)
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    elif name.endswith("json"):
        path.write_text(json.dumps(ROWS))
    elif name.endswith("tsv"):
        path.write_text('text\tyear\tnote\n one, "two" \t1999\tn\nthree\t2004\t\n')
    else:
        path.write_text('text,year,note\n" one, ""two"" ",1999,n\nthree,2004,\n')
    return str(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.json", "a.tsv", "a.csv"])
def test_every_format_gives_the_same_documents(tmp_path, name):
    corpus = open_corpus(write(tmp_path, name))
    assert [document.text for document in corpus.read()] == ['one, "two"', "three"]
    lists = {"vector": [1.0]} if name == "a.parquet" else {}
    empty = {} if name in ("a.tsv", "a.csv") else {"note": ""}  # where "" is a value, and null another
    wanted = [{"year": 1999, "note": "n", **lists}, {"year": 2004, **empty, **lists}]
    assert [document.metadata for document in corpus.read()] == wanted
    chosen = open_corpus(write(tmp_path, name), column="note", metadata=["year"])
    assert [(document.text, document.metadata) for document in chosen.read()] == [("n", {"year": 1999})]
    assert corpus.fingerprint != chosen.fingerprint
    with pytest.raises(InputError, match="'x'"):
        list(open_corpus(write(tmp_path, name), metadata=["x"]).read())


def test_several_columns_are_one_text_with_their_names(tmp_path):
    path = tmp_path / "talks.csv"
    path.write_text("id,title,body,year\n1,Tides, The moon pulls. ,1999\n2,,Rain falls.,2004\n3,,,2005\n")
    read = [(one.text, one.metadata) for one in open_corpus(str(path), column=["title", "body"]).read()]
    assert read == [("title: Tides\nbody: The moon pulls.", {"id": 1, "year": 1999}),
                    ("body: Rain falls.", {"id": 2, "year": 2004})]  # fmt: skip
    with pytest.raises(InputError, match="'bod'"):
        list(open_corpus(str(path), column=["title", "bod"]).read())
    path.write_text("sku,remark\n" + "".join(f"AB-{i:030d},rusty {i}\n" for i in range(9)))
    with pytest.raises(InputError, match="--columns remark"):  # an identifier is not suggested as a text
        list(open_corpus(str(path)).read())


def test_a_csv_with_blanks_after_its_commas(tmp_path):
    (tmp_path / "a.csv").write_text('text, year , draft\ncats are here, 1999, true\n"dogs, too", 2004 , "no, not"\n')
    corpus, report = open_corpus(str(tmp_path / "a.csv")), Report()
    assert [(document.text, document.metadata) for document in corpus.read(report)] == [
        ("cats are here", {"year": 1999, "draft": "true"}), ("dogs, too", {"year": 2004, "draft": "no, not"}),
    ]  # fmt: skip
    assert "blanks after a delimiter are not part of the cells: " in report.lines()[0]


def test_lists_and_objects_in_a_csv(tmp_path):
    """Of a column where every cell is one; a note is text, though the first begins like a list."""
    (tmp_path / "a.csv").write_text(
        "text,tags,sizes,made,note\n"
        'cats are here,"{a,""b, c""}",[1],"{""by"": {""name"": ""Ada""}}",[1]\n'
        'dogs too,{},"[2, 3]",,see [1]\n'
        'and birds,,,"{""by"": null}",\n'
    )
    corpus, report = open_corpus(str(tmp_path / "a.csv")), Report()
    assert [document.metadata for document in corpus.read(report)] == [
        {"tags": ["a", "b, c"], "sizes": [1], "made": {"by": {"name": "Ada"}}, "note": "[1]"},
        {"tags": [], "sizes": [2, 3], "note": "see [1]"},
        {"made": {"by": None}},
    ]
    (line,) = report.lines()
    assert "tags list of text, sizes list of number, made object, note text; --types" in line
    chosen = open_corpus(str(tmp_path / "a.csv"), metadata=["tags"])
    assert [document.metadata["tags"] for document in chosen.read()] == [["a", "b, c"], [], None]


def test_cells_that_metadata_cannot_have_are_counted_durations_are_seconds_and_maps_are_objects(tmp_path):
    table = pa.table({
        "text": ["one", "two"], "length": pa.array([1500, None], pa.duration("ms")), "note": ["n", "x" * 2000],
        "image": [b"1", b"2"], "by": pa.array([[("name", "Ada")], None], pa.map_(pa.string(), pa.string())),
        "odd": pa.array([[({"k": 1}, 2)], None], pa.map_(pa.struct({"k": pa.int64()}), pa.int64())),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    report = Report()
    kept = [document.metadata for document in open_corpus(str(tmp_path / "a.parquet")).read(report)]
    assert kept == [{"length": 1.5, "note": "n", "by": {"name": "Ada"}, "odd": [[{"k": 1}, 2]]}, {}]
    assert report.lines() == [
        "not kept as metadata, too long: note of 1 row (--metadata COLUMN keeps a column)",
        "not kept as metadata, of a type that metadata cannot have: image of 2 rows",
    ]
    chosen = open_corpus(str(tmp_path / "a.parquet"), metadata=["image"])
    with pytest.raises(InputError, match=r"a\.parquet"):
        list(chosen.read())


def test_the_splits_that_are_not_read_are_named(tmp_path):
    data = datasets.Dataset.from_list([{"text": "one"}])
    datasets.DatasetDict(train=data, test=data, dev=data).save_to_disk(str(tmp_path / "saved"))
    data.save_to_disk(str(tmp_path / "alone"))
    for folder, lines in (
        ("saved", ["split train alone is read (--hub_split reads another: test, dev)"]),
        ("alone", []),
    ):
        report = Report()
        assert len(list(open_corpus(str(tmp_path / folder)).read(report))) == 1
        assert [line.rpartition(": ")[0] for line in report.lines()] == lines


def test_lines_and_folders(tmp_path):
    (tmp_path / "b.txt").write_text("last\n")
    (tmp_path / "a.txt").write_text("\ufefffirst\n\n  \nsecond\n", encoding="utf-8")
    corpus = open_corpus(str(tmp_path), lines=True)
    assert [(document.text, document.metadata["file"]) for document in corpus.read()] == [
        ("first", "a.txt"), ("second", "a.txt"), ("last", "b.txt"),
    ]  # fmt: skip
    assert corpus.rows == 5
    mark = corpus.fingerprint
    (tmp_path / "b.txt").write_text("Last\n")
    assert open_corpus(str(tmp_path), lines=True).fingerprint != mark


def test_a_data_set_of_the_hub_is_known_by_its_commit(monkeypatch):
    """Seen before: a data set that had changed on the Hub counted as the one that was indexed."""
    asked, commit = [], "c1"

    def load_dataset(name, config=None, **options):
        asked.append((name, config, options))
        return [{"text": "of " + options["revision"]}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(huggingface_hub, "dataset_info", lambda name: SimpleNamespace(sha=commit))
    first, again = open_corpus("alice/talks:en", hub_split="dev"), open_corpus("alice/talks:en", hub_split="dev")
    commit = "c2"
    changed = open_corpus("alice/talks:en", hub_split="dev")
    assert first.fingerprint == again.fingerprint != changed.fingerprint
    assert [document.text for document in first.read()] == ["of c1"]  # and not what is there by then
    assert asked == [("alice/talks", "en", {"split": "dev", "streaming": True, "revision": "c1"})]


def test_a_stream_is_not_read_as_a_whole(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' + '{"text": "more"}\n' * 10 + "{broken\n")
    documents = open_corpus(str(path)).read()
    assert next(documents).text == "good"
    with pytest.raises(InputError, match="invalid"):
        list(documents)


@pytest.mark.parametrize("source", ["no.csv", "./nothing.txt", "-", "/dev/null"])
def test_what_is_not_there_and_devices_are_no_corpora(source):
    with pytest.raises(InputError, match=r"no such file|save"):
        open_corpus(source)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"title,body\nx,y\n", "which column"),
        ("a.csv", b"text,b\nx\n", "row 2: 1 cells where the header has 2"),
        ("a.csv", b'text\n"x\n', "close every quote"),
        ("a.txt", b" \n", "there is nothing to index; left out: 1 blank"),
        ("a.jsonl", b"3", "is not an object"),
        ("a.jsonl", b'{"text": 3}', "holds int"),
        ("a.exe", b"x", "no reader"),
        ("a.txt", b"", "the file is empty"),
    ],
)
def test_faults_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=re.escape(message)):
        list(open_corpus(str(tmp_path / name)).read())


def test_a_missing_text_is_blank_and_a_missing_value_is_null(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tplace\nOne.\tNA\nNA\tx\n\\N\ty\nTwo.\t\\N\n")
    report = Report()
    documents = list(open_corpus(tmp_path / "a.tsv").read(report))
    assert [document.text for document in documents] == ["One.", "Two."]
    assert [document.metadata for document in documents] == [{}, {}]
    assert report.lines() == [
        f"left out: 2 blank: {tmp_path / 'a.tsv'}, row 3; {tmp_path / 'a.tsv'}, row 4",
        "'NA' counts as null; JSON and Parquet can hold it as text: column place",
        "types of the metadata: place text; --types COLUMN=TYPE sets another",
    ]
    assert [one.metadata for one in open_corpus(tmp_path / "a.tsv", metadata=[]).read(report)] == [{}, {}]
    assert not report.types
    (tmp_path / "a.jsonl").write_text('{"text": "One.", "place": "NA"}\n')  # where null is not written in words
    assert next(open_corpus(tmp_path / "a.jsonl").read()).metadata == {"place": "NA"}


def test_the_types_of_columns_are_decided_over_the_whole_file(tmp_path):
    path = tmp_path / "a.csv"
    rows = ["text,version,zip,price,day,draft,size", "One.,1.1,1067,12.5,2024-05-01 00:00:00,true,1"]
    rows += [f"Some {i}.,1.2,10115,3.0,2024-05-02 09:30,false,2" for i in range(300)]
    path.write_text("\n".join([*rows, "Two.,1.10,01067,3.25,2024-05-03,true,two"]) + "\n")
    report = Report()
    first, *_, last = [document.metadata for document in open_corpus(path).read(report)]
    assert first == {"version": "1.1", "zip": "1067", "price": 12.5, "day": "2024-05-01", "draft": True, "size": "1"}
    assert (last["version"], last["zip"]) == ("1.10", "01067")
    line = "version text (because of '1.10'), zip text (because of '01067'), price number, day date, draft boolean"
    assert line in report.lines()[0]
    with pytest.raises(InputError, match=r"a\.csv, row 303: column 'size': 'two' is not a number"):
        list(open_corpus(path, types={"size": "number"}).read())
    recorded = {"draft": "text", "version": "number", "size": "number"}
    *_, last = open_corpus(path, types={"zip": "number", "price": "text"}, former_types=recorded).read()
    kept = {"version": 1.1, "draft": "true", "size": "two"}  # as in the collection, where each cell can be that
    assert last.metadata == {**kept, "zip": 1067, "price": "3.25", "day": "2024-05-03"}
    (tmp_path / "a.jsonl").write_text('{"text": "One.", "version": "1.10", "draft": true, "size": "two"}\n')
    assert next(open_corpus(tmp_path / "a.jsonl", former_types=recorded).read(report)).metadata == kept
    assert "type of the collection (--types sets another): column version; column draft" in report.lines()[0]
    (tmp_path / "b.csv").write_text("text,version\nOne.,7\nTwo.,007\n")  # the zeros would be lost
    report = Report()
    codes = [document.metadata for document in open_corpus(tmp_path / "b.csv", former_types=recorded).read(report)]
    assert codes == [{"version": "7"}, {"version": "007"}]
    assert "version text (because of '007')" in report.lines()[0]
    (tmp_path / "b.jsonl").write_text('{"text": "One.", "version": "007"}\n')
    assert next(open_corpus(tmp_path / "b.jsonl", former_types=recorded).read()).metadata == {"version": "007"}


def test_a_decimal_comma_is_one_in_columns_of_numbers_alone(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id;text;size;price;code\n1,5;3,5;0,99;1.234;2,5\n1.5;Two.;-1,5;0,99;x\n")
    with reading_as(decimal="comma"):
        first, last = open_corpus(path).read()
        with pytest.raises(InputError, match=r"row 2: column 'price': '1.234' is not a number"):
            list(open_corpus(path, types={"price": "number"}).read())
    assert (first.text, first.ids, last.ids) == ("3,5", {"id": "1,5"}, {"id": "1.5"})
    assert first.metadata == {"id": "1,5", "size": 0.99, "price": "1.234", "code": "2,5"}
    assert last.metadata == {"id": "1.5", "size": -1.5, "price": "0,99", "code": "x"}


@pytest.mark.parametrize("kind", ["saved", "jsonl", "folder"])
def test_every_kind_of_source_knows_the_types_that_were_given(tmp_path, kind):
    rows, path = [{"text": "a b", "code": "2024-01-01"}, {"text": "c d", "code": "2024-02-02"}], tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if kind == "saved":
        datasets.Dataset.from_list(rows).save_to_disk(str(path := tmp_path / "saved"))
    corpus = open_corpus(tmp_path if kind == "folder" else path, types={"code": "text"})
    assert len(list(corpus.read())) == 2
    assert corpus.types == {"code": "text"}


def test_sentences_and_passages():
    text = (
        'Dr. A. Smith went to St. Ives (1999). He paid 3.50 for it! "Why?" asked J. Doe, e.g. Ann.\n\nNew one。次の文。'
    )
    assert sentences(text) == [
        "Dr. A. Smith went to St. Ives (1999).",
        "He paid 3.50 for it!",
        '"Why?" asked J. Doe, e.g. Ann.',
        "New one。",
        "次の文。",
    ]
    assert split("a b c d e. F g.", "passages", words=2) == ["a b", "c d", "e.", "F g."]
    chinese, thai = "".join(f"这是第{number}句，很短。" for number in range(99)), "ภาษาไทย" * 99
    for dense in (chinese, thai):
        passages = split(dense, "passages")
        assert "".join(passages) == dense
        assert 80 <= min(map(len, passages[:-1])) <= max(map(len, passages)) <= 110


@pytest.mark.parametrize(
    "parts",
    [
        ['He said "Go."', "Then he left."],
        ["他说：「你好。」", "然后走了。"],
        ["真的吗？！", "是的……好。。。", "完"],
        ["「そうだ。」、と言った。", "次。"],
        ["В 1990 г. население, и т. д. выросло.", "Это всё."],
        ["etc. à Paris.", "Öl ist ca. öfter da.", "Ärzte."],
        ["هل أنت بخير؟", "نعم."],
        ["यह एक वाक्य है।", "यह दूसरा है।"],
        ["ეს არის.", "ეს მეორეა."],
        ["¿Qué?", "¡No!", "Sí."],
    ],
    ids=lambda parts: parts[0],
)
def test_sentences_of_other_scripts(parts):
    blank = "" if parts[0][-1] in "。！」" or "……" in parts[1] else " "
    assert sentences(blank.join(parts)) == parts
    assert len(split("." * 100_000, "passages")) == 1  # at once
    with pytest.raises(InputError, match="'words'"):
        split("x", "words")


def test_parts():
    corpus = texts_corpus("c", ["One. Two.", "Three."], [{"k": 1}, {"k": 2}])
    apart = list(cut(corpus, "sentences").read())
    assert [(d.text, d.metadata) for d in apart] == [
        ("One.", {"k": 1, "(document)": 0, "(part)": 0}),
        ("Two.", {"k": 1, "(document)": 0, "(part)": 1}),
        ("Three.", {"k": 2, "(document)": 1, "(part)": 0}),
    ]
    assert corpus.fingerprint != cut(corpus, "sentences").fingerprint


RUSSIAN = "Прилив приходит в полдень, и лодки возвращаются в гавань. Рыбаки чинят сети на берегу. " * 3


@pytest.mark.parametrize(
    ("name", "text", "encoding", "read_as"),
    [
        ("a.rst", "Море\n====\n\n{}\n", "cp1251", "cp1251"),
        ("a.org", "* Море\n{}\n", "koi8-r", "koi8-r"),
        ("a.tex", "\\documentclass{{article}}\n\\begin{{document}}\n{}\n\\end{{document}}\n", "utf-16", "utf-16"),
        ("a.fb2", '<?xml version="1.0" encoding="windows-1251"?><FictionBook xmlns="http://www.gribuser.ru/xml/'
         'fictionbook/2.0"><body><section><p>{}</p></section></body></FictionBook>', "cp1251", "windows-1251"),
        ("a.html", '<meta charset="windows-1251"><p>{}', "cp1251", "windows-1251"),
        ("a.txt", "{}", "cp1251", "cp1251"),
    ],
)  # fmt: skip
def test_documents_in_other_encodings_are_read_and_named(tmp_path, name, text, encoding, read_as):
    if name[2:] not in ("html", "txt"):
        pytest.importorskip("kreuzberg")
    (tmp_path / name).write_bytes(text.format(RUSSIAN).encode(encoding))
    report = Report()
    (document,) = open_corpus(str(tmp_path), lines=False).read(report)
    assert RUSSIAN.strip() in document.text
    assert any(line.startswith(f"not UTF-8: read as {read_as}") and name in line for line in report.lines())
    assert set(document.metadata) <= {"file", "title"}


def test_a_footnote_of_markdown_is_text(tmp_path):
    pytest.importorskip("markdown_it")
    (tmp_path / "a.md").write_text("The [tide][1] rises[^1].\n\n[^1]: twice\n\n[1]: http://x\n")
    (document,) = open_corpus(str(tmp_path / "a.md")).read()
    assert document.text == "The tide rises[^1].\n\n[^1]: twice"
    (tmp_path / "a.md").write_text(
        "    [^1]: code\n\n* one[^2]\n\n  [^2]: in-list\n\n> [^3]: in-quote\n\n```\n[^4]: x\n```\n"
    )
    (document,) = open_corpus(str(tmp_path / "a.md")).read()
    assert document.text.split("\n\n") == ["[^1]: code", "one[^2]", "[^2]: in-list", "[^3]: in-quote", "[^4]: x"]


def test_footnotes_that_are_not_read_are_said_and_bytes_that_are_no_text_are_unreadable(tmp_path):
    pytest.importorskip("kreuzberg")
    (tmp_path / "a.rst").write_text("Tides\n=====\n\nThe tide [1]_ rises.\n\n.. [1] A footnote.\n")
    (tmp_path / "b.rst").write_text("Tides\n=====\n\nThe tide rises.\n")
    (tmp_path / "c.rtf").write_bytes(bytes(range(256)) * 20)
    report = Report()
    assert len(list(open_corpus(str(tmp_path)).read(report))) == 2
    assert "footnotes are not read: a.rst" in report.lines()
    assert "left out: 1 unreadable: c.rtf is not a .rtf file" in report.lines()


_OF_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_OF_ODF = "urn:oasis:names:tc:opendocument:xmlns"
OFFICE = {  # parts of an archive, and how the text stands in it
    "docx": {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Default Extension="xml" ContentType="{_OF_WORD}"/></Types>',
        "word/document.xml": '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        "<w:body>{}</w:body></w:document>",
    },
    "odt": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f'<office:document-content xmlns:office="{_OF_ODF}:office:1.0" xmlns:text="{_OF_ODF}:text:1.0" '
        f'xmlns:table="{_OF_ODF}:table:1.0"><office:body><office:text>{{}}</office:text></office:body>'
        "</office:document-content>",
    },
}
WORDS = "<w:p><w:r><w:t>Name</w:t><w:tab/><w:t>John</w:t><w:cr/><w:t>Oslo</w:t>{}</w:r></w:p>"
BOX = "<w:pict><w:txbxContent><w:p><w:r><w:t>inside</w:t></w:r></w:p></w:txbxContent></w:pict>"
BLANKS = '<text:p>Name<text:s text:c="3"/>John<text:tab/>Oslo</text:p>'
NBFORMAT_3 = (
    '{"nbformat": 3, "metadata": {}, "worksheets": [{"cells": [{"cell_type": "markdown", "source": "The sea"}, '
    '{"cell_type": "code", "input": ["1 + 1"], "outputs": []}]}]}'
)
CELL = "<table:table><table:table-row><table:table-cell>{}</table:table-cell></table:table-row></table:table>"


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("a.docx", WORDS.format(""), ["Name", "John", "Oslo"], None),
        ("a.docx", WORDS.format(BOX), ["inside"], "of a paragraph with a text box, the text of the box alone is read"),
        ("a.odt", BLANKS, ["Name", "John", "Oslo"], None),
        ("a.odt", CELL.format("<text:p>harbour</text:p><text:p>wall</text:p>"), ["harbour", "wall"], None),
        ("a.html", "<select><option>Red</option><option>Green</option></select>", ["Red", "Green"], None),
        ("a.ipynb", NBFORMAT_3, ["The", "sea", "1", "+", "1"], None),
    ],
)
def test_words_are_not_joined_and_what_is_not_read_is_said(tmp_path, name, text, words, said):
    path = tmp_path / name
    if not name.endswith("html"):
        pytest.importorskip("kreuzberg")
    if path.suffix[1:] not in OFFICE:
        path.write_text(text)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for part, held in OFFICE[path.suffix[1:]].items():
                archive.writestr(part, held.replace("{}", text))
    report = Report()
    (document,) = open_corpus(str(tmp_path)).read(report)
    assert document.text.split() == words
    assert [line for line in report.lines() if "text box" in line] == ([f"{said}: {name}"] if said else [])


def test_the_split_of_a_folder_of_files_is_asked_for(tmp_path):
    (tmp_path / "test-0.csv").write_text("text\none\n")
    with pytest.raises(InputError, match="--hub_split"):
        open_corpus(str(tmp_path), hub_split="test")


def test_a_path_is_one_corpus_however_it_is_written(tmp_path, monkeypatch):
    (tmp_path / "a" / "sub").mkdir(parents=True)
    (tmp_path / "a" / "rows.csv").write_text("text,n\nOn tides,1\nOn rain,2\n")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "other.csv").symlink_to(tmp_path / "a" / "rows.csv")
    monkeypatch.chdir(tmp_path / "a")
    for spellings in (
        ("rows.csv", "./rows.csv", "sub/../rows.csv", "../a/rows.csv", "../link/rows.csv", "../other.csv"),
        (".", "sub/..", "../a", "../link", str(tmp_path / "link")),
        ("*.csv", "../link/*.csv"),
    ):
        corpora = [open_corpus(source) for source in spellings]
        assert len({corpus.name for corpus in corpora}) == len({corpus.fingerprint for corpus in corpora}) == 1
        ids = [tuple(document.id for document in by_file(corpus).read()) for corpus in corpora]
        assert len(set(ids)) == 1


def test_a_column_in_the_names_of_folders_and_infinite_numbers(tmp_path):
    for label, size in (("yes", 1.0), ("no%20no", math.inf)):
        put(tmp_path, f"label={label}/a.parquet", [{"text": f"It is {label}.", "size": size}])
    report = Report()
    found = [document.metadata for document in open_corpus(str(tmp_path)).read(report)]
    assert [(own["label"], own.get("size")) for own in found] == [("no no", None), ("yes", 1.0)]
    assert "an infinite number counts as null: column size" in report.lines()
    assert not any("label" in own.metadata for own in open_corpus(str(tmp_path), metadata=["size"]).read())


def test_the_types_that_are_printed_are_those_that_are_recorded(tmp_path, capsys):
    put(tmp_path, "all/year=2020/a.parquet", [{"text": "a cat", "price": 1.5, "day": "2024-05-01"}])
    put(tmp_path, "all/year=2021/a.csv", "text,price,tags\na tree,3.50,[1]\n")
    put(tmp_path, "all/year=2022/a.jsonl", '{"text": "a bush", "price": 4}\n')
    several = {"price": "mixed", "tags": "list of number", "year": "number", "day": "date"}
    for source, shown in (("all", several), ("all/year=2020", {"price": "number", "day": "date"})):
        shards = tmp_path / f"{len(shown)}"
        assert main(["index", str(tmp_path / source), "--types", "tags=list", "--output", str(shards)]) == 0
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("types")]
        found = re.sub(r"types of the metadata: | \(because of '3.50'\)|; --types.*", "", line).split(", ")
        assert dict(one.split(" ", 1) for one in found) == shown
        assert open_index(str(shards)).types() == {**shown, "file": "text"}
    assert open_index(str(tmp_path / "4")).count("year>=2021") == 2


def test_a_row_keeps_its_own_cells_below_a_folder_named_after_a_column(tmp_path):
    put(tmp_path, "text=en/a.csv", "text,year\nthe sea,1999\n")
    ((one, metadata),) = [(document.text, document.metadata) for document in open_corpus(str(tmp_path)).read()]
    assert (one, metadata["year"]) == ("the sea", 1999)
