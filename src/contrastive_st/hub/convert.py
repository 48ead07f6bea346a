"""Conversion between the layouts of contrastive checkpoints; the embeddings do not change.

    package    what this package saves:       bert.*, bert.pooler.dense.* (the head); settings in config.contrastive
    simcse     what SimCSE's training saves:  bert.*, mlp.dense.* (the head)
    backbone   plain BERT, as SimCSE's models are published: embeddings.*, encoder.*, pooler.dense.* (the head)

The output always has safetensors and the files of sentence-transformers, which record the pooling.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contrastive_st.errors import InputError, choice
from contrastive_st.files.folders import ADAPTER, ENCODER, check_weights, local_folder
from contrastive_st.files.writing import atomic_write, only_writer
from contrastive_st.models import ContrastiveMixin
from contrastive_st.models.auto import load_tokenizer, open_model
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.models.configuration import OF_METHODS
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.poolings import POOLINGS
from contrastive_st.models.read_back import check_read_back
from contrastive_st.models.saving import write_sentence_transformers, write_tensors, write_tokenizer
from contrastive_st.training.metadata import read_training_metadata, write_training_metadata

_SIMCSE_FAMILIES = ("bert", "roberta")
_OF_EMBEDDING = ("pooling", "mlp_only_train", *OF_METHODS)  # which the opened encoder has by now, or no longer needs


def convert(
    source: str | Path,
    destination: str | Path,
    to: str,
    pooling: str | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Path:
    """Write a checkpoint in another layout, with the same embeddings.

    Args:
        source: folder or Hub name, in any of the layouts, as safetensors or `pytorch_model.bin`.
        destination: a new folder.
        to: `package`, `simcse` or `backbone`.
        pooling: for a checkpoint that does not record how it pools; it is never guessed from a name.
        revision: branch, tag or commit of a Hub name.
        token: of a Hub name.

    Returns:
        The destination.

    Raises:
        InputError: the pooling is not known or contradicts the recorded one, weights are missing or contain more than
            tensors, or the destination exists already.
    """
    destination = Path(destination)
    choice("to", to, ("package", "simcse", "backbone"))
    patterns = (*ENCODER, "pytorch_model*.bin", "pytorch_model.bin.index.json", "[0-9]*_*/pytorch_model*.bin")
    with only_writer(destination, flag="", parents=True), tempfile.TemporaryDirectory() as scratch:
        folder = local_folder(source, revision, patterns=patterns, token=token)
        opened = in_safetensors(folder, Path(scratch, "opened"), source)
        checkpoint = Checkpoint.find(source, folder=opened, token=token)
        model, tokenizer = _open(checkpoint, pooling), load_tokenizer(checkpoint)
        if to == "simcse" and model.config.model_type not in _SIMCSE_FAMILIES:
            families = " and ".join(_SIMCSE_FAMILIES)
            raise InputError(f"SimCSE's layout is for {families}, not {model.config.model_type}")
        with atomic_write(destination, flag="", parents=True) as new:
            new.mkdir()
            if to == "package":
                model.save_pretrained(new)
            else:
                config = copy.deepcopy(model.config)
                del config.contrastive
                if to == "simcse":
                    config.architectures = [type(model).__name__]
                    config.save_pretrained(new)
                    head = f"{model.base_model_prefix}.pooler.dense."
                    weights = {
                        key: weight for key, weight in model.state_dict().items() if not key.startswith("after.")
                    }
                    weights = {key.replace(head, "mlp.dense."): weight.contiguous() for key, weight in weights.items()}
                    write_tensors(weights, new / "model.safetensors")
                else:
                    backbone: Any = copy.copy(model.backbone)  # whose layers keep the config of the model
                    backbone.config = config
                    backbone.save_pretrained(new)
                write_sentence_transformers(model, new)
            write_tokenizer(tokenizer, new, model.takes_types)
            check_read_back(SentenceEncoder(model, tokenizer, name=str(source)), new)
            if training := read_training_metadata(folder):
                write_training_metadata(training, new)
    return destination


def merge(adapter: str | Path, output: str | Path, revision: str | None = None, token: str | None = None) -> Path:
    """Merge an adapter into its base and write an ordinary checkpoint with the same embeddings.

    Args:
        adapter: folder or Hub name of a LoRA adapter.
        output: a new folder.
        revision: branch, tag or commit of a Hub name.
        token: of a Hub name.

    Returns:
        The output folder.

    Raises:
        InputError: it is not an adapter, its base cannot be opened or does not fit, or the output exists already.
    """
    with only_writer(output, flag="", parents=True):
        checkpoint = Checkpoint.find(adapter, revision, token=token)
        if checkpoint.adapter is None:
            raise InputError(f"{adapter} is not an adapter (it has no {ADAPTER}): there is nothing to merge")
        training = read_training_metadata(checkpoint.folder)
        encoder = SentenceEncoder(checkpoint.folder)
        if checkpoint.head:  # whose place is in the model
            encoder.model = open_model(checkpoint, train=True, merge_adapter=True, dtype="auto")
        loss = training.get("loss", {})
        if loss.get("name") and isinstance(encoder.model, ContrastiveMixin):
            settings = {key: value for key, value in (loss.get("settings") or {}).items() if key not in _OF_EMBEDDING}
            encoder.model.change_settings(with_head=False, **settings, loss=loss["name"])
        with atomic_write(output, flag="", parents=True) as new:
            new.mkdir()
            encoder.save_pretrained(new)
            if training:
                write_training_metadata(training, new)
    return Path(output)


def in_safetensors(folder: Path, scratch: Path, name: object) -> Path:
    """The folder itself if it has safetensors; else a copy with the pickled weights converted, read as tensors only.

    Args:
        folder: a checkpoint.
        scratch: a new folder for the copy, if one is needed.
        name: of the checkpoint in errors.

    Returns:
        The folder with safetensors.

    Raises:
        InputError: the pickle contains anything except tensors.
    """
    pickles = [*folder.glob("pytorch_model*.bin"), *folder.glob("[0-9]*_*/pytorch_model*.bin")]  # of dense layers, too
    bare = sorted({path.parent for path in pickles if not any(path.parent.glob("*.safetensors"))})
    if not bare:
        check_weights(folder, name)
        return folder
    shutil.copytree(folder, scratch, ignore=shutil.ignore_patterns("pytorch_model*"))
    for parent in bare:
        tensors: dict[str, Tensor] = {}
        for path in sorted(parent.glob("pytorch_model*.bin")):
            try:
                content = torch.load(path, map_location="cpu", weights_only=True)
                tensors |= {key: tensor.detach().clone().contiguous() for key, tensor in content.items()}
            except Exception as error:  # the bytes may come from anywhere, so any exception is possible
                raise InputError(
                    f"{name}: {path.name} is damaged, or holds more than tensors and could run code; it was not opened"
                ) from error
        write_tensors(tensors, scratch / parent.relative_to(folder) / "model.safetensors")
    return scratch


def check_pooling(checkpoint: Checkpoint, pooling: str | None) -> None:
    """Raise `InputError` if a checkpoint records another pooling than the one that is asked for."""
    recorded = "cls" if checkpoint.head else checkpoint.pooling
    if pooling is not None and recorded not in (None, choice("pooling", pooling, POOLINGS)):
        raise InputError(
            f"{checkpoint.name} records pooling {recorded}, and --pooling {pooling} would change its embeddings"
        )


def _open(checkpoint: Checkpoint, pooling: str | None) -> ContrastiveMixin:
    name = checkpoint.name
    check_pooling(checkpoint, pooling)
    if checkpoint.adapter is not None:
        raise InputError(f"{name} is an adapter; merge it into its base first (contrastive-st merge {name} -o FOLDER)")
    if checkpoint.head:
        model = open_model(checkpoint, train=True, dtype="auto")
    else:
        model = open_model(checkpoint, pooling=pooling)
    if not isinstance(model, ContrastiveMixin):
        raise InputError(f"{name} is of the family {model.config.model_type!r}, which has one layout only")
    model.drop_mlm_head()
    return model
