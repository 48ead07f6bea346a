"""A small folder in SentEval's layout, made of invented sentences, and a model of it that knows a little."""

import numpy as np

ANIMALS, TOOLS = ["cat", "dog", "horse", "bird"], ["hammer", "saw", "drill", "file"]
WORDS = [*ANIMALS, *TOOLS, "good", "bad", "old", "new", "who", "what", "when", "sees", "has", "is"]


def bag_of_words(texts):
    """A callable model: counts of known words, and a constant."""
    return np.array([[1.0, *(text.lower().split().count(word) for word in WORDS)] for text in texts])


def sentence(random):
    noun = [*ANIMALS, *TOOLS][random.integers(8)]
    other = [*ANIMALS, *TOOLS][random.integers(8)]
    return f"the {['old', 'new'][random.integers(2)]} {noun} {['sees', 'has', 'is'][random.integers(3)]} a {other}"


def pair(random):
    a, b = sentence(random), sentence(random)
    common = len(set(a.split()) & set(b.split()))
    return a, b, min(5.0, round(common - 1 + random.random(), 3))


def write(path, lines, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + "\n" for line in lines).encode(encoding))


def write_sts(root, name, subsets, size=30, seed=0):
    random = np.random.default_rng(seed)
    for subset in subsets:
        rows = [pair(random) for _ in range(size)]
        write(root / f"STS/{name}-en-test/STS.input.{subset}.txt", [f"{a}\t{b}" for a, b, _ in rows])
        write(root / f"STS/{name}-en-test/STS.gs.{subset}.txt", [str(score) for *_, score in rows])


def write_all(root, size=60):
    """STS12 (two subsets of five), STS-B, CR, TREC, MRPC, SST-2."""
    random = np.random.default_rng(1)
    write_sts(root, "STS12", ["MSRpar", "MSRvid"])
    for split in ("train", "dev", "test"):
        rows = [pair(random) for _ in range(size)]
        lines = [f"g\tf\t2012\t{i}\t{score}\t{a}\t{b}" for i, (a, b, score) in enumerate(rows)]
        write(root / f"STS/STSBenchmark/sts-{split}.csv", lines)
        labels = random.integers(2, size=size)
        texts = [f"{sentence(random)} {'good' if y ^ (random.random() < 0.1) else 'bad'}" for y in labels]
        write(root / f"SST/binary/sentiment-{split}", [f"{t}\t{y}" for t, y in zip(texts, labels, strict=True)])
    for name, mood in (("pos", "good"), ("neg", "bad")):
        texts = [f"{sentence(random)} {mood if random.random() < 0.9 else 'old'}" for _ in range(size)]
        write(root / f"CR/custrev.{name}", texts)
    kinds = {"HUM:ind": "who", "ENTY:animal": "what", "NUM:date": "when"}
    for file in ("train_5500.label", "TREC_10.label"):
        labels = [list(kinds)[i % 3] for i in range(size)]
        write(root / "TREC" / file, [f"{y} {kinds[y]} {sentence(random)} ?" for y in labels])
    for split in ("train", "test"):
        rows = [pair(random) for _ in range(size)]
        lines = [f"{int(s > 2)}\t{i}\t{i}\t{a}\t{b}" for i, (a, b, s) in enumerate(rows)]
        write(root / f"MRPC/msr_paraphrase_{split}.txt", ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines])
    return root
