"""Vector files: four formats, and every way they can be broken."""

import gzip
import tracemalloc

import numpy as np
import pytest
from refusals import refusal

from contrastive_st import InputError, read_word_vectors
from contrastive_st.errors import one_line

WORDS = ["the", ",", "n't", "\u00e9t\u00e9", "1999", "a\x85b", "\u3000"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)


def text(words=WORDS, vectors=VECTORS, end="\n"):
    rows = zip(words, vectors.tolist(), strict=True)
    return "".join(f"{word} {' '.join(map(repr, row))}{end}" for word, row in rows).encode()


def binary(words=WORDS, vectors=VECTORS, end=b"\n"):
    rows = [word.encode() + b" " + row.tobytes() + end for word, row in zip(words, vectors, strict=True)]
    return f"{len(words)} {vectors.shape[1]}\n".encode() + b"".join(rows)


HEADER = f"{len(WORDS)} 6\n".encode()
FORMATS = {
    "glove": text(),
    "no line end at the end": text()[:-1],
    "carriage returns": text(end="\r\n"),
    "word2vec": HEADER + text(end=" \n"),
    "fasttext": HEADER + text(),
    "with a byte order mark": b"\xef\xbb\xbf" + text(),
    "word2vec with a byte order mark": b"\xef\xbb\xbf" + HEADER + text(),
    "binary": binary(),
    "binary without line ends": binary(end=b""),
}


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_gives_the_same(content, packed, tmp_path):
    path = tmp_path / "vectors.any"
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read_word_vectors(path)
    assert found.words == WORDS
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, VECTORS)
    first = read_word_vectors(path, limit=3)
    assert first.words == WORDS[:3]
    np.testing.assert_array_equal(first.vectors, VECTORS[:3])
    some = read_word_vectors(path, words=["1999", "absent", "the"])
    assert some.words == ["the", "1999"]
    np.testing.assert_array_equal(some.vectors, VECTORS[[0, 4]])


def test_a_line_feed_may_be_a_byte_of_a_number(tmp_path):
    vectors = VECTORS.copy()
    vectors[0, 0] = np.frombuffer(b"a\n ?", "<f4")[0]
    (tmp_path / "vectors.bin").write_bytes(binary(vectors=vectors))
    np.testing.assert_array_equal(read_word_vectors(tmp_path / "vectors.bin").vectors, vectors)
    (tmp_path / "vectors.txt").write_text("2 2\nthe 1 2\n\u00e9t\u00e9 3 4\n")  # ends inside of a character
    assert read_word_vectors(tmp_path / "vectors.txt").words == ["the", "\u00e9t\u00e9"]


def test_words_may_hold_spaces(tmp_path):
    words = ["the", ". . .", "at name@domain.com", "5 x"]
    path = tmp_path / "glove.txt"
    path.write_bytes(text(words, VECTORS[:4]))
    found = read_word_vectors(path)
    assert found.words == words
    np.testing.assert_array_equal(found.vectors, VECTORS[:4])
    path.write_bytes(text([". . .", "1999"], VECTORS[:2]))
    assert read_word_vectors(path).words == [". . .", "1999"]


def broken(row, line=3):
    lines = text().split(b"\n")
    lines[line - 1] = row
    return b"\n".join(lines)


NUMBERS = b" 1 2 3 4 5 6"
FAULTS = {
    "short row": (broken(b"x 1 2 3 4 5"), "line 3: 'x 1 2 3 4 5' is not a word and 6 finite numbers"),
    "long row": (broken(b"x 1 2 3 4 5 6 7"), "line 3: .* is not a word and 6 finite"),
    "blank row": (broken(b""), "line 3: '' is not a word"),
    "word": (broken(b"x 1 2 oops 4 5 6"), "line 3: .*oops.* is not a word and 6"),
    "half a number": (broken(b"x 1 2 3 4 5 6e"), "line 3: .*6e' is not a word and 6"),
    "nan": (broken(b"x 1 2 nan 4 5 6"), "line 3: .* is not a word and 6 finite"),
    "overflow": (broken(b"x 1 2 1e99 4 5 6"), "line 3: .* is not a word and 6 finite"),
    "no word": (broken(NUMBERS), "line 3: .* is not a word"),
    "repeated": (broken(b"the" + NUMBERS), "line 3: 'the' is there already, in line 1"),
    "not UTF-8": (broken(b"\xff" + NUMBERS), "line 3: byte 0xff"),
    "empty": (b"", "line 1 is not a word and its numbers"),
    "prose": (b"this is no vector file\n", "line 1 is not a word and its numbers"),
    "header, no rows": (HEADER, "line 2: the first line says 7 words, but there are 0"),
    "fewer rows": (b"8 6\n" + text(), "line 9: the first line says 8 words, but there are 7"),
    "more rows": (b"6 6\n" + text(), "line 9: the first line says 6 words, but there are 7"),
    "header of another dimension": (b"7 5\n" + text(), "line 2: .* is not a word and 5 finite"),
    "header of no dimension": (b"7 0\n" + text(), "line 2: .* is not a word and 1 finite"),
    "short row below a header": (HEADER + broken(b"x 1 2", 1), "line 2: 'x 1 2' is not a word and 6"),
    "binary cut short": (binary()[:-9], "row 7: .* truncated"),
    "binary with more words promised": (b"9" + binary()[1:], "row 8: .* truncated"),
    "binary repeated": (binary(["a", "b", "a"], VECTORS[:3]), "row 3: 'a' is there already, in row 1"),
    "binary nan": (binary(["a", "b"], np.float32([[1] * 6, [np.nan] * 6])), "row 2: .* finite numbers"),
    "fastText model": ((793712314).to_bytes(4, "little") + b"\x0c\0\0\0", "is a fastText model; give the .vec file"),
}


@pytest.mark.parametrize(("content", "words"), FAULTS.values(), ids=FAULTS)
def test_faults_are_named_with_file_and_place(content, words, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with refusal(words, str(path)):
        read_word_vectors(path)


def test_other_bad_input(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_word_vectors(tmp_path / "none.txt")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(text())[:-20])
    with pytest.raises(EOFError) as caught:
        read_word_vectors(tmp_path / "cut.gz")
    assert one_line(caught.value).startswith(f"{tmp_path / 'cut.gz'}: gzip: ")
    path = tmp_path / "vectors.txt"
    path.write_bytes(text())
    with pytest.raises(InputError, match="limit 0"):
        read_word_vectors(path, limit=0)


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_memory_is_that_of_the_result(kind, tmp_path):
    words = [f"w{i}" for i in range(3_000 if kind == "text" else 8_000)]
    vectors = np.random.default_rng(0).integers(-9, 9, size=(len(words), 300)).astype(np.float32)
    path = tmp_path / "vectors"
    path.write_bytes(text(words, vectors) if kind == "text" else binary(words, vectors))
    tracemalloc.start()
    found = read_word_vectors(path)
    peak = tracemalloc.get_traced_memory()[1]
    few = read_word_vectors(path, words=words[-3:])
    tracemalloc.stop()
    np.testing.assert_array_equal(found.vectors, vectors)
    np.testing.assert_array_equal(few.vectors, vectors[-3:])
    assert peak < 1.5 * vectors.nbytes
