"""A folder is a source that changes: what changed is encoded, what left is removed, and what was deleted stays away."""

import gzip
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_documents import pdf_of
from store_places import new_store, unit_vectors

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search import folder as listing
from contrastive_st.search.document_readers import read_document
from contrastive_st.search.documents import by_file, cut, open_corpus
from contrastive_st.search.folder import files_in
from contrastive_st.search.ingest import index_corpus
from contrastive_st.search.opening import open_index
from contrastive_st.search.report import Report

pytestmark = pytest.mark.slow


@pytest.fixture
def index(place, tmp_path, request, capsys):
    """Runs `index` on the folder `source` and a collection of this test; returns its exit code and stderr."""
    collection = f"c{abs(hash(request.node.name)) % 10**8}"
    (tmp_path / "files").mkdir()

    def run(*flags):
        capsys.readouterr()
        code = main(["index", str(run.source), "--collection", collection, "--store", place, "--index", "none", *flags])
        return code, capsys.readouterr().err

    def there():
        with open_index(place, collection) as found:
            return {text: item for _, texts, items, _ in found.scan() for text, item in zip(texts, items, strict=True)}

    run.source, run.there = tmp_path / "files", there
    return run


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


# --- A second run


def test_only_what_changed_is_encoded_and_only_sync_removes_files(index):
    files = index.source
    write(
        files, a_md="# Tides\n\nThe moon.\n", sub__b_html="<title>Rain</title><p>On hills.", list_txt="A cat.\nA dog.\n"
    )
    assert "4 of 4 rows added" in index()[1]
    said = index()[1]
    assert "0 of 4 rows added, 0 updated, 4 unchanged in" in said
    assert "can no longer be read" not in said
    write(files, a_md="# Tides\n\nThe moon pulls.\n", list_txt="A bird.\nA cat.\nA dog.\n", c_md="New.\n")
    (files / "sub" / "b.html").unlink()
    code, said = index()
    assert (code, "2 of 5 rows added, 1 updated, 2 unchanged in" in said) == (0, True), said
    assert {"On hills.", "Tides\n\nThe moon pulls.", "A bird."} < index.there().keys()
    assert "Tides\n\nThe moon." not in index.there()  # the file replaces what it was
    assert "0 of 5 rows added, 0 updated, 5 unchanged, 1 removed in" in index("--sync")[1]
    assert index.there().keys() == {"Tides\n\nThe moon pulls.", "A bird.", "A cat.", "A dog.", "New."}
    assert index.there()["A dog."] == {"file": "list.txt"}


def test_a_part_that_moves_in_its_file_is_not_encoded_again(index):
    text = lambda *sentences: "Notes\n\n" + " ".join(f"Sentence {one} is about tides." for one in sentences) + "\n"
    write(index.source, a_md=text(*range(9)))
    index("--split_into", "sentences")
    write(index.source, a_md=text("new", *range(9)))
    said = index("--split_into", "sentences")[1]
    assert "1 of 11 rows added, 9 updated, 1 unchanged in" in said
    assert "writing" in said
    assert index.there()["Sentence 3 is about tides."] == {"file": "a.md"}


def test_what_cannot_be_read_is_named_and_its_former_text_stays(index):
    write(index.source, a_pdf=pdf_of("Salmon return."), b_md="Rain.\n")
    index()
    write(index.source, a_pdf=b"%PDF broken", c_json=b"{", d_md=b"")
    for flags in ((), ("--sync",)):
        code, said = index(*flags)
        assert code == 0
        (line,) = [line for line in said.splitlines() if line.startswith("left out: 3 unreadable")]
        assert all(name in line for name in ("a.pdf", "c.json", "d.md"))
        assert "\n1 documents of files that can no longer be read are still found" in said
        assert {"Salmon return.", "Rain."} == index.there().keys()


def test_a_folder_that_is_empty_or_closed_loses_nothing(index, monkeypatch):
    write(index.source, a_md="Rain.\n", sub__b_md="Snow.\n")
    index()
    opened = os.scandir

    def scandir(path):
        if str(path).endswith("sub"):  # rmtree gives the number of an open folder
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path)

    with monkeypatch.context() as closed:  # as a folder of another user
        closed.setattr(os, "scandir", scandir)
        code, said = index("--sync")
        assert (code, "left out: 1 unreadable: sub" in said) == (0, True), said
        assert "\n1 documents of files that can no longer be read are still found" in said
    assert index.there().keys() == {"Rain.", "Snow."}
    shutil.rmtree(index.source)
    index.source.mkdir()  # as a network drive that is not mounted
    code, said = index("--sync")
    assert (code, "there is nothing to index" in said) == (2, True)
    assert index.there().keys() == {"Rain.", "Snow."}


# --- Any history ends in the collection made at once


class Words:
    """A vector for each text, without a model; counts the texts."""

    encoded = 0

    def encode_stream(self, items, texts_of):
        for item in items:
            texts = texts_of(item)
            self.encoded += len(texts)
            vectors = [unit_vectors(1, seed=sum(text.encode()))[0] for text in texts]
            yield item, np.array(vectors, np.float32).reshape(-1, 8)


def synced(store, folder, into, shards=None, **flags):
    """Index a folder; with `shards`, end after so many, as by a kill. Returns how many texts were encoded."""
    corpus, encoder = by_file(cut(open_corpus(str(folder)), into)), Words()
    loader = store.loader(corpus.name, corpus.fingerprint, own_ids=True, files=corpus.files, **{"sync": True, **flags})
    add = loader.add

    def counted(shard, *rest):
        if shards is not None and shard >= shards:
            raise KeyboardInterrupt
        add(shard, *rest)

    loader.add = counted
    try:
        index_corpus(corpus, encoder, loader, shard_rows=3)
    except KeyboardInterrupt:
        pass
    finally:
        loader.close()
    return encoder.encoded


def contents(store):
    return {id: (text, item, vector.tolist()) for ids, texts, items, vectors in store.scan()
            for id, text, item, vector in zip(ids.tolist(), texts, items, vectors, strict=True)}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("into", ["whole", "sentences"])
def test_any_history_with_kills_ends_in_the_collection_made_at_once(place, tmp_path, into, seed):
    moments, folder, gone = random.Random(f"{into} {seed}"), tmp_path / "files", set()
    names = ["a.md", "b.txt", "c.csv", "d/e.md", "d/f.jsonl", "g.html"]
    folder.mkdir()

    def change():
        for name in moments.sample(names, 3):
            path = folder / name
            some = [f"Word {moments.randint(0, 5)} is here." for _ in range(moments.randint(1, 4))]
            tables = {
                ".csv": "body,year\n" + "".join(f"{one},{i}\n" for i, one in enumerate(some)),
                ".jsonl": "".join(json.dumps({"text": one}) + "\n" for one in some),
            }
            text = tables.get(path.suffix, " ".join(some))
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n")
        for name in moments.sample(names[1:], 1):
            (folder / name).unlink(missing_ok=True)

    with new_store(place, "history") as store, new_store(place, "at_once") as once:
        (folder / "a.md").write_text("Word one.\n")
        for _ in range(5):
            change()
            synced(store, folder, into, shards=moments.choice([0, 1, 2, None]))
            if moments.random() < 0.4 and any(folder.glob("d/*")):
                synced(store, folder / "d", into, shards=moments.choice([1, None]))
            if moments.random() < 0.4 and len(store):
                some = moments.sample(sorted(contents(store)), 1)
                store.delete(some)
                gone |= set(some)
        synced(store, folder, into)
        assert synced(store, folder, into) == 0
        synced(once, folder, into)
        wanted = {id: row for id, row in contents(once).items() if id not in gone}
        assert contents(store) == wanted
        assert set(store.deleted()) == gone
        synced(store, folder, into, restore=True)
        assert contents(store) == contents(once)
        assert not set(store.deleted()) & set(contents(once))
        store.drop(), once.drop()


@pytest.mark.parametrize(("word", "shards"), [("New", 1), ("Old", 0)], ids=["other texts", "other names"])
def test_a_killed_run_of_a_subfolder_changes_nothing_in_the_end(place, tmp_path, word, shards):
    folder = tmp_path / "files"
    (folder / "d").mkdir(parents=True)

    def put(word):
        for name in "abc":
            (folder / "d" / f"{name}.md").write_text(f"{word} {name} one. {word} {name} two.\n")

    with new_store(place, "killed") as store:
        put("Old")
        synced(store, folder, "sentences")
        before = contents(store)
        put(word)
        synced(store, folder / "d", "sentences", shards=shards)
        assert contents(store) != before
        put("Old")
        synced(store, folder, "sentences")
        assert contents(store) == before
        store.drop()


def test_long_documents_are_written_a_few_at_a_time(place, tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive_st.search.ingest.SHARD_CHARACTERS", 100)
    write(tmp_path, **{f"n{i}_md": f"Text {i}. " * (20 if i == 2 else 1) for i in range(6)})
    with new_store(place, "long") as store:
        corpus, shards = by_file(open_corpus(str(tmp_path))), []
        loader = store.loader(corpus.name, corpus.fingerprint, own_ids=True, files=corpus.files)
        add = loader.add
        loader.add = lambda shard, batch, members: (shards.append(len(batch[0])), add(shard, batch, members))
        assert index_corpus(corpus, Words(), loader, shard_rows=5).complete
        loader.close()
        assert (shards, len(store)) == ([3, 3], 6)
        store.drop()


def test_a_file_is_read_again_when_its_size_times_or_inode_change(tmp_path, monkeypatch):
    """A change of the content is seen though size and time of modification are those of before."""
    write(tmp_path, a_md="On tides.\n", b_md="On rain.\n")
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    before = open_corpus(str(tmp_path)).files.digests
    opened, digest = [], listing.digest_of_file
    monkeypatch.setattr(listing, "digest_of_file", lambda path: opened.append(path) or digest(path))
    assert (open_corpus(str(tmp_path)).files.digests, opened) == (before, [])
    write(tmp_path, a_md="On tidal\n")
    os.utime(tmp_path / "a.md", (1, 1))
    now = open_corpus(str(tmp_path)).files.digests
    assert ([Path(path).name for path in opened], now["b.md"]) == (["a.md"], before["b.md"])
    assert now["a.md"] != before["a.md"]


def test_two_folders_of_a_collection_have_documents_of_their_own(place, tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name, README_md="Read me.\n", same_md="Read me.\n", **{f"{name}_txt": "A cat.\nA dog.\n"})
    with new_store(place, "folders") as store:
        for name in ("one", "two"):
            synced(store, tmp_path / name, "whole")
        assert len(store) == 8
        (tmp_path / "one" / "README.md").rename(tmp_path / "one" / "new.md")
        assert synced(store, tmp_path / "one", "whole") == 1
        assert sorted(item["file"] for _, item, _ in contents(store).values() if "md" in item["file"]) == [
            "README.md", "new.md", "same.md", "same.md",
        ]  # fmt: skip
        store.drop()


def test_a_file_is_in_the_folder_that_was_indexed_last(index):
    folder, files = index.source / "d", index.source
    write(files, a_md="Rain.\n", d__b_md="Tides.\n", d__c_md="Wind.\n", **{"d__.e__f_md": "Dew.\n"})

    def there(source, *flags):
        index.source = source
        assert index(*flags)[0] == 0
        return {text: item["file"] for text, item in index.there().items()}

    whole = {"Rain.": "a.md", "Tides.": "d/b.md", "Wind.": "d/c.md"}
    for flags in ((), ("--sync",)):
        assert there(files) == whole
        assert there(folder, *flags) == {"Rain.": "a.md", "Tides.": "b.md", "Wind.": "c.md"}
    assert there(folder / ".e", *flags) == {"Rain.": "a.md", "Tides.": "b.md", "Wind.": "c.md", "Dew.": "f.md"}
    (folder / "b.md").unlink()
    assert "Tides." in there(files)
    assert there(files, "--sync") == {"Rain.": "a.md", "Wind.": "d/c.md", "Dew.": "f.md"}
    (folder / "c.md").unlink()
    write(folder, g_md="Snow.\n")
    assert there(folder, "--sync") == {"Rain.": "a.md", "Snow.": "g.md", "Dew.": "f.md"}


@pytest.mark.parametrize("first", ["folder", "shards"])
def test_a_folder_and_its_shards_are_one_source(index, tmp_path, first):
    files, shards = index.source, tmp_path / "shards"

    def load():
        shutil.rmtree(shards, ignore_errors=True)
        assert main(["index", str(files), "--split_into", "sentences", "--output", str(shards)]) == 0
        index.source = shards
        said = index()
        index.source = files
        return said

    ways = [lambda: index("--split_into", "sentences"), load]
    one, other = ways if first == "folder" else ways[::-1]
    write(files, a_md="The tides rise. A cat sat.\n", b_md="Rain fell.\n", c_md="A dog ran.\n")
    assert "4 of 4 rows added" in one()[1]
    for way in (other, one):
        assert "0 of 4 rows added, 0 updated, 4 unchanged in" in way()[1]
    write(files, a_md="The tides fall. A cat sat.\n", b_md="\u2063\u2063\n")
    for way, counted in ((one, "2 unchanged, 2 removed in"), (other, "3 unchanged in"), (one, "3 unchanged in")):
        assert counted in way()[1]
        assert sorted(index.there()) == ["A cat sat.", "A dog ran.", "The tides fall."]


@pytest.mark.parametrize("named", [True, False], ids=["a former version began them", "of a former version"])
def test_shards_without_a_record_of_files_are_loaded_as_before(index, tmp_path, named):
    files, encode = index.source, ["--split_into", "sentences", "--output", str(tmp_path / "shards")]
    write(files, a_md="The tides rise. A cat sat.\n", b_md="Rain fell.\n")
    assert main(["index", str(files), *encode]) == 0
    record = json.loads((tmp_path / "shards" / "encoding.json").read_text())
    del record["files"], record["hashed"]
    (tmp_path / "shards" / "encoding.json").write_text(json.dumps(record))
    (path,) = (tmp_path / "shards").glob("*.parquet")
    if not named:
        pq.write_table(pq.read_table(path).drop_columns("file").replace_schema_metadata(None), path)
    index.source = tmp_path / "shards"
    assert "3 of 3 rows added" in index()[1]
    assert "0 of 3 rows added, 0 updated, 3 unchanged in" in index()[1]
    index.source = files  # whose ids might be those of a column
    assert "has changed since it was indexed" in index("--split_into", "sentences")[1]
    index.source = tmp_path / "shards"
    for text, counts in (("rise", "0 of 3 rows added, 0 updated, 3 unchanged in"),
                         ("fall", "1 of 3 rows added, 0 updated, 2 unchanged, 1 removed in")):  # fmt: skip
        shutil.rmtree(tmp_path / "shards")
        write(files, a_md=f"The tides {text}. A cat sat.\n")
        assert main(["index", str(files), *encode]) == 0
        assert counts in index()[1]
        assert sorted(index.there()) == ["A cat sat.", "Rain fell.", f"The tides {text}."]


# --- What other programs wrote


@pytest.mark.parametrize(
    ("text", "facts", "rest"),
    [
        ("---\r\ncountry: no\r\nat: 12:30\r\nzip: 01234\r\nyear: 2024\r\nversion: 1.10\r\nshare: 0.5\r\n---\r\nText",
         {"country": "no", "at": "12:30", "zip": "01234", "year": 2024, "version": "1.10", "share": 0.5}, "Text"),
        ("---\ndate: 2024-02-30\ndone: true\nnothing:\nday: 2024-03-01\n---\nText",
         {"date": "2024-02-30", "done": True, "day": "2024-03-01"}, "Text"),
        ("---\nHe said.\n---\nText", {}, "He said.\n\nText"),
    ],
)  # fmt: skip
def test_front_matter(tmp_path, text, facts, rest):
    (tmp_path / "a.md").write_bytes(text.encode())
    (tmp_path / "b.txt").write_bytes(text.encode())
    found = {one.file: one for one in open_corpus(str(tmp_path), lines=False).read()}
    assert found["a.md"].metadata == {**facts, "file": "a.md"}
    assert found["a.md"].text == rest
    assert found["b.txt"].metadata == {**facts, "file": "b.txt"}


def test_front_matter_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "template.md").write_text("---\ntitle: {{title}}\n---\nText\n")
    (tmp_path / "colon.md").write_text("---\ntitle: Tides: a study\n---\nText\n")
    report = Report()
    assert len(list(open_corpus(str(tmp_path)).read(report))) == 2
    assert "front matter that cannot be read is text: colon.md; template.md" in report.lines()


def test_what_a_page_says_of_itself(tmp_path):
    page = tmp_path / "a.html"
    page.write_text(
        '<META NAME="Author" CONTENT="Ann"><meta name="viewport" content="x"><meta property="article:published_time" '
        'content="2024-03-01"><p>Tides.'
    )
    (facts,) = read_document(page, "a.html")
    assert {"author": "Ann", "article:published_time": "2024-03-01"}.items() <= facts.items()
    page.write_text("---\nlayout: post\nauthor: Bo\n---\n<h1>Rain</h1><p>On hills.")  # for Jekyll
    (facts,) = read_document(page, "a.html")
    assert (facts["author"], facts["text"]) == ("Bo", "Rain\n\nOn hills.")


def test_an_id_in_front_matter_is_no_column_of_ids(index):
    write(index.source, a_md="---\nid: intro\n---\nOne.\n", b_md="Two.\n")
    code, said = index()
    assert (code, "2 of 2 rows added" in said) == (0, True), said


def test_documents_that_are_compressed(tmp_path):
    (tmp_path / "a.pdf.gz").write_bytes(gzip.compress(pdf_of("Salmon return.")))
    (tmp_path / "b.rst.gz").write_bytes(gzip.compress(b"Knots\n=====\n\nA bowline."))
    assert {one.file: one.text for one in open_corpus(str(tmp_path)).read()} == {
        "a.pdf.gz": "Salmon return.",
        "b.rst.gz": "Knots\n\nA bowline.",
    }


def test_links_loops_and_hidden_files(tmp_path):
    write(tmp_path, a_md="A.\n", _git__config_txt="x", sub__b_md="B.\n")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    (tmp_path / "self.md").symlink_to(tmp_path / "self.md")
    (tmp_path / "copy.md").symlink_to(tmp_path / "a.md")
    os.mkfifo(tmp_path / "pipe.txt")
    Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.md")).write_text("C.\n")
    reasons = {entry.name: entry.reason for entry in files_in(tmp_path)}
    assert [name for name, reason in reasons.items() if not reason] == ["a.md", "caf\\xe9.md", "copy.md", "sub/b.md"]
    assert {reasons[name] for name in ("pipe.txt", "self.md")} == {"unreadable"}
    assert (reasons[".git"], reasons["sub/loop"]) == ("hidden", "linked folders")
    assert [one.metadata["file"] for one in open_corpus(str(tmp_path)).read()][1] == "caf\\xe9.md"


def test_several_kinds_with_several_columns_of_text(index):
    write(index.source, a_csv="name;body;note\nx;Taxes rose again.;One thing.\n", b_jsonl='{"text": "On tides."}\n',
          c_jsonl='{"abstract": "Whales sing.", "title": "Of the sea and its animals."}\n', d_md="Rain.\n")  # fmt: skip
    code, said = index()
    assert "c.jsonl: it is not clear which column has the text" in said
    code, said = index("--columns", "body", "--columns", "abstract", "--columns", "absent", "--metadata", "title")
    assert code == 0
    assert "in none of the files: column absent" in said
    assert index.there() == {
        "Taxes rose again.": {"file": "a.csv"}, "On tides.": {"file": "b.jsonl"}, "Rain.": {"file": "d.md"},
        "Whales sing.": {"title": "Of the sea and its animals.", "file": "c.jsonl"},
    }  # fmt: skip


def test_a_pattern_takes_documents_too(tmp_path):
    write(tmp_path, a_md="A.\n", sub__b_md="B.\n", c_txt="C.\n")
    assert [one.file for one in by_file(open_corpus(str(tmp_path / "**" / "*.md"))).read()] == ["a.md", "sub/b.md"]
    with pytest.raises(InputError, match="no file matches"):
        open_corpus(str(tmp_path / "*.rst"))


def test_files_are_whole_lines_or_passages_as_asked(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf_of("Salmon return.", "They spawn."))
    (tmp_path / "b.txt").write_text("The first.\nThe second.\n")
    (tmp_path / "c.txt").write_text("Notes of a day. It rained.\n\nThen it did not. We left.\n")
    for into, wanted in (
        ("whole", {"a.pdf": 2, "b.txt": 2, "c.txt": 1}), ("files", {"a.pdf": 1, "b.txt": 1, "c.txt": 1}),
        ("lines", {"a.pdf": 2, "b.txt": 2, "c.txt": 2}), ("passages", {"a.pdf": 2, "b.txt": 2, "c.txt": 1}),
    ):  # fmt: skip
        corpus = cut(open_corpus(str(tmp_path), lines={"lines": True, "files": False}.get(into)), into)
        found = [one.metadata["file"] for one in corpus.read()]
        assert {name: found.count(name) for name in wanted} == wanted
