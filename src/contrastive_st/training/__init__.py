"""Training: a thin subclass of the Trainer of transformers, its arguments and callbacks."""

from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.trainer import ContrastiveTrainer, TrainingDiverged

__all__ = ["ContrastiveTrainer", "ContrastiveTrainingArguments", "TrainingDiverged"]
