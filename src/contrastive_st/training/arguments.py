"""Training arguments: those of transformers, with the defaults that contrastive training wants."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from transformers import TrainingArguments

from contrastive_st.models.cpu import bf16_is_fast


@dataclass
class ContrastiveTrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments`; `per_device_train_batch_size` is what contrasts.

    What differs: bf16 is on where the hardware is faster so, a short last batch is dropped (it would have fewer
    negatives than the others), and no column of the data set is dropped behind your back.
    """

    bf16: bool | None = field(  # type: ignore[assignment]
        default=None,
        metadata={"help": "bf16 autocast; by default where the hardware is faster so. The loss is float32."},
    )
    dataloader_drop_last: bool = field(default=True, metadata={"help": "Drop a last batch that is not full."})
    remove_unused_columns: bool = field(default=False, metadata={"help": "Leave as it is: collators read the columns."})

    ddp_find_unused_parameters: bool | None = field(
        default=False, metadata={"help": "Look for parameters without gradient; the models here have none."}
    )
    chunk_size: int | None = field(
        default=None,
        metadata={
            "help": "Encode at most this many texts at a time (GradCache step): memory stops growing with the batch."
        },
    )
    chunk_tokens: int | None = field(
        default=None, metadata={"help": "The same limit in tokens, padding included; may be combined with chunk_size."}
    )
    momentum_queue: int = field(
        default=0,
        metadata={
            "help": "Contrast with this many past positives too (MoCo), encoded by a moving average of the model: more "
            "negatives without a larger batch. One encoder, loss info_nce; a step encodes no more texts."
        },
    )
    momentum: float = field(
        default=0.999, metadata={"help": "With momentum_queue: share of the moving average that stays, a step."}
    )

    def __post_init__(self) -> None:
        if not torch.accelerator.is_available():
            self.use_cpu = True
        if self.bf16 is None:
            self.bf16 = not self.fp16 and bf16_is_fast()
        if getattr(self, "data_seed", None) is None:
            self.data_seed: int | None = (
                self.seed
            )  # so that the order of the rows does not hang on what else draws random numbers
        super().__post_init__()
