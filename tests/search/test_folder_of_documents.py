"""A folder as people have it: what is in it can be searched, and what is left out is said, with the reason."""

import contextlib
import io
import json

import pytest
from made_documents import write_folder, xlsx
from refusals import refused, told

from conftest import save_both
from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.document_readers import of_html
from contrastive_st.search.documents import open_corpus
from contrastive_st.search.report import LeftOut, Report
from contrastive_st.search.splitting import is_list

WANTED = {  # words that are near a document, by its file
    "minutes.docx": "board met harbour", "talk.pptx": "lighthouses coast", "ports.xlsx": "tidal range Brest",
    "letter.odt": "orchard bloom aunt", "book.epub": "seals birth autumn", "old.rtf": "railway mine closed",
    "guide.rst": "bowline knots loop", "plan.org": "plant beans garden", "rain.ipynb": "rainfall month",
    "report.pdf": "salmon river", "invoice.eml": "Käse geliefert Mengen",
    "bread.md": "sourdough night bake", "glass.md": "glass blown sand",
    "rus.html": "Поезд идёт север", "jap.html": "東京の天気", "fra.html": "café fermé midi Nîmes",
    "open.html": "skates glide thick ice", "shell.txt": "backup server", "notes/wood.txt": "oak ships pine",
    "notes/wrapped.txt": "copper wires electricity", "list.txt": "dog pier",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("folder")
    write_folder(path)
    return path


@pytest.fixture(scope="module")
def indexed(folder, tmp_path_factory):
    shards, said = str(tmp_path_factory.mktemp("out") / "shards"), io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["index", str(folder), "--output", shards]) == 0
    return shards, said.getvalue()


@pytest.mark.parametrize("file", WANTED)
def test_what_is_in_the_folder_is_found_again(indexed, capsys, file):
    assert main(["search", WANTED[file], "--store", indexed[0], "-k", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["file"] == file


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("2 hidden", [".git", ".hidden.md"]),
        ("1 linked folders", ["linked"]),
        ("2 of an unsupported type", ["photo.jpg", "tune.mp3"]),
        ("6 unreadable", ["broken.docx", "broken.jsonl", "broken.pdf", "empty.md", "faq.csv", "gone.md"]),
        ("2 encrypted", ["locked.docx", "locked.pdf"]),
        ("2 blank", ["blank.html", "rows.jsonl, line 2"]),
        ("3 pages without text", ["report.pdf, page 2", "scan.pdf, page 1", "scan.pdf, page 2"]),
        ("1 without a token that the model knows", ["list.txt, line 3"]),
    ],
)
def test_what_is_left_out_is_said_with_the_reason(indexed, reason, names):
    (line,) = [line for line in indexed[1].splitlines() if line.startswith(f"left out: {reason}")]
    assert all(name in line for name in names), line


def metadata(folder, file):
    found = [document for document in open_corpus(str(folder)).read() if file in document.where]
    return [document.metadata for document in found]


def test_what_documents_say_of_themselves_is_metadata(folder):
    facts = {
        "title": "On bread",
        "author": "Ann Lee",
        "date": "2024-03-01",
        "tags": ["food", "wheat"],
        "file": "bread.md",
    }
    assert metadata(folder, "bread.md") == [facts]
    assert metadata(folder, "open.html") == [{"author": "Bo Ek", "keywords": ["ice", "snow"], "file": "open.html"}]
    assert metadata(folder, "book.epub") == [{"title": "Seals", "author": "Ann Lee", "file": "book.epub"}]
    assert metadata(folder, "invoice.eml") == [
        {"title": "Rechnung", "author": "ann@example.org", "date": "2024-03-04T10:00:00+01:00", "file": "invoice.eml"}
    ]


def test_dates_decimals_lists_and_objects_are_kept(folder):
    assert metadata(folder, "sky.parquet") == [
        {"day": "2024-04-08", "cost": 1.5, "tags": ["sky", "sun"], "file": "sky.parquet"}
    ]
    assert metadata(folder, "rows.jsonl") == [{"who": {"name": "Ann"}, "file": "rows.jsonl"}]


def test_a_spreadsheet_and_an_unknown_column_of_one_document_are_said(tmp_path):
    sheet, report = tmp_path / "a.xlsx", Report()
    xlsx(sheet, "On tides")
    assert [document.text for document in open_corpus(str(sheet), column="text").read(report)]
    assert "spreadsheets are read as text, not as tables" in report.lines()[0]
    (tmp_path / "b.txt").write_text("On tides\nOn rain\n")
    for file in (sheet, tmp_path / "b.txt"):
        with pytest.raises(InputError, match="'nope'"):
            next(open_corpus(str(file), column="nope").read())


def test_strict_stops_at_the_first_that_would_be_left_out(folder, tmp_path, capsys):
    assert "--strict" in refused(capsys, "index", str(folder), "--output", str(tmp_path / "shards"), "--strict")
    assert not (tmp_path / "shards").exists()
    (tmp_path / "a.txt").write_text("a cat\n\n")
    with pytest.raises(LeftOut, match=r"a\.txt"):
        list(open_corpus(str(tmp_path / "a.txt")).read(Report(strict=True)))


def test_a_file_alone_that_cannot_be_read_is_an_error(folder):
    with pytest.raises(InputError, match="encrypted"):
        list(open_corpus(str(folder / "locked.pdf")).read())
    with pytest.raises(InputError, match="nothing"):
        list(open_corpus(str(folder / "scan.pdf")).read())


def test_a_broken_file_keeps_the_numbers_of_the_rows_before_it(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n{broken\n')
    (tmp_path / "b.jsonl").write_text('{"text": "three"}\n')
    report = Report()
    assert [(document.row, document.text) for document in open_corpus(str(tmp_path)).read(report)] == [
        (0, "one"), (1, "two"), (2, "three"),
    ]  # fmt: skip
    assert "a.jsonl, line 3" in report.lines()[0]


def test_tables_of_a_folder_have_their_text_in_columns_of_their_names(tmp_path):
    """Seen before: a .txt beside a .csv made its years text."""
    (tmp_path / "a.csv").write_text("id,text,year\n1,on tides,1999\n")
    (tmp_path / "b.jsonl").write_text('{"body": "Rain fell on the hills all night.", "year": 2004}\n')
    (tmp_path / "c.md").write_text("Snow\n")
    (tmp_path / "d.txt").write_text("a line\n")
    assert [(document.text, document.metadata.get("year")) for document in open_corpus(str(tmp_path)).read()] == [
        ("on tides", 1999), ("Rain fell on the hills all night.", 2004), ("Snow", None), ("a line", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a<b>b<p>c", "ab\n\nc"), ("a<nav>menu</nav>b<nav>c<p>d", "a b c\n\nd"), ("<script>x()", "x()"),
        ("a<!-- x --> b <!-- c", "a b c"), ("<p>x <a href='never", "x <a href='never"), ("<title>t <p>x", "t\n\nx"),
        ("<script>for(i=0;i<n;i++)x('</p>')</script>a", "a"), ("<!-- <script> -->a<script>b</script>c", "a c"),
        ("a < b and c > d", "a < b and c > d"), ("<textarea>a<p>b", "a\n\nb"), ("<svg><title>i</title></svg>x", "x"),
    ],
)  # fmt: skip
def test_a_tag_that_is_not_closed_hides_nothing(markup, text):
    assert of_html(markup)["text"] == text


@pytest.mark.parametrize("tag", ["<div>", "<!--", "<script>", "<a ", "<a b='", "</", "<!", "&"])
def test_a_page_of_nothing_but_openings_takes_no_time(tag):
    of_html(tag * 20_000)


@pytest.mark.parametrize(
    ("lines", "listed"),
    [
        (["a cat sat", "a dog ran"], True), (["how to knit", "best soup", "tides today"], True),
        (["The sun rose.", "", "Rain fell."], True), (["Notes", "", "We met. It rained."], False),
        (["One. Two. Three.", "Four. Five."], False), ([], True), (["word"], True),
        (["The moon pulls the sea towards it, and", "so the water rises and falls again in", "half a day."], False),
    ],
)  # fmt: skip
def test_lists_and_documents_are_told_apart(lines, listed):
    assert is_list(lines) is listed


def test_a_document_that_is_longer_than_the_model_reads_is_said(tmp_path, bert_config, tokenizer, capsys):
    from contrastive_st import BertForCL

    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "model")
    (tmp_path / "a.txt").write_text("the cat\n" + "the cat " * 500 + "\n")
    command = ["index", str(tmp_path / "a.txt"), "-m", str(tmp_path / "model"), "-o", str(tmp_path / "shards")]
    assert "1 longer than the model reads, so only their beginnings are searched" in told(capsys, *command).err
