"""Distil a teacher's embeddings, or its relations over an ordered corpus (Park et al. 2019, arXiv:1904.05068).

With TF-IDF as the teacher, on the Python documentation of this machine, offline, in minutes:

    accelerate launch examples/run_distill.py

With a sentence encoder as the teacher, on your own sentences, batches of similar ones:

    accelerate launch examples/run_distill.py --teacher sentence-transformers/all-MiniLM-L6-v2 \\
        --train_file wiki.txt --max_train_samples 100000 --output_dir out/distill_minilm

On shuffled sentences, by the softmax of the teacher's similarities:

    accelerate launch examples/run_distill.py --order_seconds 0 --similarity_weight 1 --distance_weight 0 \\
        --angle_weight 0

With some of the teacher's layers as the student, which learns the teacher's embeddings:

    accelerate launch examples/run_distill.py --teacher sentence-transformers/all-MiniLM-L6-v2 --train_file wiki.txt \\
        --layers 0 3 5 --loss embedding_distillation --learning_rate 2e-4 --output_dir out/three_layers
"""

import sys
from dataclasses import dataclass, field

import numpy as np
from accelerate.utils import broadcast_object_list
from contrastive_st.jobs import DocsSearch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from transformers import BertConfig, PreTrainedTokenizerBase, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    SentenceEncoder,
    TeacherCollator,
    TrainingParser,
    read_texts,
    run,
    student_of,
    train_wordpiece,
)
from contrastive_st.data import TeacherRows, order_corpus, path_lengths
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Teacher, data and student of the run."""

    train_file: str | None = field(default=None, metadata={"help": "Sentences; by default the documentation."})
    max_train_samples: int = field(default=8_000, metadata={"help": "Sentences, drawn at random."})
    teacher: str | None = field(default=None, metadata={"help": "Folder or Hub name; by default TF-IDF and SVD."})
    order_seconds: float = field(
        default=30.0, metadata={"help": "Seconds to shorten the path; 0 shuffles the sentences."}
    )
    similarity_weight: float = field(default=0.0, metadata={"help": "Weight of the similarities."})
    distance_weight: float = field(default=1.0, metadata={"help": "Weight of the distances."})
    angle_weight: float = field(default=2.0, metadata={"help": "Weight of the angles."})
    max_length: int = field(default=64, metadata={"help": "Longest text, in tokens."})
    layers: list[int] | None = field(
        default=None, metadata={"help": "Layers of the teacher that the student starts from."}
    )
    loss: str = field(
        default="relational_distillation", metadata={"help": "relational_distillation or embedding_distillation."}
    )
    num_layers: int = field(default=2, metadata={"help": "Layers of a student from scratch."})
    hidden_size: int = field(default=128, metadata={"help": "Width of a student from scratch."})
    vocab_size: int = field(default=16_000, metadata={"help": "Vocabulary of a student from scratch, in word pieces."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/distill",
    "per_device_train_batch_size": 128,
    "learning_rate": 1e-3,
    "num_train_epochs": 2,
    "warmup_steps": 0.1,
    "logging_steps": 50,
    "save_strategy": "no",
    "report_to": "none",
}


def teach(teacher: str | None, texts: list[str]) -> np.ndarray:
    """The teacher's embeddings `[N, D]`; without a teacher those of TF-IDF, reduced to 256 dimensions."""
    if teacher:
        return SentenceEncoder(teacher, precision="auto").encode(texts, show_progress_bar=True)
    counts = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit_transform(texts)
    return TruncatedSVD(min(256, counts.shape[1]), random_state=0).fit_transform(counts).astype(np.float32)


def make_student(args: Arguments, texts: list[str]) -> tuple[BertForCL, PreTrainedTokenizerBase]:
    """Some layers of the teacher, or a BERT from scratch; without dropout, since every sentence has a target."""
    relations = ("similarity_weight", "distance_weight", "angle_weight")
    settings = {name: getattr(args, name) for name in relations if args.loss == "relational_distillation"}
    if args.layers and args.teacher:
        student = student_of(args.teacher, args.layers, max_length=args.max_length, loss=args.loss, **settings)
        return student.model, student.tokenizer
    tokenizer = train_wordpiece(texts, args.vocab_size, args.max_length)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=args.num_layers,
        num_attention_heads=max(args.hidden_size // 64, 1), intermediate_size=4 * args.hidden_size,
        max_position_embeddings=max(args.max_length, 128), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertForCL(config, pooling="mean", loss=args.loss, **settings), tokenizer


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: distinct sentences, drawn at random, each with the teacher's embedding
    docs = None if args.train_file else DocsSearch.load()
    found = docs.training_texts() if docs else read_texts(args.train_file)
    drawn = found.select(np.random.default_rng(0).permutation(len(found))[: args.max_train_samples])
    texts = list(dict.fromkeys(text for row in drawn for text in row.values()))[: args.max_train_samples]
    with training.main_process_first():
        embeddings = teach(args.teacher, texts)
    order = order_corpus(embeddings, seconds=args.order_seconds, seed=training.seed) if args.order_seconds else None
    order = broadcast_object_list([order])[0]  # of the first process: how far the moves get depends on the clock
    if order is not None:
        print(f"{len(texts):,} sentences in order: {path_lengths(embeddings, order)}")

    model, tokenizer = make_student(args, texts)
    ids = tokenizer(texts, truncation=True, max_length=args.max_length)["input_ids"]

    # training: the student's distances and angles within a batch, or its embeddings, become the teacher's
    evaluator = docs.evaluator(tokenizer) if docs else sts_evaluator(tokenizer)
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=TeacherRows(ids, embeddings, order),
        data_collator=TeacherCollator(tokenizer), processing_class=tokenizer, evaluator=evaluator,
    )  # fmt: skip
    before = trainer.evaluate() if evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate() if evaluator else {}
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, value in after.items():
            print(f"{name.removeprefix('eval_'):20} {before[name]:.3f} before, {value:.3f} after")
        print(f"checkpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
