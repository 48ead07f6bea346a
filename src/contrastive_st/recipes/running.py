"""The way of a job from its trainer to figures and a finished checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contrastive_st.evaluation.plots import training_curve
from contrastive_st.training import ContrastiveTrainer
from contrastive_st.training.processes import is_first_process


def finish(trainer: ContrastiveTrainer, resume: str | None = None) -> dict[str, float]:
    """Train, save the encoder without its heads, and print what the evaluator, if any, finds before and after."""
    before = trainer.evaluate() if trainer.evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    if trainer.sigterm.stopped:
        return before
    after = trainer.evaluate() if trainer.evaluator else {}  # which may ask the heads
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    model.drop_heads()
    trainer.save_model()
    trainer.save_state()
    if is_first_process():
        report(trainer, before, after)
    return after


def report(trainer: ContrastiveTrainer, before: dict[str, float], after: dict[str, float]) -> None:
    """Print the figures, and write them and the training curve beside the checkpoint."""
    folder = Path(trainer.args.output_dir)  # type: ignore[arg-type]
    training_curve(trainer.state.log_history, folder / "training_curve.png")
    for name, value in after.items():
        print(f"{name.removeprefix('eval_'):24} {before[name]:.3f} before, {value:.3f} after")
    results = json.dumps({"before": before, "after": after}, indent=2)
    (folder / "results.json").write_text(results + "\n", encoding="utf-8")
    print(f"checkpoint in {folder}/")
