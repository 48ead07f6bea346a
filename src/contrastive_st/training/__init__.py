"""Training: a thin subclass of the Trainer of transformers, its arguments and callbacks, and what scripts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__all__ = [
    "ContrastiveTrainer",
    "ContrastiveTrainingArguments",
    "TrainingDiverged",
    "TrainingParser",
    "check_output_dir",
    "dev_score",
    "model_soup",
]
__getattr__, __dir__ = lazy(
    __name__,
    {
        "arguments": ["ContrastiveTrainingArguments", "TrainingParser"],
        "checkpoints": ["TrainingDiverged", "check_output_dir"],
        "soup": ["dev_score", "model_soup"],
        "trainer": ["ContrastiveTrainer"],
    },
)

if TYPE_CHECKING:
    from contrastive_st.training.arguments import ContrastiveTrainingArguments, TrainingParser
    from contrastive_st.training.checkpoints import TrainingDiverged, check_output_dir
    from contrastive_st.training.soup import dev_score, model_soup
    from contrastive_st.training.trainer import ContrastiveTrainer
