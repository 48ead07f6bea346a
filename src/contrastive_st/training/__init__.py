"""Training: a thin subclass of the Trainer of transformers, its arguments and callbacks."""

from contrastive_st.training.arguments import ContrastiveTrainingArguments, TrainingParser
from contrastive_st.training.checkpoints import check_output_dir
from contrastive_st.training.soup import dev_score, model_soup
from contrastive_st.training.trainer import ContrastiveTrainer, TrainingDiverged

__all__ = [
    "ContrastiveTrainer",
    "ContrastiveTrainingArguments",
    "TrainingDiverged",
    "TrainingParser",
    "check_output_dir",
    "dev_score",
    "model_soup",
]
