"""A file of texts to a file of vectors: what is in it, and that it goes on where it was."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from refusals import told

from conftest import save_both
from contrastive_st import BertForCL, StaticEncoder
from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.models import SentenceEncoder
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.static_encoder import static_tokenizer
from contrastive_st.search import encoding
from contrastive_st.search.encoding import encode_file
from contrastive_st.text_format import TextFormat, add_text_format, set_text_format
from contrastive_st.vectors import quantization_ranges, quantize, unit_vectors

TEXTS = [f"the {word} cat sat on mat number {i}" for i in range(4) for word in ("old", "", "grey")]  # 12
TEXTS[5] = ""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(encoding, "PIECE", 5)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return str(path)


@pytest.fixture
def wanted():
    return np.concatenate([open_encoder().encode(TEXTS[i : i + 5]) for i in (0, 5, 10)])


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_texts_that_are_cut_are_counted_and_said(tmp_path, source, bert_config, tokenizer, capsys):
    """Those that fill the length of the model exactly are not cut."""
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "tiny")
    longest = len(tokenizer("the cat sat on the mat")["input_ids"])
    tokenizer_config = json.loads((tmp_path / "tiny" / "tokenizer_config.json").read_text())
    tokenizer_config["model_max_length"] = longest
    (tmp_path / "tiny" / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    Path(source).write_text("the cat sat on the mat\nthe cat sat on the mat today\n" * 4 + "a cat\n")
    assert main(["encode", source, "-o", str(tmp_path / "v.npy"), "-m", str(tmp_path / "tiny")]) == 0
    assert "4 of the encoded texts are longer than the maximum length" in capsys.readouterr().err
    Path(source).write_text("a cat\n")
    assert "longer" not in told(capsys, "encode", source, "-o", tmp_path / "w.npy", "-m", tmp_path / "tiny").err


@pytest.mark.parametrize(("precision", "normalize"), [("float32", True), ("int8", False), ("ubinary", True)])
def test_the_file_is_what_numpy_saves_of_the_vectors(tmp_path, source, wanted, precision, normalize):
    output = tmp_path / "v.npy"
    wanted = unit_vectors(wanted) if normalize else wanted
    done = encode_file(source, output, precision=precision, normalize=normalize)
    assert done == (12, 256, 12, 0, 1)
    ranges = quantization_ranges(wanted[:5]) if precision == "int8" else None
    assert output.read_bytes() == saved(quantize(wanted, precision, ranges))
    there = {"texts.txt", "v.npy"}
    if precision == "int8":
        np.testing.assert_array_equal(np.load(tmp_path / "v.ranges.npy"), ranges)
        there.add("v.ranges.npy")
    assert {path.name for path in tmp_path.iterdir()} == there


@pytest.mark.parametrize("precision", ["float32", "int8", "ubinary"])
def test_a_parquet_file_has_the_texts_too(tmp_path, source, wanted, precision):
    encode_file(source, tmp_path / "v.parquet", precision=precision)
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["text"].to_pylist() == TEXTS
    found = np.array(table["embedding"].to_pylist())
    ranges = quantization_ranges(wanted[:5]) if precision == "int8" else None
    np.testing.assert_array_equal(found, quantize(wanted, precision, ranges))
    kind = {"float32": pa.float32(), "int8": pa.int8(), "ubinary": pa.uint8()}[precision]
    assert table.schema.field("embedding").type == pa.list_(kind, found.shape[1])


def written(path, kind):
    """The texts as a file of some kind; the column is the second."""
    rows = {"id": [str(i) for i in range(len(TEXTS))], "body": [f" {text}" for text in TEXTS]}
    if kind == "parquet":
        pq.write_table(pa.table({**rows, "list": [[1]] * len(TEXTS)}), path, row_group_size=4)
    elif kind == "csv":
        path.write_text("id,body\n" + "".join(f'{i},"{text}"\n' for i, text in zip(*rows.values(), strict=True)))
    elif kind == "jsonl":
        lines = [{"id": i, **({"body": text} if text.strip() else {})} for i, text in zip(*rows.values(), strict=True)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        Dataset.from_dict(rows).save_to_disk(path)
    return str(path)


@pytest.mark.parametrize(("kind", "column"), [
    ("parquet", "body"), ("csv", "1"), ("jsonl", "body"), ("jsonl", "1"), ("saved", "1"),
])  # fmt: skip
def test_any_file_that_the_package_reads(tmp_path, wanted, kind, column):
    encode_file(written(tmp_path / f"texts.{kind}", kind), tmp_path / "v.npy", column=column)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), wanted)


class Killed(Exception):
    """What ends a run between two pieces."""


def stopped(monkeypatch, source, output, after, **options):
    """A run that ends after so many pieces; after all three, when all is encoded and the output has no name yet."""
    encode, calls = SentenceEncoder.encode_rows, []

    def count(self, rows, prompt):
        if len(calls) == after:
            raise Killed
        calls.append(rows)
        return encode(self, rows, prompt)

    def never(self, texts):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEncoder, "encode_rows", count)
        patch.setattr(encoding._Growing, "finish", never)
        with pytest.raises(Killed):
            encode_file(source, output, **options)


@pytest.mark.parametrize(("name", "precision"), [("v.npy", "int8"), ("v.parquet", "float32")])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch, source, name, precision, after):
    whole, output = tmp_path / f"whole-{name}", tmp_path / name
    encode_file(source, whole, precision=precision)
    stopped(monkeypatch, source, output, after, precision=precision)
    assert not output.exists()
    with open(tmp_path / f"{name}.part" / "rows", "ab") as file:
        file.write(b"half a piece")
    assert encode_file(source, output, precision=precision)[:3] == (12, 256, (7, 2, 0)[after - 1])
    assert output.read_bytes() == whole.read_bytes()
    assert not (tmp_path / f"{name}.part").exists()
    if precision == "int8":
        assert output.with_name("v.ranges.npy").read_bytes() == whole.with_name("whole-v.ranges.npy").read_bytes()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda path, ranges: {"normalize": True}, "normalize"),
        (lambda path, ranges: {"precision": "ubinary"}, "precision"),
        (lambda path, ranges: {"ranges": ranges}, "ranges"),
        (lambda path, ranges: path.write_text("other\ntexts\n") and {}, "source"),
        (lambda path, ranges: add_text_format("encoding", "latin-1") or {}, "source"),
    ],
)
def test_what_was_begun_with_something_else_is_not_gone_on_with(tmp_path, monkeypatch, source, change, word):
    output, ranges = tmp_path / "v.npy", tmp_path / "r.npy"
    np.save(ranges, [[-1.0] * 256, [1.0] * 256])
    stopped(monkeypatch, source, output, 1, precision="int8")
    options = {"precision": "int8", **change(Path(source), ranges)}
    with pytest.raises(InputError, match=f"started with another {word}; give --overwrite"):
        encode_file(source, output, **options)
    encode_file(source, output, overwrite=True, **options)
    fresh = tmp_path / "fresh.npy"
    encode_file(source, fresh, **options)
    set_text_format(TextFormat())
    assert output.read_bytes() == fresh.read_bytes()


def test_ranges_of_a_file(tmp_path, source, wanted):
    ranges = np.array([[-0.5] * 256, [0.25] * 256])
    np.save(tmp_path / "r.npy", ranges)
    encode_file(source, tmp_path / "v.npy", precision="int8", ranges=tmp_path / "r.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), quantize(wanted, "int8", ranges))
    np.testing.assert_array_equal(np.load(tmp_path / "v.ranges.npy"), ranges)


def test_faults_are_named_and_nothing_is_left(tmp_path, source, monkeypatch):
    np.save(tmp_path / "bad.npy", np.zeros(3))
    np.save(tmp_path / "narrow.npy", np.zeros((2, 3)))
    (tmp_path / "one.txt").write_text("one text\n")
    (tmp_path / "header.csv").write_text("text\n")
    (tmp_path / "mine.ranges.npy").write_bytes(b"mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for given, options, words in (
        (source, {"precision": "int4"}, "unknown precision 'int4'"),
        (source, {"precision": "ubinary", "ranges": tmp_path / "bad.npy"}, "are for int8"),
        (source, {"precision": "int8", "ranges": tmp_path / "bad.npy"}, "lowest and the highest"),
        (source, {"precision": "int8", "ranges": Path(source)}, "magic string"),
        (source, {"precision": "int8", "ranges": tmp_path / "narrow.npy"}, r"give \(2, 256\)"),
        (source, {"precision": "int8", "output": tmp_path / "mine.npy"}, "mine.ranges.npy exists already"),
        (source, {"column": "nothing"}, "unknown column 'nothing'"),
        (source, {"output": tmp_path / "v.csv"}, "parquet"),
        (tmp_path / "one.txt", {"precision": "int8"}, "give ranges"),
        (tmp_path / "header.csv", {}, "there are no rows"),
        (tmp_path / "none.txt", {}, "none.txt"),
    ):
        with pytest.raises(ValueError, match=words):
            encode_file(str(given), **{"output": tmp_path / "v.npy", **options})
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_of_that_name_keeps_what_is_not_ours(tmp_path, source):
    folder = tmp_path / "v.npy.part"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    encode_file(source, tmp_path / "v.npy")
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_stdin_goes_on_too_and_has_a_row_a_line(tmp_path, monkeypatch, wanted):
    text = ("\n".join(TEXTS) + "\n").encode()
    give = lambda: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    give()
    stopped(monkeypatch, "-", tmp_path / "v.parquet", 1)
    give()
    assert encode_file("-", tmp_path / "v.parquet").encoded == 7
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["text"].to_pylist() == TEXTS
    np.testing.assert_array_equal(np.array(table["embedding"].to_pylist()), wanted)


def test_texts_without_a_known_token_are_counted(tmp_path, capsys, tokenizer):
    path = tmp_path / "texts.txt"
    path.write_text("a cat\n\U0001f600\n\nrain\n", encoding="utf-8")
    table = StaticEncoder.from_table(np.ones((len(tokenizer), 8)))  # with a vector of the unknown token, too
    model = save_both(table, static_tokenizer(tokenizer), tmp_path / "ones")
    assert encode_file(str(path), tmp_path / "vectors.npy", str(model)).unknown == 2
    assert main(["encode", str(path), "-o", str(tmp_path / "again.npy")]) == 0
    assert "2 of the encoded texts are blank or have no token that the model knows" in capsys.readouterr().err
