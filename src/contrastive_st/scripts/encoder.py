"""The encoder that a training script starts from: a checkpoint, or a small BERT with a vocabulary of the texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from transformers import BertConfig, PreTrainedConfig, PreTrainedTokenizerBase

from contrastive_st.data import check_max_length, train_wordpiece
from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.losses.base import loss_class
from contrastive_st.models import AutoModelForCL, BertForCL
from contrastive_st.models.adapters import add_lora
from contrastive_st.models.auto import load_config, load_tokenizer
from contrastive_st.models.base import ForCL
from contrastive_st.models.checkpoint import Checkpoint, max_positions
from contrastive_st.models.families import family
from contrastive_st.scripts.arguments import EncoderArguments

_FROM_SCRATCH = 128  # maximum length of an encoder from scratch, in tokens
_DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "mlp_dropout",
    "embedding_dropout",
)  # fmt: skip


def recorded_pooling(args: EncoderArguments) -> str | None:
    """The pooling that is asked for, or that the encoder to start from records; None for a new one, or a plain BERT."""
    if args.pooling is not None or args.model_name_or_path is None:
        return args.pooling
    return Checkpoint.find(args.model_name_or_path).pooling


def no_prompts(args: EncoderArguments, what: str) -> JsonObject:
    """Settings for `open_encoder` of a method that reads texts without prompts, by an encoder of transformers.

    Args:
        args: which encoder.
        what: the name of the method, for the error.

    Raises:
        InputError: prompts are given, or the encoder is none of transformers.

    Example:
        >>> no_prompts(EncoderArguments(prompts=["query=query: "]), "TSDAE")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: TSDAE does not work with prompts; leave out --prompts and its flags
    """
    if (args.prompts, args.default_prompt_name, args.include_prompt) != (None, None, None):
        raise InputError(f"{what} does not work with prompts; leave out --prompts and its flags")
    if args.model_name_or_path is not None:
        checkpoint, kind = _checkpoint_of(args.model_name_or_path)
        if checkpoint.is_table or (kind is not None and not hasattr(kind, "projection")):
            raise InputError(f"{checkpoint.name} is not a transformer, and {what} needs one; choose another model")
    return {"prompts": {}, "include_prompt": True}


def suiting(args: EncoderArguments, losses: Sequence[str]) -> list[str]:
    """Those of the losses that suit the encoder to start from.

    Args:
        args: which encoder.
        losses: names of losses that train the data.

    Raises:
        InputError: none of them does.
    """
    if args.model_name_or_path is None:
        return list(losses)
    checkpoint, kind = _checkpoint_of(args.model_name_or_path)
    if kind is None or not kind.suitable_losses:
        return list(losses)
    result = [loss for loss in losses if loss in kind.suitable_losses or not loss_class(loss).of_package]
    if not result:
        raise InputError(
            f"{checkpoint.name} cannot be trained further from such data, since {kind.__name__} does not learn by "
            f"{', '.join(losses)}; start from a transformer or a static model"
        )
    return result


def _checkpoint_of(name: str) -> tuple[Checkpoint, type[ForCL] | None]:
    """A checkpoint and its family, if it is one of a model with a config."""
    checkpoint = Checkpoint.find(name)
    return checkpoint, None if checkpoint.is_table else family(load_config(checkpoint).model_type)


def open_encoder(
    args: EncoderArguments,
    texts: Iterable[str],
    resume: str | None = None,
    pooling: str | None = None,
    **settings: object,
) -> tuple[ForCL, PreTrainedTokenizerBase]:
    """The encoder to train and its tokenizer: a given checkpoint, or a small BERT whose vocabulary is of the texts.

    Args:
        args: which encoder, or the size of a new one.
        texts: the training texts, for the vocabulary of a new encoder.
        resume: the checkpoint that the run resumes from, whose tokenizer is used instead of a new one.
        pooling: that of an encoder that records none; without it a new one has `mean`, and a given one is refused.
        settings: settings of the model, such as those of its loss.

    Returns:
        The model and its tokenizer.

    Raises:
        InputError: the checkpoint cannot be opened, or an option does not go with it.
    """
    values = {**vars(args), "prompts": args.named_prompts}
    of_checkpoint = () if args.model_name_or_path is None else ("new_head", "bidirectional")
    names = ("pooling", "prompts", "default_prompt_name", "include_prompt", *of_checkpoint)
    settings |= {name: values[name] for name in names if values[name] is not None}
    if args.model_name_or_path is None:
        length = check_max_length(args.max_length or _FROM_SCRATCH, 512)
        learned_from = chain(texts, *[(args.named_prompts or {}).values()] * 2)  # what occurs once is left out
        size, layers = args.vocab_size or 16_000, 2 if args.num_layers is None else args.num_layers
        tokenizer = load_tokenizer(resume) if resume else train_wordpiece(learned_from, size, length)
        config = with_dropout(small_bert(len(tokenizer), args.hidden_size or 256, layers, length), args.dropout)
        model: ForCL = BertForCL(config, **{"pooling": pooling or "mean", **settings})
    else:
        checkpoint = Checkpoint.find(args.model_name_or_path)
        if "loss" in settings:
            suiting(args, [str(settings["loss"])])
        if pooling is not None and args.pooling is None and checkpoint.pooling is None:
            settings["pooling"] = pooling
        config = None if checkpoint.table_alone else with_dropout(load_config(checkpoint), args.dropout)
        tokenizer = load_tokenizer(checkpoint)
        model = AutoModelForCL.from_pretrained(checkpoint, config=config, with_head=True, **settings)
        if args.max_length is not None:
            tokenizer.model_max_length = check_max_length(args.max_length, max_positions(model.config))
    return model if args.lora_r is None else add_lora(model, args.lora_r, **args.lora), tokenizer


def small_bert(vocab_size: int, hidden_size: int, num_layers: int, max_length: int, **others: Any) -> BertConfig:
    """A BERT with heads about 64 wide, for texts of `max_length` tokens.

    Args:
        vocab_size: size of its vocabulary.
        hidden_size: width.
        num_layers: number of layers.
        max_length: maximum length of a text, in tokens.
        others: further settings of `BertConfig`.

    Example:
        >>> config = small_bert(1000, hidden_size=200, num_layers=1, max_length=48)
        >>> config.num_attention_heads, config.intermediate_size, config.max_position_embeddings
        (2, 800, 128)
    """
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=max(n for n in range(1, max(hidden_size // 64, 1) + 1) if hidden_size % n == 0),
        intermediate_size=4 * hidden_size,
        max_position_embeddings=max(max_length, 128),
        attention_probs_dropout_prob=0.0,  # for the fused kernel of attention; the other dropouts are unchanged
        **others,
    )


def with_dropout(config: PreTrainedConfig, probability: float | None) -> PreTrainedConfig:
    """`config` with every dropout of the encoder set to `probability`; unchanged for None."""
    for name in _DROPOUTS:
        if probability is not None and hasattr(config, name):
            setattr(config, name, probability)
    return config
