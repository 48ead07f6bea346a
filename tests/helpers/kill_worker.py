"""Kills trainings by SIGKILL while they save, resumes them, and holds the end to the run that was never killed.

python kill_worker.py FOLDER PROCESSES KILLS SEED MOMENT CHUNK_SIZE

MOMENT is `checkpoint`, or `final`: the model that is written when training is over. Every training runs in forked
children of this process, which has imported all and starts no thread (a lock that a thread holds at a fork is never
free again): a kill costs about a second. A line for each kill, and one in the end, tell what was found.
"""

import itertools
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
import transformers
from ports import free_port
from small_checkpoints import tiny_bert

from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments, DropoutPairCollator
from contrastive_st.data import train_wordpiece
from contrastive_st.tokens import token_ids
from contrastive_st.training.checkpoints import newest_checkpoint

WORDS = "the cat sat on a mat and dog ran far away today rain fell over old town she reads long book"
TEXTS = [" ".join(pair) for pair in itertools.permutations(WORDS.split(), 2)][:52]


class Telling(ContrastiveTrainer):
    """Tells the parent when a checkpoint or a model begins and ends."""

    told = None

    def _save_checkpoint(self, *args):
        os.write(self.told, b"(")
        super()._save_checkpoint(*args)
        os.write(self.told, b")")

    def save_at_the_end(self):
        """As `scripts.finish` does."""
        self.accelerator.unwrap_model(self.model).drop_heads()
        os.write(self.told, b"(")
        self.save_model()
        os.write(self.told, b")")
        self.save_state()


def train(folder, steps, told, final, lives, chunk_size):
    """To the last step, from the newest whole checkpoint if there is one; the weights and the optimizer in a file.

    With `final`, the model is saved too; unless it `lives`, the run waits after that for its end.
    """
    torch.manual_seed(time.monotonic_ns() % 2**32)  # a new process has another random state
    resume = newest_checkpoint(folder) is not None
    transformers.set_seed(1)
    tokenizer = train_wordpiece(TEXTS, vocab_size=80, max_length=16)
    rows = [{"input_ids": own} for own in token_ids(tokenizer, TEXTS)]
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=4, max_steps=steps, learning_rate=1e-3, bf16=False, disable_tqdm=True,
        report_to="none", logging_strategy="no", save_strategy="steps", save_steps=1, save_total_limit=2,
        lr_scheduler_type="constant", chunk_size=chunk_size or None,
    )  # fmt: skip
    model = BertForCL(tiny_bert(tokenizer))
    trainer = Telling(model, args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer))
    trainer.told = told
    trainer.train(resume_from_checkpoint=resume)
    if final:
        trainer.save_at_the_end()
        time.sleep(0 if lives else 60)
    state = {**trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()["state"]}
    torch.save(state, folder.with_name(f"{folder.name}-{os.environ.get('RANK', 0)}.pt"))


def telling(processes, job):
    """Children, which are one process group of torch, and the pipe in which the job of the first one tells."""
    port, (ours, theirs), children = str(free_port()), os.pipe(), []
    for rank in range(processes):
        if not (child := os.fork()):
            if processes > 1:
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes), MASTER_PORT=port)
                os.environ.update(MASTER_ADDR="127.0.0.1", ACCELERATE_USE_CPU="true")
            code = 1
            try:
                job(os.open(os.devnull, os.O_WRONLY) if rank else theirs)
                code = 0
            except BaseException:
                traceback.print_exc()  # the child ends without the interpreter
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    os.close(theirs)
    return children, ours


def ends(children):
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def kill_in_a_save(children, pipe, wanted, moments):
    """Let `wanted` saves through, and kill in the next one; one process may outlive another for a moment."""
    saved, longest, began = 0, 0.01, 0.0
    while event := os.read(pipe, 1):
        if event == b"(" and saved == wanted:
            time.sleep(longest * moments.random())
            for child in moments.sample(children, len(children)):
                os.kill(child, signal.SIGKILL)
                time.sleep(moments.choice([0, 0.02]))
            return
        if event == b")":
            saved, longest = saved + 1, max(longest, time.monotonic() - began)
        began = time.monotonic()
    raise AssertionError(f"it ended by itself: {ends(children)}")


def main(folder, processes, kills, seed, moment, chunk_size):
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    final, steps, moments, newest = moment == "final", 3 * kills + 2, random.Random(seed), 0
    job = lambda run, steps, lives: lambda told: train(folder / run, steps, told, final, lives, chunk_size)
    for number in range(kills):
        threads = [Path(f"/proc/self/task/{task}/comm").read_text() for task in os.listdir("/proc/self/task")]
        assert len(threads) == 1 + ("jemalloc_bg_thd\n" in threads), threads  # that of pyarrow knows of forks
        children, pipe = telling(processes, job("killed", newest + 1 if final else steps, False))
        kill_in_a_save(children, pipe, 1 if final else moments.randint(1, 2), moments)
        assert -signal.SIGKILL in ends(children)
        os.close(pipe)
        there = int(newest_checkpoint(folder / "killed").name.removeprefix("checkpoint-"))
        assert there > newest, f"after kill {number + 1} the newest whole checkpoint is {there}, and was {newest}"
        newest, left = there, sorted({path.name for path in (folder / "killed").glob(".*")} - {".training.lock"})
        print(f"kill {number + 1} of {kills}: newest whole checkpoint {there}, left behind: {left}", flush=True)
    steps = newest + 1 if final else steps
    for run in ("killed", "whole"):
        children, pipe = telling(processes, job(run, steps, True))
        while os.read(pipe, 4096):
            pass
        assert ends(children) == [0] * processes
    assert not list((folder / "killed").glob(".*")), "what the kills left behind is still there"
    for rank in range(processes):
        killed, whole = (torch.load(folder / f"{run}-{rank}.pt") for run in ("killed", "whole"))
        assert flat(killed) == flat(whole), f"other weights in process {rank}"
    if final:
        assert len({(folder / run / "model.safetensors").read_bytes() for run in ("killed", "whole")}) == 1
    print(f"{kills} kills in a {moment} save, seed {seed}: all resumed, {steps} steps bit-equal to those of no kill")


def flat(state):
    """Every tensor by its place, as bytes."""
    if isinstance(state, torch.Tensor):
        return state.numpy().tobytes()
    return {key: flat(value) for key, value in state.items()} if isinstance(state, dict) else state


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5], int(sys.argv[6]))
