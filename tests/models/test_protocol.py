"""The model that comes with the package: a real checkpoint for four loaders, opened where no model is named."""

import filecmp

import pytest
from refusals import error_of

from contrastive_st import InputError, cli
from contrastive_st.evaluation import evaluate
from contrastive_st.files.folders import SHIPPED, default_model
from contrastive_st.models import AutoModelForCL, SentenceEncoder, load_tokenizer
from contrastive_st.models.architectures import static
from contrastive_st.models.protocol import open_encoder
from contrastive_st.static_vectors import StaticVectors

MIB = 2**20


def test_it_is_small_and_its_code_is_that_of_the_package():
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*.*")) < 9 * MIB
    assert filecmp.cmp(SHIPPED / "static.py", static.__file__, shallow=False)
    assert {path.name for path in SHIPPED.iterdir()} >= {"README.md", "training_metadata.json"}


def test_it_is_opened_where_no_model_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_MODEL", raising=False)
    light, whole = open_encoder(), SentenceEncoder()
    assert isinstance(light._running, StaticVectors)
    assert light.name == whole.name == SHIPPED.name == default_model()
    assert open_encoder("static-minilm").fingerprint == light.fingerprint
    assert light.fingerprint == whole.fingerprint
    with pytest.raises(InputError, match="fixed pooling"):
        open_encoder(pooling="max")
    monkeypatch.setenv("CONTRASTIVE_ST_MODEL", str(tmp_path / "other"))
    assert default_model() == str(tmp_path / "other")


def test_classify_wants_a_folder_for_what_it_learns(tmp_path, capsys):
    """Not that of the installed package."""
    (tmp_path / "warm.txt").write_text("a hot day\nthe sun burns\n")
    (tmp_path / "cold.txt").write_text("snow and ice\na freezing night\n")
    learn = ["classify", "--train_file", f"warm={tmp_path / 'warm.txt'}", f"cold={tmp_path / 'cold.txt'}"]
    assert "--output FOLDER" in error_of(capsys, *learn)
    assert cli.main([*learn, "--output", str(tmp_path / "seasons")]) == 0
    (tmp_path / "new.txt").write_text("frost on the window\n")
    assert cli.main(["classify", str(tmp_path / "new.txt"), "--output", str(tmp_path / "seasons")]) == 0
    assert capsys.readouterr().out.startswith("cold\t")


@pytest.mark.slow
@pytest.mark.data
def test_its_figures_are_those_of_its_card(data_root):
    report = evaluate([str(SHIPPED)], "STS12,STS14,STS15,STSB", data_root)
    card = (SHIPPED / "README.md").read_text(encoding="utf-8").splitlines()
    for task in report.tasks:
        [row] = [line for line in card if line.startswith(f"| {task.name} | ")]
        assert row.endswith(f" {report.main(SHIPPED.name, task).text} |")


def test_the_name_of_the_shipped_model_opens_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert AutoModelForCL.from_pretrained("static-minilm").config.hidden_size == 256
    assert len(load_tokenizer("static-minilm")) == 30522
    (tmp_path / "static-minilm").mkdir()  # a folder of that name goes before
    with pytest.raises(InputError, match="static-minilm"):
        AutoModelForCL.from_pretrained("static-minilm")
