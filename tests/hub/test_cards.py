"""Model cards: made from what was run, valid for the Hub, and their snippets run."""

import ast
import itertools
import json
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import transformers
from datasets import Dataset
from huggingface_hub import ModelCard
from refusals import refused, told
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from small_checkpoints import tiny_bert

from conftest import SENTENCES, save_both
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InputError,
    SentenceEncoder,
    tokenize,
)
from contrastive_st.cli import main
from contrastive_st.errors import one_line
from contrastive_st.evaluation import evaluate
from contrastive_st.evaluation.datasets.senteval import Splits, pair_rows
from contrastive_st.evaluation.report.report import Report, write_metadata
from contrastive_st.evaluation.scorers import Score
from contrastive_st.evaluation.tasks import retrieval_task, similarity_task, tasks
from contrastive_st.files.folders import SHIPPED
from contrastive_st.hub.cards import CardData, card_files, write_card
from contrastive_st.models import POOLINGS, QuickThoughtsConfig, QuickThoughtsGRU

PUBLISHED = Path(__file__).parents[2] / "model_cards"
PAIR = ["A sentence.", "Another one."]


@pytest.fixture(scope="module")
def trained(tokenizer, tmp_path_factory):
    """A trained folder: weights, tokenizer, training, state."""
    folder = tmp_path_factory.mktemp("trained") / "tiny"
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=4, max_steps=3, logging_steps=1, report_to=[], disable_tqdm=True
    )
    rows = tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16)
    trainer = ContrastiveTrainer(
        BertForCL(tiny_bert(tokenizer)), args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.metadata = {"data": {"name": "alice/sentences", "from": "hub", "licence": "cc0-1.0"}}
    trainer.train()
    trainer.save_model()
    trainer.save_state()
    return folder


@pytest.fixture
def checkpoint(trained, tmp_path):
    """Without the state of the trainer, of which a card draws a curve, for a second."""
    without = shutil.ignore_patterns("trainer_state.json", "training_curve.png")
    return Path(shutil.copytree(trained, tmp_path / "tiny", ignore=without))


def add_report(folder, names=("tiny",)):
    known = tasks()
    chosen = [known["STSB"], known["STS12"], known["MR"], retrieval_task("faq", [("a", "b")])]
    figures = []
    for i, name in enumerate(names):
        about = {"model": name, "pooling": "cls", "max_length": 16}
        figures += [
            Score("STSB", "dev", "spearman", 0.5 + i, n=1500, **about),
            Score("STSB", "test", "spearman", 0.61239 - i, n=1379, **about),
            Score("STS12", "test", "spearman", None, note="no folder STS12-en-test", **about),
            Score("MR", "cross-validation", "accuracy", 0.7, "10 folds", 100, deviation=0.01, **about),
            Score("faq", "test", "mrr@10", 0.25, "among 9", 9, **about),
        ]
    Report("files", chosen, figures).save(folder / "evaluation")


def metadata(folder):
    return ModelCard.load(folder / "README.md").data


def run_snippets(folder):
    """The vectors that each of the card's snippets makes."""
    text = (folder / "README.md").read_text()
    found = re.findall(r"With ([\w-]+(?: package)?):\n\n```python\n(.*?)\n```", text, re.DOTALL)
    vectors = {}
    for loader, code in found:
        scope = {}
        exec(compile(code, loader, "exec"), scope)
        vectors[loader] = np.asarray(scope["embeddings"])
    return vectors


def foreign(*more, **transformer):
    """Makes a folder that sentence-transformers saves from one of this package, with modules after the pooling."""

    def write(folder):
        first = modules.Transformer(str(folder), **transformer)
        parts = [first, modules.Pooling(16, "mean"), *(kind(*size) for kind, *size in more)]
        SentenceTransformer(modules=parts, device="cpu").save_pretrained(str(folder), create_model_card=False)

    return write


def padded_left(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"padding_side": "left"}))


def cut_short(folder):
    about = json.loads((folder / "sentence_bert_config.json").read_text())
    (folder / "sentence_bert_config.json").write_text(json.dumps(about | {"max_seq_length": 3}))


def saved_with(**settings):
    return lambda folder: SentenceEncoder(folder, **settings).save_pretrained(folder)


PROMPT = {"prompts": {"query": "the cat: "}, "default_prompt_name": "query"}
#: By name: settings of the model, what is then done to its folder, and whether a few lines of transformers give it
SNIPPETS = {
    **{pooling: ({"pooling": pooling}, None, True) for pooling in POOLINGS},
    "mlp_only_train": ({"pooling": "cls", "mlp_only_train": True}, None, True),
    "normalize": ({"pooling": "mean", "normalize": True}, None, True),
    "dense": ({"pooling": "mean", "dense": [{"out_features": 8}]}, None, False),
    "truncate_dim": ({"pooling": "mean"}, saved_with(truncate_dim=8), True),
    "default prompt": ({"pooling": "mean"}, saved_with(**PROMPT), True),
    "all three": ({"pooling": "mean", "normalize": True}, saved_with(truncate_dim=8, **PROMPT), True),
    "prompt that is not pooled": ({"pooling": "mean", "include_prompt": False}, saved_with(**PROMPT), False),
    "padded left": ({"pooling": "last"}, padded_left, True),
    "cut short": ({"pooling": "mean"}, cut_short, True),
    "their dense": ({"pooling": "mean"}, foreign((modules.Dense, 16, 8)), False),
    "their normalize": ({"pooling": "mean"}, foreign((modules.Normalize,)), True),
    "their layer": ({"pooling": "mean"}, foreign((modules.LayerNorm, 16)), False),
    "their lower case": ({"pooling": "mean"}, foreign(do_lower_case=True), True),
}


# transformers, with which sentence-transformers opens it, warns of the weights of the dense layer
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.allow_warnings] * (case == "dense")) for case in SNIPPETS]
)
def test_every_snippet_of_a_card_runs_and_gives_the_embedding(case, bert_config, tokenizer, tmp_path):
    settings, change, in_transformers = SNIPPETS[case]
    save_both(BertForCL(bert_config, **settings), tokenizer, tmp_path)
    if change:
        change(tmp_path)
    write_card(tmp_path, name=str(tmp_path), overwrite=True)
    vectors = run_snippets(tmp_path)
    assert vectors.keys() == {"this package", "sentence-transformers"} | (
        {"transformers"} if in_transformers else set()
    )
    expected = SentenceEncoder.from_pretrained(tmp_path).encode(PAIR)
    if case == "padded left":
        del vectors["sentence-transformers"]  # with which BERT counts the positions of the padding
    for loader, found in vectors.items():
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=loader)


@pytest.mark.allow_warnings
def test_snippets_of_an_architecture_of_its_own_name_the_flag_and_run(tmp_path, tokenizer):
    model = QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=8))
    model.save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, pad_token="[PAD]").save_pretrained(
        tmp_path
    )
    write_card(tmp_path, name=str(tmp_path))
    text = (tmp_path / "README.md").read_text()
    assert text.count("trust_remote_code=True") == 4  # in the text, and wherever it is needed
    vectors = run_snippets(tmp_path)
    assert vectors.keys() == {"this package", "sentence-transformers", "transformers"}
    for loader, found in vectors.items():
        np.testing.assert_allclose(found, vectors["this package"], rtol=0, atol=1e-6, err_msg=loader)


def test_the_head_of_a_card_is_that_of_what_was_run(checkpoint, trained):
    shutil.copy(trained / "trainer_state.json", checkpoint)
    add_report(checkpoint)
    card = ModelCard.load(write_card(checkpoint, data=CardData("apache-2.0", ["en"], ["alice/other"])))
    assert "| STS12 | test | spearman | all |  | not run |\n" in card.text
    head = card.data
    assert (head.license, head.language) == ("apache-2.0", ["en"])
    assert head.datasets == ["alice/other", "alice/sentences"]
    assert {"contrastive-st", "simcse"} <= set(head.tags)
    assert "base_model" not in head.to_dict()
    shown = {(r.dataset_name, r.dataset_split): r.metric_value for r in head.eval_results}
    assert shown == {("STSB", "test"): 61.24, ("MR", "cross-validation"): 70.0, ("faq", "test"): 25.0}
    assert (checkpoint / "training_curve.png").read_bytes()[:4] == b"\x89PNG"


NASTY = "</td><script>alert(1)</script> | `rm -rf` [x](javascript:y) ![z](http://z) \x1b[2J\n# Title\n```\nfence"


def poisoned(value):
    """A record with markup in the place of every text."""
    if isinstance(value, dict):
        return {f"{name}<b>" if name == "temperature" else name: poisoned(item) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return NASTY if isinstance(value, str) and value not in ("hub", "folder", "scratch") else value


def test_what_others_wrote_is_text_in_a_card_and_never_markup_or_code(checkpoint):
    add_report(checkpoint)
    path = checkpoint / "training_metadata.json"
    path.write_text(json.dumps(poisoned(json.loads(path.read_text()) | {"hardware": {"cpu": "x", "gpus": ["y"]}})))
    report = checkpoint / "evaluation" / "report.json"
    report.write_text(report.read_text().replace('"faq"', json.dumps(NASTY)).replace("no folder STS12", NASTY[:30]))
    name = 'x"); import os; os.abort() #\n<i>`'
    write_card(checkpoint, name=name)
    text = ModelCard.load(checkpoint / "README.md").text
    blocks = re.findall(r"^(`{3,})(\w*)\n(.*?)\n\1$", text, re.DOTALL | re.MULTILINE)
    assert [language for _, language, _ in blocks] == ["python"] * 3 + ["text", "bibtex"]
    for _, language, code in blocks:
        if language == "python":
            calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
            assert not [call for call in calls if call.startswith("os")]
            assert name in [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    shown = re.sub(r"^(`{3,})(\w*)\n(.*?)\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    shown = re.sub(r"(?<!\\)`[^`\n]*`", "", shown).replace("<!-- contrastive-st card", "")
    assert not re.search(r"<\w|</", shown), shown
    assert not re.search(r"(?<!\\)\]\((?!training_curve.png\))", shown), shown
    assert "\x1b" not in text
    assert re.findall("^#+ (.*)", shown, re.MULTILINE)[1:] == [
        "Use", "Training", "Evaluation", "Limits", "Citation",
    ]  # fmt: skip
    for row in (line for line in text.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) in (3, 7), row


@pytest.mark.parametrize(
    "damage",
    [{"run": 3}, {"loss": []}, {"base_model": "x"}, {"run": {"steps": "a", "of_steps": 2}}, {"launch": {"argv": 7}}, 5],
)
def test_damaged_training_metadata_is_one_line(checkpoint, damage):
    path = checkpoint / "training_metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage} if isinstance(damage, dict) else damage))
    before = (checkpoint / "README.md").exists()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Python says what is wrong, and the line has the folder
        write_card(checkpoint)
    assert checkpoint.name in one_line(caught.value)
    assert (checkpoint / "README.md").exists() == before


def test_only_a_base_model_of_the_hub_is_named_as_one(checkpoint):
    path = checkpoint / "training_metadata.json"
    training = json.loads(path.read_text())
    for base, named in (
        ({"from": "hub", "name": "google-bert/bert-base-uncased", "commit": "abc"}, "google-bert/bert-base-uncased"),
        ({"from": "folder", "name": "mlm"}, None),
    ):
        path.write_text(json.dumps(training | {"base_model": base}))
        write_card(checkpoint)
        assert metadata(checkpoint).to_dict().get("base_model") == named


def test_what_is_not_recorded_is_said_to_be_so(checkpoint):
    (checkpoint / "training_metadata.json").unlink()
    text = write_card(checkpoint).read_text()
    assert "was not recorded" in text
    assert "No report is recorded" in text
    assert not [words for words in ("hardware", "training curve", "model-index") if words in text]


def test_a_card_edited_by_hand_is_kept(checkpoint, capsys):
    assert main(["card", str(checkpoint), "--license", "mit"]) == 0
    assert main(["card", str(checkpoint)]) == 0
    assert metadata(checkpoint).license == "mit"  # what the author said of it stays
    card = checkpoint / "README.md"
    card.write_text(card.read_text().replace("## Limits", "## Limits\n\n* My own words."))
    assert "edited by hand" in refused(capsys, "card", str(checkpoint))
    assert "My own words" in card.read_text()
    assert main(["card", str(checkpoint), "--overwrite"]) == 0
    assert "My own words" not in card.read_text()


def test_metrics_stay_with_the_weights_that_they_are_of(checkpoint, trained, tokenizer, caplog):
    """Those of `evaluate --card`, which is no edit by hand."""
    add_report(checkpoint)
    write_card(checkpoint)
    write_metadata(Report.read(checkpoint / "evaluation" / "report.json"), "tiny", checkpoint / "README.md")
    shutil.rmtree(checkpoint / "evaluation")
    SentenceEncoder(trained).save_pretrained(checkpoint)
    assert "No evaluation is recorded" not in write_card(checkpoint).read_text()
    assert len(metadata(checkpoint).eval_results) == 3
    assert "edited" not in caplog.text
    SentenceEncoder(BertForCL(tiny_bert(tokenizer)), tokenizer).save_pretrained(checkpoint)
    assert metadata(checkpoint).eval_results is None
    assert not (checkpoint / ".eval_results").exists()
    assert "other weights than those of its records: .eval_results is now .eval_results.old" in caplog.text
    assert "training_metadata.json is now training_metadata.json.old, README.md has no metrics" in caplog.text
    assert "was not recorded" in write_card(checkpoint).read_text()


def test_scores_of_data_sets_that_the_report_lacks_stay_in_the_card(checkpoint):
    """And those that it has are the report's."""
    add_report(checkpoint)
    write_card(checkpoint)
    of_own = [Score(name, "test", "spearman", 0.9, n=9, model="tiny") for name in ("own", "STSB")]
    own = [similarity_task(score.task, lambda: Splits({}, {})) for score in of_own]
    write_metadata(Report("files", own, of_own), "tiny", checkpoint / "README.md")
    wanted = {"own": 90.0, "STSB (own data)": 90.0, "STSB": 61.24, "MR": 70.0, "faq": 25.0}
    for _ in range(2):
        write_card(checkpoint)
        assert {r.dataset_name: r.metric_value for r in metadata(checkpoint).eval_results} == wanted


def test_a_card_elsewhere_has_the_name_of_the_checkpoint(checkpoint, tmp_path):
    assert main(["card", str(checkpoint), "--output", str(tmp_path / "cards" / "mine")]) == 0
    assert "\n# tiny\n" in (tmp_path / "cards" / "mine" / "README.md").read_text()


@pytest.mark.parametrize("dense", [False, True])
def test_the_pooling_of_a_folder_of_sentence_transformers(bert_config, tokenizer, tmp_path, dense):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    library = pytest.importorskip("sentence_transformers")
    save_both(transformers.BertModel(bert_config), tokenizer, tmp_path / "bert")
    layers = [modules.Transformer(str(tmp_path / "bert")), modules.Pooling(bert_config.hidden_size, "cls")]
    layers += [modules.Dense(bert_config.hidden_size, 4)] if dense else []
    library.SentenceTransformer(modules=layers, device="cpu").save_pretrained(str(tmp_path / "tiny"))
    text = write_card(tmp_path / "tiny", overwrite=True).read_text()
    assert "(bert, cls_before_pooler pooling)" in text
    assert ("embeddings = output.last_hidden_state[:, 0]" in text) != dense


def test_a_folder_of_a_card_has_all_but_the_weights_and_makes_the_same_card(checkpoint, trained, tmp_path):
    shutil.copy(trained / "trainer_state.json", checkpoint)
    add_report(checkpoint)
    output = tmp_path / "model_cards" / "tiny"
    assert main(["card", str(checkpoint), "--output", str(output), "--name", "alice/tiny", "--license", "mit"]) == 0
    files = {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}
    assert {"README.md", "training_metadata.json", "training_curve.png", "evaluation/report.json"} <= files
    assert not [name for name in files if name.endswith((".safetensors", ".bin", "trainer_state.json"))]
    agree(output)
    text = (output / "README.md").read_text()
    (output / "README.md").write_text(text.replace("61.24", "81.24"))
    with pytest.raises(AssertionError):
        agree(output)


def test_a_report_of_several_models_must_name_this_one(checkpoint):
    add_report(checkpoint, names=("other", "tiny"))
    write_card(checkpoint)
    assert "-38.76" in (checkpoint / "README.md").read_text()
    link = checkpoint.parent / "latest"
    link.symlink_to(checkpoint)
    assert "-38.76" in write_card(link).read_text()
    link.unlink()
    renamed = checkpoint.rename(checkpoint.parent / "renamed")
    with pytest.raises(InputError, match="renamed"):
        write_card(renamed)
    (renamed / "evaluation" / "report.json").write_text("{}")
    with pytest.raises(KeyError) as caught:
        write_card(renamed)
    assert "report.json" in one_line(caught.value)


@pytest.mark.parametrize("options", [{}, {"pooling": "mean"}, {"max_length": 8}])
def test_of_models_with_one_folder_name_a_card_has_the_scores_of_its_own(checkpoint, tokenizer, tmp_path, options):
    """Also under another name, or after a rename; a report that cannot tell them apart is refused."""
    other = tmp_path / "other" / "tiny"
    BertForCL(tiny_bert(tokenizer)).save_pretrained(other)
    tokenizer.save_pretrained(other)
    pairs = list(itertools.combinations(SENTENCES[:8], 2))
    rows = pair_rows(pairs, list(range(len(pairs))))
    task = similarity_task("own", lambda: Splits({"test": rows}, {}))
    models = [str(other), str(checkpoint)]

    def value(folder):
        write_card(folder, overwrite=True)
        [result] = metadata(folder).eval_results
        return result.metric_value

    for names in (None, ["tiny", "x"], ["x", "y"]):
        report = evaluate(models, [task], ".", names=names, **options)
        wanted = [round(100 * report.main(name, task).value, 2) for name in report.models]
        assert wanted[0] != wanted[1]
        for folder in models:
            report.save(Path(folder, "evaluation"))
        assert [value(folder) for folder in (other, checkpoint)] == wanted
    renamed = other.rename(tmp_path / "renamed")
    assert value(renamed) == wanted[0]
    evaluate([str(checkpoint)], [task], ".", **options).save(renamed / "evaluation")
    with pytest.raises(InputError, match="none of them may be renamed; evaluate renamed alone, under this name"):
        write_card(renamed)
    given = SentenceEncoder(checkpoint, prompts={"query": "q: "}, truncate_dim=8, **options)
    report = evaluate([str(renamed), given], [task], ".", **options)
    report.save(checkpoint / "evaluation")
    assert value(checkpoint) == round(100 * report.main("tiny", task).value, 2)  # by its name
    evaluate([given], [task], ".", names=["x"], **options).save(renamed / "evaluation")
    with pytest.raises(InputError, match="evaluate renamed alone, under this name"):
        write_card(renamed)
    evaluate([given], [task], ".", names=["renamed"], **options).save(renamed / "evaluation")
    assert write_card(renamed)
    add_report(checkpoint, names=("tiny", "tiny (2)"))  # of before
    with pytest.raises(InputError, match="several of them may be tiny"):
        write_card(checkpoint)


def _scores(report):
    content = json.loads(report.read_text())
    return content["scores" if "scores" in content else "figures"]  # as they were called before


def agree(folder):
    """Card and evaluation JSON of a published folder agree, and the card is what the command makes of the folder."""
    card, report = ModelCard.load(folder / "README.md"), folder / "evaluation" / "report.json"
    rows = _scores(report) if report.is_file() else []
    for result in card.data.eval_results or []:
        own = [r for r in rows if (r["task"], r["split"], r["metric"]) == (
            result.dataset_name, result.dataset_split, result.metric_type) and r["value"] is not None]  # fmt: skip
        assert any(round(100 * row["value"], 2) == result.metric_value for row in own), result
    index = card.data.to_dict().get("model-index")
    name = index[0]["name"] if index else re.search(r"^# (.+)$", card.text, re.MULTILINE)[1]
    with tempfile.TemporaryDirectory() as scratch:
        copied = shutil.copytree(folder, Path(scratch, folder.name))
        write_card(copied, name=name, overwrite=True)
        assert (copied / "README.md").read_text() == (folder / "README.md").read_text()


@pytest.mark.parametrize("folder", sorted(path for path in PUBLISHED.glob("*") if path.is_dir()), ids=lambda p: p.name)
def test_published_cards_and_their_evaluation_agree(folder):
    agree(folder)


def test_a_dry_push_shows_what_a_visitor_of_each_model_will_see(capsys):
    for folder in (PUBLISHED / "minilm-1-layer", SHIPPED):
        listing, _, card = told(capsys, "push", folder, "user/name", "--dry_run").out.partition("README.md:\n")
        head = ModelCard(card.strip() + "\n").data.to_dict()
        assert head["widget"][0]["source_sentence"]
        assert head["model-index"][0]["name"] == "user/name"
        assert {"STS12", "STSB"} <= {result["dataset"]["name"] for result in head["model-index"][0]["results"]}
        assert ".eval_results/STSBenchmark.yaml" in listing


def test_texts_to_try_are_for_english_models_and_stay_as_the_author_chose_them(checkpoint, trained):
    shutil.copy(trained / "trainer_state.json", checkpoint)
    widget = [{"source_sentence": "eine Katze", "sentences": ["ein Kater", "Steuern"]}]
    write_card(checkpoint, data=CardData(language=["de"]))
    assert "widget" not in metadata(checkpoint).to_dict()
    write_card(checkpoint, name="alice/tiny", data=CardData(language=["en"]))
    head = metadata(checkpoint).to_dict()
    assert head["widget"][0]["sentences"]
    assert head["thumbnail"].endswith("/alice/tiny/resolve/main/training_curve.png")
    card = ModelCard.load(checkpoint / "README.md")
    card.data.widget = widget
    (checkpoint / "README.md").write_text(f"---\n{card.data.to_yaml()}\n---\n")
    write_card(checkpoint)
    assert metadata(checkpoint).to_dict()["widget"] == widget


GATED = (
    "license: other\nlicense_name: mine\nlicense_link: LICENSE\nextra_gated_prompt: You agree\n"
    "extra_gated_fields:\n  Company: text\ninference: false\nthumbnail: https://x/y.png\nbase_model: x/y\n"
)
OWNERS = ("license_name", "license_link", "extra_gated_prompt", "extra_gated_fields", "inference")


@pytest.mark.parametrize("here", ["nothing", "metadata", "another licence", "edited by hand"])
def test_what_the_owner_wrote_on_the_hub_stays(here, checkpoint, tmp_path, caplog):
    (there := tmp_path / "there.md").write_text(f"---\n{GATED}---\n")
    card = checkpoint / "README.md"
    if here == "metadata":
        card.write_text("---\nlicense: other\nlicense_name: ours\ntags: [x]\n---\n")
    if here in ("another licence", "edited by hand"):
        write_card(checkpoint, data=CardData("mit", ["en"]))
    if here == "edited by hand":
        card.write_text(card.read_text().replace("## Limits", "## Limits\n\n* My own words."))
    card.write_bytes(card_files(checkpoint, "alice/tiny", before=[there])["README.md"])
    head, wanted = metadata(checkpoint).to_dict(), ModelCard.load(there).data.to_dict()
    assert {name: head[name] for name in OWNERS} == {name: wanted[name] for name in OWNERS}
    assert head["license"] == ("mit" if here == "edited by hand" else "other")
    differs = {"metadata": "differ in license_name", "nothing": ""}.get(here, "differ in license:")
    assert (differs in caplog.text) if differs else ("differ" not in caplog.text)
    assert ("My own words" in card.read_text()) == (here == "edited by hand")
    if here != "edited by hand":
        assert (head["thumbnail"], head["base_model"]) == (wanted["thumbnail"], "x/y")
        caplog.clear()
        card.write_bytes(card_files(checkpoint, "b", CardData("mit"), before=[card])["README.md"])
        again = metadata(checkpoint).to_dict()  # of a card of this package, what it makes is made again
        assert "base_model" not in again
        assert again["license"] == "mit"
        assert {name: again[name] for name in OWNERS} == {name: head[name] for name in OWNERS}
        assert "differ" not in caplog.text


def test_a_card_that_is_written_over_keeps_the_metadata_of_the_one_edited_by_hand(checkpoint):
    write_card(checkpoint)
    card = checkpoint / "README.md"
    card.write_text(card.read_text().replace("\n---\n", "\nlicense: mit\nlicense_link: LICENSE\n---\n", 1))
    write_card(checkpoint, overwrite=True)
    assert (metadata(checkpoint).license, metadata(checkpoint).license_link) == ("mit", "LICENSE")


@pytest.mark.parametrize(("written", "languages"), [("no", ["no"]), ("[en, no]", ["en", "no"]), ("de", ["de"])])
def test_norwegian_stays_a_language(written, languages, checkpoint):
    """In YAML, `no` without quotes is False."""
    (checkpoint / "README.md").write_text(f"---\nlanguage: {written}\nlicense: mit\n---\n")
    head = ModelCard.load(write_card(checkpoint)).data
    assert (head.language, head.license) == (languages, "mit")
    assert ModelCard.load(write_card(checkpoint)).data.language == languages  # of the card that was written
