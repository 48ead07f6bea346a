"""Sequences: FASTA as it comes, k-mers in every reading frame, families with known homology, training on them."""

import doctest
import gzip
import itertools
import lzma

import pytest
import torch
from transformers import AutoTokenizer

import sequence_families
import sequences
from contrastive_st.errors import InputError
from sequence_families import find_families, kmer_counting, make_families
from sequences import FramePairCollator, kmer_tokenizer, overlapping, read_fasta, reading_frames, tokenize_frames

DNA = "ACGTTGCAACGGTTAC"


@pytest.mark.parametrize("module", [sequences, sequence_families])
def test_examples_in_docstrings(module):
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted > 3
    assert found.failed == 0


# ------------------------------------------------------------------ FASTA


@pytest.mark.parametrize("packed", ["plain.fa", "packed.fa.gz", "packed.fa.xz"])
def test_fasta_as_it_comes(packed, tmp_path):
    text = "; an old comment\n>seq1 the first\r\nACGT acgt\r\n\r\nNNRY\n>seq2\nTTTT"
    opened = {".gz": gzip.open, ".xz": lzma.open}.get((path := tmp_path / packed).suffix, open)
    with opened(path, "wt", newline="") as file:
        file.write(text)
    found = list(read_fasta(path, "dna"))
    assert found == [("seq1", "the first", "ACGTACGTNNRY"), ("seq2", "", "TTTT")]


def test_proteins_may_end_in_a_stop(tmp_path):
    path = tmp_path / "protein.fa"
    path.write_text(">p\nMKV\nLW*\n>q\nMXB\n")
    assert [found.letters for found in read_fasta(path, "protein")] == ["MKVLW", "MXB"]
    path.write_text(">p\nMK*VL\n")
    with pytest.raises(InputError, match=r"line 2: '\*'|stop '\*' before its end"):
        list(read_fasta(path, "protein"))


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("ACGT\n", "dna", "line 1: not FASTA"),
        (">a\nACGT\n>b\n>c\nA\n", "dna", r"line 3: 'b' has no letters"),
        (">a\nAC-GT\n", "dna", "line 2: '-' is a gap"),
        (">a\nACGU\n", "dna", r"line 2: 'U' is not a letter of dna; is it rna or protein\?"),
        (">a\nACGT\nAC1T\n", "dna", "line 3: '1' is not a letter of dna; fix the file"),
        ("", "dna", "has no sequence"),
        (">a\nACGT\n", "genes", "choose one of dna, rna, protein"),
        (">a\nACÄ\n", "dna", "not ASCII text"),
    ],
)
def test_what_is_no_fasta(text, kind, words, tmp_path):
    path = tmp_path / "bad.fa"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=words):
        list(read_fasta(path, kind))


# ------------------------------------------------------------------ k-mers


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_every_frame_of_every_k(k):
    """ProtVec's code knows three frames, whatever k is."""
    tokenizer = kmer_tokenizer(k)
    assert len(tokenizer) == 5 + 4**k
    for frame in range(k):
        wanted = [DNA[i : i + k] for i in range(frame, len(DNA) - k + 1, k)]
        assert kmer_tokenizer(k, frame=frame).tokenize(DNA) == wanted
        assert tokenizer.tokenize(reading_frames(DNA, k)[frame]) == wanted
    every = [DNA[i : i + k] for i in range(len(DNA) - k + 1)]
    assert tokenizer.tokenize(overlapping(DNA, k)) == every
    together = itertools.chain(*(tokenizer.tokenize(text) for text in reading_frames(DNA, k)))
    assert sorted(together) == sorted(every)


@pytest.mark.parametrize("frame", [0, 2])
def test_auto_tokenizer_opens_it(frame, tmp_path):
    tokenizer = kmer_tokenizer(3, "protein", frame=frame, max_length=6)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    texts = ["MKVLWAALLVTFLAGCQA", "mkvxwaa", "M", ""]
    ours = tokenizer(texts, truncation=True)["input_ids"]
    assert again(texts, truncation=True)["input_ids"] == ours
    assert [len(row) for row in ours] == [6, 4 if frame == 0 else 3, 2, 2]
    assert ours[0][0] == tokenizer.cls_token_id
    assert (tokenizer.unk_token_id in ours[1]) == (frame == 0 or "XWA" in "VXWAA")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 3, "frame": 3}, "a frame from 0 to k - 1"),
        ({"k": 0}, "give a k of 1 or more"),
        ({"k": 5, "kind": "protein"}, "give sequences to learn"),
        ({"k": 3, "sequences": ["NN", "AC"]}, "no word of 3 letters"),
        ({"k": 3, "kind": "xna"}, "choose one of"),
    ],
)
def test_tokenizers_that_cannot_be(arguments, words):
    with pytest.raises(InputError, match=words):
        kmer_tokenizer(**arguments)


def test_two_frames_are_a_pair():
    tokenizer = kmer_tokenizer(3)
    letters = [s.letters for s in make_families("dna", families=8, members=2, length=30)]
    rows = tokenize_frames(letters, tokenizer, 3)
    frames = [[tuple(ids) for ids in row["input_ids"]] for row in rows]
    collator, drawn = FramePairCollator(tokenizer), set()
    for start in range(0, 16, 4):
        batch = collator(rows[start : start + 4])
        again = collator(rows[start : start + 4])
        assert torch.equal(batch["input_ids"], again["input_ids"])  # as a resumed run has it
        assert batch["input_ids"].shape[:2] == (4, 2)
        for i in range(4):
            both = zip(batch["input_ids"][i], batch["attention_mask"][i], strict=True)
            real = [tuple(ids[mask > 0].tolist()) for ids, mask in both]
            pair = tuple(frames[start + i].index(ids) for ids in real)
            assert pair[0] != pair[1]
            drawn.add(pair)
    assert len(drawn) > 3
    with pytest.raises(InputError, match="letters"):
        tokenize_frames(["ACGT"], tokenizer, 3)


# ------------------------------------------------------------------ families


def test_counting_finds_near_families_and_not_far_ones():
    near, far = (
        find_families(
            kmer_counting([s.letters for s in made], 4),
            {str(i): [s.letters for s in made[4 * i : 4 * i + 4]] for i in range(40)},
        )
        for made in (make_families("dna", 40, 4, 150, rate, 0.0) for rate in (0.05, 0.75))
    )
    assert near["mrr@10"] > 0.99
    assert far["mrr@10"] < 0.3  # at 0.75 nothing of the ancestor is left
