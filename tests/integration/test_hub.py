"""Push and pull against a server that speaks the Hub's HTTP, through the command line and the public clients."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from hub_server import Fault
from small_checkpoints import tiny_bert

from conftest import save_both
from contrastive_st import AutoModelForCL, BertForCL, SentenceEncoder
from contrastive_st.models import add_lora
from contrastive_st.models.export import export

pytestmark = pytest.mark.slow
ALICE, BOB = "hf_aliceSecretToken0", "hf_bobSecretToken00"


@pytest.fixture(scope="module")
def checkpoint(tokenizer, tmp_path_factory):
    folder = save_both(BertForCL(tiny_bert(tokenizer)), tokenizer, tmp_path_factory.mktemp("checkpoint") / "out")
    (folder / "training_args.bin").write_bytes(b"a pickle")
    (folder / "optimizer.pt").write_bytes(b"a pickle")
    return folder


@pytest.fixture
def client(hub, hub_clients, tmp_path):
    """Run the command line, or Python code, against the server: another process, with a cache of its own."""

    def client(*args, code=None, token=ALICE, cache="cache", **environment):
        own = {**hub_clients.environment(tmp_path / cache), **({"HF_TOKEN": token} if token else {}), **environment}
        executable = hub_clients.offline if environment else hub_clients.executable
        command = [executable, *(["-c", code] if code else ["-m", "contrastive_st.cli"]), *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=own, cwd=tmp_path)
        assert not token or token not in done.stdout + done.stderr
        return done

    return client


def fails(done, words):
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert words in line, line
    return line


def works(done):
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_push_and_pull(hub, client, checkpoint, tmp_path):
    works(client("push", checkpoint, "alice/model", "--license", "mit"))
    files = hub.repos["alice/model"].files("main")
    assert {"config.json", "model.safetensors", "tokenizer.json", "modules.json", "2_Dense/model.safetensors"} <= set(
        files
    )
    assert not [name for name in files if name.endswith((".bin", ".pt"))]
    card = hub.content("alice/model", "README.md").decode()
    assert "license: mit" in card
    assert 'SentenceEncoder.from_pretrained("alice/model")' in card
    assert not (checkpoint / "README.md").exists()
    works(client("push", checkpoint, "alice/model"))  # nothing changed: no commit; what the author said stays
    assert hub.repos["alice/model"].titles() == ["Upload model", "initial commit"]
    hub.put("alice/model", {"README.md": b"---\nlicense: mit\n---\n# My own words\n"})
    works(client("push", checkpoint, "alice/model"))  # nor is a card replaced that was edited there
    assert hub.repos["alice/model"].titles() == ["put", "Upload model", "initial commit"]
    assert hub.content("alice/model", "README.md").endswith(b"# My own words\n")

    folder = Path(works(client("pull", "alice/model", token=None)))
    assert (folder / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
    before = len(hub.requests)
    assert works(client("pull", "alice/model", token=None, HF_HUB_OFFLINE="1")) == str(folder)
    assert len(hub.requests) == before
    works(client("pull", "alice/model", "--to", tmp_path / "copy", token=None))
    copied = {
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    }
    assert copied == set(files) - {".gitattributes"}
    assert not any(path.is_symlink() for path in (tmp_path / "copy").rglob("*"))
    fails(client("pull", "alice/model", "--to", tmp_path / "copy"), "exists already")
    fails(client("pull", "alice/other", HF_HUB_OFFLINE="1"), "neither a folder nor in the local cache")
    assert not [path for path, _, token in hub.requests if path.startswith("/cdn") and token]


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_an_exported_folder_is_pushed_pulled_and_opened_by_its_name(hub, client, checkpoint, tmp_path, backend):
    for package in ("onnxscript", "onnxruntime", backend):
        pytest.importorskip(package)
    folder = tmp_path / "exported"
    export(SentenceEncoder(checkpoint), folder, backend)
    (folder / "training_args.bin").write_bytes(b"a pickle")
    works(client("push", folder, "alice/graph"))
    graph = {path.relative_to(folder).as_posix() for path in (folder / backend).iterdir()}
    files = set(hub.repos["alice/graph"].files("main"))
    assert graph <= files
    assert {"config.json", "tokenizer.json", "modules.json"} <= files
    assert "training_args.bin" not in files
    card = hub.content("alice/graph", "README.md").decode()
    assert f'SentenceTransformer("alice/graph", backend="{backend}")' in card
    assert "AutoModel" not in card
    assert f"- {backend}\n" in card

    hub.put("alice/graph", {"onnx/model_O4.onnx": b"another graph", "openvino/other.bin": b"another graph"})
    works(client("pull", "alice/graph", "--to", tmp_path / "copy"))
    copied = {path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*")}
    other = "openvino" if backend == "onnx" else "onnx"
    assert not [name for name in copied if name.startswith(other)]
    assert all((tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes() for name in graph)
    code = "import sys; from contrastive_st import SentenceEncoder as E; print(E(sys.argv[1]).encode('a cat').tolist())"
    opened = works(client("alice/graph", code=code, cache="other"))  # from an empty cache
    assert json.loads(opened) == pytest.approx(SentenceEncoder(folder).encode("a cat").tolist(), abs=1e-6)


ENCODE = """
import json, sys
from contrastive_st import SentenceEncoder
from sentence_transformers import SentenceTransformer
for load in SentenceEncoder, lambda name: SentenceTransformer(name, device="cpu"):
    print(json.dumps(load(sys.argv[1]).encode(["a cat"]).tolist()))
"""


def test_the_last_model_pushed_to_a_name_is_the_one_that_opens(hub, client, checkpoint, tokenizer, tmp_path):
    """Of one file, in shards, or an adapter; what the owner put there stays."""
    works(client("push", checkpoint, "alice/base"))
    torch.manual_seed(1)
    sharded, adapter = tmp_path / "sharded", tmp_path / "adapter"
    BertForCL(tiny_bert(tokenizer)).save_pretrained(sharded, max_shard_size="10KB")
    tokenizer.save_pretrained(sharded)
    model = add_lora(AutoModelForCL.from_pretrained(checkpoint))
    for weight in filter(lambda weight: weight.requires_grad, model.parameters()):
        weight.data += torch.randn_like(weight) / 10
    save_both(model, tokenizer, adapter)
    about = json.loads((adapter / "adapter_config.json").read_text()) | {"base_model_name_or_path": "alice/base"}
    (adapter / "adapter_config.json").write_text(json.dumps(about))
    hub.put("alice/model", {"LICENSE": b"mine", "onnx/model.onnx": b"of another", "animals.classifier.json": b"{}"})
    vectors = []
    for folder in checkpoint, sharded, adapter, checkpoint:
        done = client("push", folder, "alice/model")
        works(done)
        assert "alice/model: the commit removes files of a former model: " in done.stderr
        shown = [json.loads(line) for line in works(client("alice/model", code=ENCODE, cache="new")).splitlines()]
        assert shown[0][0] == pytest.approx(shown[1][0], abs=1e-5)
        vectors.append(shown[0][0])
    assert vectors[0] == pytest.approx(vectors[3], abs=1e-6)
    assert all(vectors[0] != pytest.approx(other, abs=1e-3) for other in vectors[1:3])
    files = set(hub.repos["alice/model"].files("main"))
    assert files | {".gitattributes"} == {"LICENSE", *hub.repos["alice/base"].files("main")}


def test_revisions_and_pull_requests(hub, client, checkpoint):
    works(client("push", checkpoint, "alice/model"))
    works(client("push", checkpoint, "alice/model", "--revision", "dev", "--license", "mit", "--message", "licence"))
    repo = hub.repos["alice/model"]
    assert repo.titles("dev") == ["licence", "Upload model", "initial commit"]
    assert repo.titles("main") == ["Upload model", "initial commit"]
    url = works(client("push", checkpoint, "alice/model", "--create-pr", "--license", "cc0-1.0", token=BOB))
    assert url == f"{hub.endpoint}/alice/model/discussions/1"
    for revision, words in (("main", None), ("dev", "license: mit"), ("refs/pr/1", "license: cc0-1.0")):
        for name in (revision, repo.sha(revision)):  # by name and by commit
            text = (Path(works(client("pull", "alice/model", "--revision", name))) / "README.md").read_text()
            assert words in text if words else "license" not in text
    fails(client("pull", "alice/model", "--revision", "none"), "has no revision 'none'")
    fails(client("push", checkpoint, "alice/model", "--license", "mit", token=BOB), "does not allow this")


def test_private_and_gated_repositories_and_wrong_tokens(hub, client, checkpoint):
    works(client("push", checkpoint, "alice/secret", "--private"))
    assert hub.repos["alice/secret"].private
    works(client("pull", "alice/secret"))
    for token in (None, BOB):  # though it is in the cache
        fails(client("pull", "alice/secret", token=token), "or it is private")
    wrong = "hf_wrongwrongwrong"
    for command in (("pull", "alice/secret"), ("push", checkpoint, "alice/secret")):
        fails(client(*command, token=wrong, cache="wrong"), "does not accept this token")
    fails(client("push", checkpoint, "alice/secret", token=None), "")
    works(client("push", checkpoint, "alice/open"))
    fails(client("push", checkpoint, "alice/open", "--private"), "is public already")
    fails(client("push", checkpoint, "bob/model"), "bob/model")
    fails(client("pull", "alice/nothing"), "there is no alice/nothing")
    hub.repos["alice/open"].gated = True
    fails(client("pull", "alice/open", token=BOB, cache="gated"), "alice/open is gated")
    works(client("pull", "alice/open", cache="granted"))


@pytest.mark.parametrize("kind", ["drop", "corrupt", "503"])
def test_a_download_that_goes_wrong_leaves_nothing_that_loads(hub, client, checkpoint, kind):
    works(client("push", checkpoint, "alice/model"))
    weights = hub.repos["alice/model"].files("main")["model.safetensors"].oid
    hub.faults.append(Fault("GET", f"/cdn/{weights}", kind, times=99))
    fails(client("pull", "alice/model"), "alice/model")
    opens = ("similarity", "a", "b", "-m", "alice/model") if kind == "corrupt" else ("pull", "alice/model")
    fails(client(*opens, HF_HUB_OFFLINE="1"), "alice/model")
    hub.faults.clear()
    folder = Path(works(client("pull", "alice/model")))  # the next one is whole
    assert (folder / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
    if kind == "drop":  # once: the client goes on where it was cut off
        hub.faults.append(Fault("GET", f"/cdn/{weights}", "drop"))
        folder = Path(works(client("pull", "alice/model", cache="other")))
        assert (folder / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
        assert hub.faults[0].times == 0


@pytest.mark.parametrize(("method", "part", "kind"), [
    ("PUT", "/upload/", "corrupt"), ("POST", "/commit/", "500"), ("POST", "/verify", "422"),
])  # fmt: skip
def test_an_upload_that_goes_wrong_makes_no_commit(hub, client, checkpoint, method, part, kind):
    hub.faults.append(Fault(method, part, kind, times=99))
    fails(client("push", checkpoint, "alice/model"), "alice/model: the Hub answered")
    assert hub.repos["alice/model"].titles() == ["initial commit"]
    hub.faults.clear()
    works(client("push", checkpoint, "alice/model"))
    assert hub.content("alice/model", "model.safetensors") == (checkpoint / "model.safetensors").read_bytes()


def test_repositories_that_are_not_to_be_trusted(hub, client, checkpoint, tmp_path):
    config = (checkpoint / "config.json").read_bytes()
    hub.put("alice/pickle", {"config.json": config, "pytorch_model.bin": b"boom"})
    line = fails(client("pull", "alice/pickle"), "contrastive-st convert alice/pickle NEW_FOLDER --to package")
    assert "safetensors" in line
    fails(client("similarity", "a", "b", "-m", "alice/pickle"), "contrastive-st convert alice/pickle")
    index = json.dumps({"metadata": {}, "weight_map": {"x": "../../secret.safetensors"}}).encode()
    hub.put("alice/outside", {"config.json": config, "model.safetensors.index.json": index})
    fails(client("pull", "alice/outside"), "a place outside of its folder")
    modules = json.dumps([{"idx": 0, "name": "0", "path": "../x", "type": "y"}]).encode()
    weights = (checkpoint / "model.safetensors").read_bytes()
    hub.put("alice/modules", {"config.json": config, "modules.json": modules, "model.safetensors": weights})
    fails(client("pull", "alice/modules"), "a place outside of its folder")
    hub.put("alice/code", {"config.json": b'{"model_type": "odd", "auto_map": {"AutoConfig": "x.Y"}}', "x.py": b"boom"})
    fails(client("similarity", "a", "b", "-m", "alice/code"), "trust_remote_code=True")


def test_the_example_pushes_and_opens_what_it_pushed(hub, client, checkpoint):
    example = Path(__file__).parents[2] / "examples" / "by_feature" / "hub.py"
    said = works(client(checkpoint, "alice/example", code=example.read_text(encoding="utf-8")))
    assert said.endswith("largest difference of the vectors: 0.0")
    assert "license: apache-2.0" in hub.content("alice/example", "README.md").decode()


def test_a_classifier_goes_to_the_hub_and_back(hub, client, tmp_path):
    make = (
        "from contrastive_st import SentenceClassifier\n"
        "classifier = SentenceClassifier().fit(['a hot day', 'snow and ice'], ['warm', 'cold'])\n"
        "print(classifier.push_to_hub('alice/weather'), classifier.predict_proba(['snow']).tolist())"
    )
    address, shares = works(client(code=make)).split(" ", 1)
    assert address.endswith("alice/weather")
    assert not [name for name in hub.repos["alice/weather"].files("main") if name.endswith((".bin", ".pkl", ".joblib"))]
    assert "one of the labels cold, warm" in hub.content("alice/weather", "README.md").decode()
    reopened = (
        "from contrastive_st import SentenceClassifier\n"
        "print(SentenceClassifier.from_pretrained('alice/weather').predict_proba(['snow']).tolist())"
    )
    assert works(client(code=reopened, token=None, cache="new")) == shares
    (tmp_path / "new.txt").write_text("snow\n")
    command = ("classify", "new.txt", "--model", "alice/weather")
    assert works(client(*command, token=None, cache="new", HF_HUB_OFFLINE="1")).startswith("cold\t")
