"""What a trainer publishes: the record of its run, a model card, and safe files alone."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import HfApi
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_utils import HubStrategy
from transformers.utils.hub import PushInProgress

from contrastive_st.errors import InputError
from contrastive_st.files.cards import TRAINING_METADATA
from contrastive_st.files.download import hub_errors
from contrastive_st.files.reading import JsonObject
from contrastive_st.files.redact import log_failures
from contrastive_st.files.writing import OPENED_BY
from contrastive_st.models.adapters import adapter_base
from contrastive_st.training.checkpoints import CheckpointTrainer
from contrastive_st.training.metadata import Clock, training_metadata, write_training_metadata

if TYPE_CHECKING:
    from contrastive_st.hub.cards import CardData

logger = logging.getLogger(__name__)
_NEVER_PUSHED = "training_args.bin"  # a pickle that nothing reads


class Publisher(TrainerCallback):
    """Writes `training_metadata.json` into the folder of every model that a trainer saves, and pushes only safe files.

    With `push_to_hub=True` the trainer pushes weights in safetensors, config, tokenizer, the files of
    sentence-transformers, a model card, the training metadata and plots; with `hub_strategy` `checkpoint` or
    `all_checkpoints` also the files for resuming. If a card or a push fails, a warning is logged, and training
    continues and saves its checkpoints; only the last push, which is waited for, raises an error. `contrastive_st.hub`,
    which stands above training, is imported when a run publishes.

    Args:
        trainer: a `ContrastiveTrainer`.

    Attributes:
        clock: what the run has encoded so far, and its time.
    """

    def __init__(self, trainer: CheckpointTrainer) -> None:
        self.trainer, self.clock = trainer, Clock()
        self.began = self._before = self._started = 0.0
        self._pushes = HfApi()  # it pushes in a single thread, in order

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Note when the run began."""
        if not self.clock.texts:
            self.clock.first_step = state.global_step
        self.began, self._before, self._started = time.time(), self.clock.seconds, time.perf_counter()

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        """Update the time of the run."""
        self.clock.seconds = self._before + time.perf_counter() - self._started

    on_train_end = on_step_end

    def metadata(self) -> JsonObject:
        """The training metadata of the run so far."""
        return training_metadata(self.trainer, self.clock, self.trainer.metadata)

    def write_metadata(self, folder: Path) -> None:
        """Write the training metadata into the folder of a model; sharded weights are saved elsewhere."""
        if self.trainer.args.should_save and folder.is_dir() and any(folder.iterdir()):
            with log_failures(f"no {TRAINING_METADATA} in {folder}"):
                write_training_metadata(self.metadata(), folder)

    def init_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Create the repository if it does not exist.

        Raises:
            InputError: the Hub refuses, or the repository is that of an adapter's base, or a public one that should
                be private; or the base is a folder.
        """
        from contrastive_st.hub.push import check_base, ready_repo

        base = adapter_base(self.trainer.core)
        if base and Path(base).is_absolute():  # the push after the run would refuse it
            raise InputError(
                f"the base of the adapter is a folder, {base}, which others cannot open: push it, and give its Hub "
                "name as model_name_or_path; or train without push_to_hub, and merge the adapter before you push it"
            )
        if self.trainer.is_world_process_zero():
            name = self.trainer.args.hub_model_id or Path(str(self.trainer.args.output_dir)).absolute().name
            with hub_errors(name):
                api = HfApi(token=token or self.trainer.args.hub_token)
                asked = self.trainer.args.hub_private_repo if private is None else private
                self.trainer.hub_model_id = ready_repo(api, name, asked)
                check_base(base, self.trainer.hub_model_id, self.trainer.args.hub_revision)
            self.trainer.push_in_progress = None

    def create_card(
        self,
        language: str | list[str] | None = None,
        license: str | None = None,
        tags: str | list[str] | None = None,
        model_name: str | None = None,
        dataset_tags: str | list[str] | None = None,
        **recorded: object,
    ) -> None:
        """Write the model card `README.md`; a card that was edited by hand is not changed.

        Args:
            language: language of the model.
            license: license of the model.
            tags: tags in addition to those of every card.
            model_name: by default the name of the repository, or of the folder.
            dataset_tags: Hub names of the training data.
            recorded: other arguments of transformers (`finetuned_from`, `tasks`, ...), which are not used: the training
                metadata has this information.
        """
        from contrastive_st.hub.cards import write_card

        if self.trainer.is_world_process_zero():
            data = _card_data(language, license, tags, dataset_tags=dataset_tags)
            folder, name = Path(str(self.trainer.args.output_dir)), self.trainer.hub_model_id or model_name
            with log_failures(f"no model card in {folder}"):
                if not any((folder / name).is_file() for name in OPENED_BY):  # the model is saved later
                    self.trainer.core.config.save_pretrained(folder)
                    write_training_metadata(self.metadata(), str(folder))
                history = self.trainer.state.log_history
                write_card(folder, name=name, data=data, log_history=history, newer_than=self.began)

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **card: Any,
    ) -> Any:
        """Save the model and push its folder.

        Args:
            commit_message: message of the commit.
            blocking: wait for the push, and raise an error if it fails; else return a future.
            token: a token with write access; by default `hub_token`, else that of the login.
            revision: the branch; by default `hub_revision`, else the main branch.
            private: if the repository must be created, make it private.
            card: arguments of `create_card`.

        Raises:
            InputError: the push failed; the model has been saved.
        """
        self.trainer.callback_handler.on_push_begin(self.trainer.args, self.trainer.state, self.trainer.control)
        token = token or self.trainer.args.hub_token
        if self.trainer.hub_model_id is None:
            self.init_repo(token=token, private=private)
        self.trainer.save_model(_internal_call=True)
        if not self.trainer.is_world_process_zero():
            return None
        self.create_card(**card)
        if (running := getattr(self.trainer, "push_in_progress", None)) is not None:
            running.wait_until_done()
        repo, folder = str(self.trainer.hub_model_id), Path(str(self.trainer.args.output_dir))
        given = _card_data(**card)  # comes before what the card on the Hub says
        if not blocking:
            return self._pushes.run_as_future(self._push, folder, commit_message, token, revision, data=given)
        try:
            return self._push(folder, commit_message, token, revision, newer_than=self.began, data=given)
        except InputError as error:
            raise InputError(f"{error}. The model is in {folder}; later: contrastive-st push {folder} {repo}") from None

    def push_checkpoint(self, checkpoint: Path) -> None:
        """Push what `hub_strategy` says of a checkpoint, while training goes on."""
        if not self.trainer.is_world_process_zero() or self.trainer.args.hub_strategy == HubStrategy.END:
            return
        busy = self.trainer.push_in_progress is not None and not self.trainer.push_in_progress.is_done()
        if busy and not self.trainer.args.hub_always_push:
            return
        self.trainer.callback_handler.on_push_begin(self.trainer.args, self.trainer.state, self.trainer.control)
        words = f"Training in progress, step {self.trainer.state.global_step}"
        from contrastive_st.hub.cards import write_card
        from contrastive_st.hub.push import publishable_files

        def push_staged(token: str | None) -> None:
            try:
                with log_failures(f"{words} was not pushed"):
                    self._push(staged, words, token, whole=[path.name for path in staged.glob("*checkpoint*")])
            finally:
                shutil.rmtree(staged, ignore_errors=True)

        with log_failures(f"{words} was not pushed"):
            # Copy the files to push, because checkpoints may be deleted or overwritten during the push.
            staged = Path(tempfile.mkdtemp(prefix="push-"))
            for path in publishable_files(checkpoint):
                (staged / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(checkpoint / path, staged / path)
            with log_failures("no model card"):
                write_card(staged, name=self.trainer.hub_model_id, log_history=self.trainer.state.log_history)
            if self.trainer.args.hub_strategy in (HubStrategy.CHECKPOINT, HubStrategy.ALL_CHECKPOINTS):
                last = self.trainer.args.hub_strategy == HubStrategy.CHECKPOINT
                below = staged / ("last-checkpoint" if last else checkpoint.name)
                shutil.copytree(checkpoint, below, ignore=shutil.ignore_patterns(_NEVER_PUSHED))
            job = self._pushes.run_as_future(push_staged, self.trainer.args.hub_token)
            jobs = [*(self.trainer.push_in_progress.jobs if busy else []), job]
            self.trainer.push_in_progress = PushInProgress(jobs)  # type: ignore[arg-type]

    def _push(
        self, folder: Path, message: str | None, token: str | None, revision: str | None = None, **options: Any
    ) -> Any:
        from contrastive_st.hub.push import push

        repo, revision = str(self.trainer.hub_model_id), revision or self.trainer.args.hub_revision
        return push(folder, repo, message=message, token=token, revision=revision, **options)


def _card_data(
    language: str | list[str] | None = None,
    license: str | None = None,
    tags: str | list[str] | None = None,
    model_name: str | None = None,
    dataset_tags: str | list[str] | None = None,
    **recorded: object,
) -> CardData:
    """What the arguments of `Publisher.create_card` say that only the author of a model knows."""
    from contrastive_st.hub.cards import CardData

    return CardData(license, _listed(language), _listed(dataset_tags), _listed(tags))


def _listed(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])
