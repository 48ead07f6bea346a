"""A class is its name: sources that number the same classes differently are read alike, whatever the door."""

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    LabelledPairCollator,
    Mixture,
    SoftmaxLoss,
    read_examples,
    tokenize,
)
from contrastive_st.data import MixtureCollator
from contrastive_st.data.classes import class_names, numbered_as
from contrastive_st.data.labels import read_labels
from contrastive_st.data.reading.examples import NLI_LABELS
from contrastive_st.evaluation.datasets.user_data import read_scored_pairs

NAMES, OTHER = ["neutral", "NA", "agrees"], ["agrees", "neutral", "NA"]


def pairs(names, chosen=("NA", "agrees", "neutral", "NA"), word="cat"):
    features = Features({"sentence1": Value("string"), "sentence2": Value("string"), "label": ClassLabel(names=names)})
    texts = [f"the {word} {name}" for name in chosen]
    numbers = [names.index(name) for name in chosen]
    return Dataset.from_dict({"sentence1": texts, "sentence2": texts, "label": numbers}, features=features)


def words_of(rows):
    """The name that the rows give each class, and the one in its texts."""
    return {(class_names(rows)[row["label"]], row["sentence1"].split()[-1]) for row in rows}


def write(data, path):
    if path.suffix == ".csv":
        data = data.map(lambda row: {"label": data.features["label"].int2str(row["label"])},
                        features=Features(dict.fromkeys(data.features, Value("string"))))  # fmt: skip
    {".parquet": data.to_parquet, ".csv": data.to_csv, "": data.save_to_disk}[path.suffix](path)
    return str(path if path.suffix else next(path.glob("*.arrow")))


@pytest.mark.parametrize("endings", [(".parquet", ".parquet"), (".parquet", ""), (".csv", ".parquet")], ids=str)
def test_files_that_number_their_classes_differently(endings, tmp_path):
    files = [write(pairs(names), tmp_path / f"{i}{ending}")
             for i, (names, ending) in enumerate(zip((NAMES, OTHER), endings, strict=True))]  # fmt: skip
    rows, roles = read_examples(files)
    assert len(rows) == (8 if ".csv" not in endings else 4)  # in delimited text, NA is not a label
    assert all(name == word for name, word in words_of(rows))
    assert class_names(rows) == [name for name, _ in sorted(roles.classes.items(), key=lambda item: item[1])]
    texts, labels = read_labels(files, ["sentence1=text", "label"])
    assert [text.split()[-1] for text in texts] == labels


def test_numbers_without_names_beside_names_are_refused(tmp_path):
    plain = pairs(NAMES).cast_column("label", Value("int64"))
    files = [write(pairs(NAMES), tmp_path / "0.parquet"), write(plain, tmp_path / "1.parquet")]
    for order in (files, files[::-1]):
        with pytest.raises(InputError, match=r"1\.parquet"):
            read_examples(order)


@pytest.mark.parametrize(
    "names", [["contradiction", "entailment", "neutral"], ["1", "0"], ["no", "yes"], ["0", "1"], [*NLI_LABELS]], ids=str
)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_numbers_are_no_other_class_than_their_place_in_a_class_label(names, ending, tmp_path):
    stored, plain = pairs(names, chosen=names), tmp_path / f"plain{ending}"
    {".csv": stored.to_csv, ".jsonl": stored.to_json}[ending](plain)  # numbers
    sources = [write(stored, tmp_path / "stored.parquet"), str(plain)]
    for first, second in (sources, sources[::-1]):
        _, roles = read_examples(first)
        if names in (["0", "1"], [*NLI_LABELS]):
            assert read_examples(second, classes=roles.classes)[0]["label"][:] == [*range(len(names))]
            continue
        with pytest.raises(InputError, match="in column 'label' is"):
            read_examples(second, classes=roles.classes)
        with pytest.raises(InputError, match="has numbers, and other files have names"):
            read_examples([first, second])


def test_stars_are_names(tmp_path):
    names = ["1", "2", "3"]
    files = [write(pairs(names, chosen=names), tmp_path / f"a{ending}") for ending in (".parquet", ".csv")]
    assert set(read_examples(files)[0]["label"][:]) == {1, 2, 3}
    assert read_examples(files[1], classes=read_examples(files[0])[1].classes)[0]["label"][:] == [0, 1, 2]


def test_minus_one_is_no_class_but_may_be_the_name_of_one():
    data = pairs(["-1", "0", "1"], ["-1", "1"])
    rows, roles = read_examples(data)
    assert (rows["label"][:], roles.classes) == ([0, 2], {"-1": 0, "0": 1, "1": 2})
    data = data.remove_columns("label").add_column("label", [-1, 2], feature=data.features["label"])
    assert read_examples(data)[0]["label"][:] == [2]
    words = Dataset.from_dict({"text": ["a b", "c d"], "label": ["-1", "agrees"]})
    assert read_examples(words, classes={"agrees": 0})[0]["label"][:] == [0]


def test_minus_one_is_no_score_either(tmp_path):
    data = pairs(["different", "same"], ["different", "same", "same"])
    data = data.remove_columns("label").add_column("label", [0, -1, 1], feature=data.features["label"])
    assert read_examples(data, ["sentence1", "sentence2", "label=score"])[0]["score"][:] == [0.0, 1.0]
    assert read_scored_pairs(write(data, tmp_path / "pairs.parquet")).labels.tolist() == [0.0, 1.0]


def test_validation_rows_have_the_numbers_of_the_training_rows():
    _, roles = read_examples(pairs(NAMES))
    rows, _ = read_examples(pairs(OTHER, ["agrees", "NA"]), classes=roles.classes)
    assert (rows["label"][:], words_of(rows)) == ([2, 1], {("agrees", "agrees"), ("NA", "NA")})
    with pytest.raises(InputError, match="disagrees"):
        read_examples(pairs(["disagrees", "NA"], ["disagrees"]), classes=roles.classes)


def test_a_loss_has_room_for_every_class_that_has_a_name():
    assert SoftmaxLoss.settings_from(read_examples(pairs(NAMES, ["neutral", "NA"]))[0]) == {"num_labels": 3}


@pytest.mark.parametrize("mixed", [False, True])
def test_the_trainer_goes_by_names(mixed, tokenizer, bert_config, tmp_path):
    loss = SoftmaxLoss()
    made = lambda names, *chosen: tokenize(pairs(names, *chosen), tokenizer)
    train, held_out = made(NAMES), [made(NAMES), made(OTHER)]
    collator = LabelledPairCollator(tokenizer)
    if mixed:
        train, held_out, collator = (Mixture({"nli": train}), [Mixture({"nli": own}) for own in held_out],
                                     MixtureCollator({"nli": collator}))  # fmt: skip
        from contrastive_st.losses import MixtureLoss

        loss = MixtureLoss({"nli": loss})
    args = ContrastiveTrainingArguments(str(tmp_path), per_device_eval_batch_size=4, report_to="none")
    model = BertForCL(bert_config, loss=loss, pooling="mean")
    trainer = ContrastiveTrainer(model, args, collator, train, held_out[0], processing_class=tokenizer)
    labels = [trainer.predict(rows).label_ids for rows in held_out]
    np.testing.assert_array_equal(*labels)
    same, other = (trainer.evaluate(rows)["eval_loss"] for rows in held_out)
    assert same == other
    with pytest.raises(InputError, match="disagrees"):
        numbered_as(made(["disagrees"], ["disagrees"]), made(NAMES))


def test_a_class_is_one_whatever_its_spelling(tmp_path, caplog):
    cells = {"True": 1, "FALSE": 0, "true": 1, "caf\u00e9": 2, "cafe\u0301": 2, "Tea": 3, "tea": 4,
             "1.1": 5, "1.10": 6, "-2": 7, "-2.0": 7}  # fmt: skip
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"on {i},{cell}\n" for i, cell in enumerate(cells)), encoding="utf-8")
    rows, _ = read_examples(path)
    names = class_names(rows)
    assert [len({row["label"] for row in rows if names[row["label"]].lower() in own})
            for own in (("true",), ("false",), ("caf\u00e9", "cafe\u0301"), ("tea",), ("1.1", "1.10"), ("-2", "-2.0"))
    ] == [1, 1, 1, 2, 2, 1]  # fmt: skip
    assert "differ in capitals alone" in caplog.text


@pytest.mark.parametrize(
    "names", [["contradiction", "entailment", "neutral"], ["Neutral", "Contradiction", "Entailment"]]
)
def test_stored_classes_of_nli_have_the_numbers_of_nli(names, tmp_path):
    rows, _ = read_examples(write(pairs(names, chosen=names), tmp_path / "a.parquet"))
    assert all(name == word.lower() for name, word in words_of(rows))
    assert class_names(rows) == ["entailment", "neutral", "contradiction"]


@pytest.mark.parametrize("other", ["not_entailment", "non-entailment"])
def test_two_classes_of_entailment(other, tmp_path):
    path = tmp_path / "RTE.tsv"
    path.write_text(f"index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\tc\td\t{other}\n")
    assert class_names(read_examples(path)[0]) == ["entailment", other]
