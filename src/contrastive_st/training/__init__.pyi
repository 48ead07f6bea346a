from .arguments import ContrastiveTrainingArguments as ContrastiveTrainingArguments
from .checkpoints import TrainingDiverged as TrainingDiverged, check_output_dir as check_output_dir
from .trainer import ContrastiveTrainer as ContrastiveTrainer
