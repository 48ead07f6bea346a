"""Validates the same rows in each of W gloo processes: what each found."""

from unittest.mock import patch

import torch
import transformers
from datasets import Dataset
from small_checkpoints import tiny_bert

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CoSENTLoss,
    DropoutPairCollator,
    InfoNCE,
    LabelledPairCollator,
    MatryoshkaLoss,
    Mixture,
    MixtureCollator,
    MixtureLoss,
    NLITripletCollator,
    PairCollator,
    SentenceEncoder,
    SoftmaxLoss,
    tokenize,
)
from contrastive_st.data import train_wordpiece
from contrastive_st.evaluation import EmbeddingSimilarityEvaluator, embedding_store

WORDS = "the cat sat on a mat and dog ran far away today rain fell over old town she reads book".split()  # noqa: SIM905
TEXTS = [" ".join([*WORDS[i % 7 : i % 7 + 2 + i % 5], WORDS[i % 20]]) for i in range(40)]
ROWS = 13  # uneven for batches of four, and for two processes


def rows_for(kind, tokenizer):
    columns = {"a": TEXTS[:ROWS], "b": TEXTS[20 : 20 + ROWS]}
    columns["b"][5], columns["a"][7] = columns["b"][3], columns["a"][2]  # equal texts
    if kind == "triplets":
        columns["c"] = TEXTS[10 : 10 + ROWS]
    if kind == "scores":
        columns["score"] = [i % 6 / 5 for i in range(ROWS)]
    if kind == "labels":
        columns["label"] = [i % 3 for i in range(ROWS)]
    return tokenize(Dataset.from_dict(columns), tokenizer, 16)


def parts(case, tokenizer):
    """Loss, collator, validation rows and further arguments of a case."""
    pairs, labelled = PairCollator(tokenizer), LabelledPairCollator(tokenizer)
    if case == "mixture":
        rows = Mixture({name: rows_for(name, tokenizer) for name in ("pairs", "scores", "labels")})
        loss = MixtureLoss({"pairs": InfoNCE(), "scores": CoSENTLoss(), "labels": SoftmaxLoss()})
        return loss, MixtureCollator({"pairs": pairs, "scores": labelled, "labels": labelled}), rows, {}
    table = {
        "pairs": (InfoNCE(), pairs),
        "triplets": (InfoNCE(), NLITripletCollator(tokenizer)),
        "scores": (CoSENTLoss(), labelled),
        "labels": (SoftmaxLoss(), labelled),
        "matryoshka": (MatryoshkaLoss(InfoNCE(), dims=(16, 4)), pairs),
        "cached": (InfoNCE(), pairs),
    }
    rows = rows_for(case if case in ("triplets", "scores", "labels") else "pairs", tokenizer)
    return *table[case], rows, {"chunk_size": 3} if case == "cached" else {}


CASES = ("pairs", "triplets", "scores", "labels", "matryoshka", "cached", "mixture")


TOKENIZER = train_wordpiece(TEXTS, vocab_size=80, max_length=16)


def trainer_for(case, folder, data=None, **changes):
    loss, collator, rows, settings = parts(case, TOKENIZER)
    transformers.set_seed(1)
    model = BertForCL(tiny_bert(TOKENIZER), loss=loss, pooling="mean")
    settings = {"per_device_train_batch_size": 4, "bf16": False, "report_to": "none", **settings, **changes}
    args = ContrastiveTrainingArguments(folder, disable_tqdm=True, **settings)
    data = {"train_dataset": rows, "eval_dataset": rows, "data_collator": collator, **(data or {})}
    return ContrastiveTrainer(model, args, **data)


def texts_judged_by_scores(folder):
    texts = tokenize(Dataset.from_dict({"text": TEXTS}), TOKENIZER, 16)
    collators = {"data_collator": DropoutPairCollator(TOKENIZER), "eval_collator": LabelledPairCollator(TOKENIZER)}
    rows = {"train_dataset": texts, "eval_dataset": rows_for("scores", TOKENIZER)}
    return trainer_for("pairs", folder, rows | collators)


def own_pairs(folder):
    """The metrics of an evaluator of one's own pairs, and how many texts this process encoded for it."""
    evaluator = EmbeddingSimilarityEvaluator(TEXTS[:20], TEXTS[20:], list(range(20)), name="own")
    trainer = trainer_for("pairs", folder, {"evaluator": evaluator, "eval_dataset": None})
    encode, texts = SentenceEncoder.encode, []

    def counted(self, some, **options):
        texts.extend(some)
        return encode(self, some, **options)

    with patch.object(SentenceEncoder, "encode", counted), patch.object(embedding_store, "_CHUNK", 8):
        found = figures(trainer.evaluate())
    return {**found, "texts": len(texts)}


def predictions(case, folder):
    """What `compute_metrics` adds, and what `predict` returns: views, hashes and targets of all rows."""
    trainer, given = trainer_for(case, folder), []
    trainer.compute_metrics = lambda output: given.append(output) or {"rows": len(output.predictions[0]), "loss": -1.0}
    metrics = figures(trainer.evaluate())
    output = trainer.predict(trainer.eval_dataset)
    for own, predicted in zip(given[0].predictions, output.predictions, strict=True):
        assert (own == predicted).all()
    predicted = [torch.as_tensor(own) for own in output.predictions]
    return {"metrics": metrics, "predictions": predicted, "targets": torch.as_tensor(output.label_ids)}


def losses_of_steps(folder, logging_steps):
    """The mean loss of a run, as it returns it, and its log."""
    trainer = trainer_for("pairs", folder, logging_steps=logging_steps, num_train_epochs=3, save_strategy="no")
    output = trainer.train()
    timed = ("epoch", "_per_second", "_runtime", "_gib", "_flos", "_share")
    log = [{name: x for name, x in own.items() if not name.endswith(timed)} for own in trainer.state.log_history]
    return {"returned": output.training_loss, "metrics": output.metrics["train_loss"], "log": log}


def figures(metrics):
    timed = ("epoch", "_runtime", "_per_second", "_time")
    return {name: x for name, x in metrics.items() if not name.endswith(timed)}


def all_figures(folder):
    found = {case: figures(trainer_for(case, folder).evaluate()) for case in CASES}
    found["own pairs"] = own_pairs(folder)
    found["predictions"] = {case: predictions(case, folder) for case in ("pairs", "scores", "mixture", "cached")}
    found["losses"] = {steps: losses_of_steps(folder, steps) for steps in (1, 2, 50)}
    return found | {"only scores": figures(texts_judged_by_scores(folder).evaluate())}
