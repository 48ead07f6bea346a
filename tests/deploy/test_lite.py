"""The light distribution: its wheel in an environment without torch, and each thing that works there."""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from store_places import store_place

from contrastive_st import SentenceClassifier, SentenceEncoder

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Lite:
    """An environment that holds the wheel and what it requires, linked from the one of the tests."""

    def __init__(self, folder):
        pytest.importorskip("hatchling", reason="a wheel is built by hatchling: pip install 'contrastive-st[dev]'")
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT / "deploy/lite", check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
            self.about = HeaderParser().parsestr(file.read(name).decode())
        venv.create(folder / "env", symlinks=True)
        self.python = folder / "env/bin/python"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-deps", "--no-index", "-q"]
        subprocess.run([*pip, str(wheel)], check=True)
        (self.site,) = (folder / "env").glob("lib/python*/site-packages")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "HF_HUB_OFFLINE": "1",
                            "CONTRASTIVE_ST_CACHE": str(folder / "cache")}  # fmt: skip
        self.add("")

    def requires(self, extra):
        """What the wheel requires, for an extra or without any."""
        lines = map(Requirement, self.about.get_all("Requires-Dist"))
        return [line for line in lines if (str(line.marker) == f'extra == "{extra}"' if extra else not line.marker)]

    def add(self, extra):
        """Link what an extra requires, and what that requires."""
        todo, seen = [(line, extra) for line in self.requires(extra)], set()
        while todo:
            line, asked = todo.pop()
            for own in ("", *line.extras):
                if (line.name, own) in seen or (line.marker and not line.marker.evaluate({"extra": asked})):
                    continue
                seen.add((line.name, own))
                try:
                    found = importlib.metadata.distribution(line.name)
                except importlib.metadata.PackageNotFoundError:
                    pytest.skip(f"{line.name} is not installed: pip install 'contrastive-st[{extra}]'")
                todo += [(Requirement(more), own) for more in found.requires or ()]
                for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
                    if not (self.site / top).exists():
                        (self.site / top).symlink_to(found.locate_file(top))

    def run(self, *arguments, code=0, cwd=ROOT, **environment):
        """The output of a command of the package."""
        command = [self.python.with_name("contrastive-st"), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment | environment, cwd=cwd, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    def code(self, source):
        """The output of some Python."""
        command = [self.python, "-c", source]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=True).stdout.strip()


@pytest.fixture(scope="module")
def lite():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the account of the embedded database runs programs in it
        yield Lite(Path(folder))


def test_it_requires_what_the_whole_package_requires(lite):
    key = lambda line: (canonicalize_name(line.name), frozenset(line.extras), str(line.specifier))
    whole = {key(line) for line in map(Requirement, importlib.metadata.requires("contrastive-st"))}
    own = {key(line): line for line in map(Requirement, lite.about.get_all("Requires-Dist"))}
    assert {name for name, *_ in own.keys() - whole} <= {"threadpoolctl"}


def test_nothing_heavy_can_be_imported(lite):
    heavy = ["torch", "transformers", "datasets", "pyarrow", "pandas", "sklearn", "scipy", "accelerate", "jinja2"]
    code = f"from importlib.util import find_spec; print([name for name in {heavy} if find_spec(name)])"
    assert lite.code(code) == "[]"


def test_vectors_and_similarity(lite, tmp_path):
    code = "from contrastive_st import SentenceEncoder as E; v = E().encode(['a cat', 'a dog sat'] * 2500); "
    assert lite.code(code + "print(v.shape, abs(v[0] - v[-2]).max() < 1e-6)") == "(5000, 256) True"
    assert float(lite.run("similarity", "a cat sat", "a feline rested")) > 0.2
    lite.run("encode", ROOT / "examples/data/sentences.txt", "-o", tmp_path / "vectors.npy")
    vectors = np.load(tmp_path / "vectors.npy")
    texts = (ROOT / "examples/data/sentences.txt").read_text(encoding="utf-8").splitlines()
    np.testing.assert_allclose(vectors, SentenceEncoder().encode(texts), atol=1e-6)


def test_search_in_memory(lite):
    code = """
from contrastive_st import SentenceEncoder, community_detection, paraphrase_mining, semantic_search
texts = ["a cat sat on the mat", "the cat sat on a mat", "taxes rose again", "taxes rise again"]
vectors = SentenceEncoder().encode(texts)
print([hits[0]["corpus_id"] for hits in semantic_search(vectors[:1], vectors[1:])])
print(sorted(map(tuple, (sorted(row[1:]) for row in paraphrase_mining(SentenceEncoder(), texts)[:2]))))
print(sorted(map(sorted, community_detection(vectors, 0.6, 2))))
"""
    assert lite.code(code).splitlines() == ["[0]", "[(0, 1), (2, 3)]", "[[0, 1], [2, 3]]"]


def test_a_saved_classifier_labels_texts(lite, tmp_path):
    texts = ["a hot day", "the sun burns", "snow and ice", "a freezing night"]
    classifier = SentenceClassifier().fit(texts, ["warm", "warm", "cold", "cold"])
    classifier.save_pretrained(tmp_path / "classifier")
    (tmp_path / "new.txt").write_text("frost on the window\n")
    found = lite.run("classify", tmp_path / "new.txt", "--output", tmp_path / "classifier").split("\t")
    assert found[0] == "cold"
    assert float(found[1]) == pytest.approx(classifier.predict_proba(["frost on the window"])[0, 0], abs=1e-4)
    several = SentenceClassifier().fit(texts, [["warm"], ["warm", "dry"], ["cold"], ["cold", "dry"]])
    several.save_pretrained(tmp_path / "several")
    code = "from contrastive_st import SentenceClassifier as C; "
    code += f"print(C.from_pretrained({str(tmp_path / 'several')!r}).predict_proba(['frost']).tolist())"
    assert json.loads(lite.code(code))[0] == pytest.approx(several.predict_proba(["frost"])[0].tolist())


def test_a_store_is_indexed_searched_and_cleaned(lite):
    lite.add("search")
    with store_place() as place:
        store = {"CONTRASTIVE_ST_STORE": str(place)}
        corpus = place / "talks.jsonl"
        corpus.write_text("".join(
            json.dumps({"text": text, "year": year}) + "\n"
            for text, year in (("waves of the sea", 1999), ("waves of the sea!", 2001), ("taxes and wages", 2004))
        ))  # fmt: skip
        lite.run("index", corpus, **store)
        hits = [json.loads(line) for line in lite.run("search", "the ocean", "--json", "-k", 2, **store).splitlines()]
        assert {hit["metadata"]["year"] for hit in hits} == {1999, 2001}
        assert lite.run("similar", hits[0]["id"], "-k", 1, **store)
        assert lite.run("duplicates", "--threshold", "0.9", **store).startswith("2 documents")
        assert "3 documents" in lite.run("collections", **store)
        lite.run("delete", "documents", "--filter", "year>=2004", "--yes", **store)
        assert "2 documents" in lite.run("collections", **store)
        assert "pip install 'contrastive-st'" in lite.run("trends", code=2, **store)


@pytest.mark.parametrize(("model", "extras", "dimension"), [
    ("static-minilm", ["api"], 256), (str(ROOT / "tests/formats/made/bert-onnx"), ["api", "onnx"], 5),
])  # fmt: skip
def test_the_api(lite, model, extras, dimension):
    for extra in extras:
        lite.add(extra)
    command = [lite.python.with_name("contrastive-st"), "api", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=lite.environment) as server:
        try:
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
            body = json.dumps({"input": ["a cat", "a dog"]}).encode()
            request = urllib.request.Request(f"{address}/v1/embeddings", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert [len(item["embedding"]) for item in json.load(answer)["data"]] == [dimension] * 2
        finally:
            server.terminate()


def test_an_exported_model_gives_the_vectors_of_its_checkpoint(lite):
    lite.add("onnx")
    made, texts = ROOT / "tests/formats/made", ["a dog ran far away today", "", "rain " * 40]
    code = f"""
import json
from contrastive_st import SentenceEncoder
encoder, texts = SentenceEncoder({str(made / "bert-onnx")!r}), {texts!r}
print(json.dumps([encoder.encode(texts).tolist(), encoder.encode_query(texts).tolist(), encoder.knows(texts).tolist()]))
"""
    encoder = SentenceEncoder(made / "bert")
    found = json.loads(lite.code(code))
    np.testing.assert_allclose(found[0], encoder.encode(texts), atol=1e-5)
    np.testing.assert_allclose(found[1], encoder.encode_query(texts), atol=1e-5)
    assert found[2] == encoder.knows(texts).tolist() == [True, False, True]


CANNOT = [
    "train --train_file examples/data/pairs.csv --output_dir out", "train simcse --output_dir out", "evaluate .",
    "distill . --train_file examples/data/sentences.txt -o out", "soup . . -o out", "push . user/name",
    "convert . out --to package", "export . --format onnx --output out", "serve",
    "neighbors . --corpus examples/data/sentences.txt", "mine examples/data/pairs.csv -o out.jsonl",
    "classify --train_file examples/data/labelled_texts.csv -o out",
    "similarity a b --model model_cards/minilm-1-layer",
    "encode examples/data/sentences.txt -o out.parquet", "index examples/data/documents.jsonl --output out",
    "group examples/data/sentences.txt -o out.parquet", "encode packed.txt.zst -o out.npy",
]  # fmt: skip


def test_what_it_cannot_do_says_what_to_install(lite, tmp_path):
    for name in ("examples", "model_cards"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "packed.txt.zst").write_bytes(b"(\xb5/\xfd")
    code = f"""
import contextlib, io, os
from contrastive_st.cli import main
os.chdir({str(tmp_path)!r})
for command in {CANNOT}:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(command.split())
    print(command, code, said.getvalue().splitlines()[-1])
"""
    for command, line in zip(CANNOT, lite.code(code).splitlines(), strict=True):
        assert line.startswith(f"{command} 2 error: ")
        assert line.endswith(f"pip install 'contrastive-st{'[app]' * (command == 'serve')}'")


def test_a_name_it_cannot_import_says_what_to_install(lite):
    code = "import contrastive_st\ntry: contrastive_st.ContrastiveTrainer\nexcept ImportError as error: print(error)"
    assert lite.code(code).endswith("which is not installed; pip install 'contrastive-st'")
