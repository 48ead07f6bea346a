"""Training: a thin subclass of the Trainer of transformers, its arguments and callbacks."""

from contrastive_st.training.arguments import ContrastiveTrainingArguments, has_fast_bf16
from contrastive_st.training.trainer import ContrastiveTrainer, TrainingDiverged

__all__ = ["ContrastiveTrainer", "ContrastiveTrainingArguments", "TrainingDiverged", "has_fast_bf16"]
