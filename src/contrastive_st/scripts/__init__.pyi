from .encoder import (
    no_prompts as no_prompts,
    open_encoder as open_encoder,
    recorded_pooling as recorded_pooling,
    small_bert as small_bert,
    suiting as suiting,
    with_dropout as with_dropout,
)
from .parser import TrainingParser as TrainingParser
from .rows import (
    Rows as Rows,
    check_window as check_window,
    corpus_files as corpus_files,
    documentation_rows as documentation_rows,
    every_text as every_text,
    prompts_before as prompts_before,
    read_rows as read_rows,
    tokenized as tokenized,
    validation_parts as validation_parts,
)
from .run import (
    describe_data as describe_data,
    done as done,
    finish as finish,
    metrics_evaluator as metrics_evaluator,
    report as report,
    start as start,
    suite_evaluator as suite_evaluator,
)
