"""`EncoderForCL`: a contrastive model around any torch module that encodes token ids to vectors."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.buckets import bucket_rows, in_order, row_lengths, take_rows, training_buckets
from contrastive_st.errors import InputError
from contrastive_st.files.reading import read_json
from contrastive_st.files.writing import write_json
from contrastive_st.losses import Loss
from contrastive_st.models.adapters import adopt, has_adapter
from contrastive_st.models.base import ForCL, attend_by_length, sentence_vectors
from contrastive_st.models.checkpoint import ONE_VECTOR, TASK, TRANSFORMER_ROLES, Checkpoint, unknown_pooling
from contrastive_st.models.configuration import LossConfig
from contrastive_st.models.modeling import ContrastiveMixin
from contrastive_st.models.saving import weights_as, write_tensors

logger = logging.getLogger(__name__)
Pooling = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class EncoderSettings(LossConfig):
    """The settings of an `EncoderForCL`.

    Args:
        include_prompt: False if the module takes a `text_mask` and pools only the tokens of the text.
    """

    include_prompt: bool = True


class EncoderForCL(ForCL, PreTrainedModel):
    """Any torch module as a contrastive model, which `ContrastiveTrainer` trains.

    The module is called with `input_ids` and `attention_mask` `[N, L]`, and with `token_type_ids` and `text_mask` if
    its `forward` names them; a `SentenceTransformer` with its features. It returns vectors `[N, d]`, or an output with
    `pooler_output` or `sentence_embedding`. A row's vector must not depend on other rows or on the amount of padding:
    then buckets, the GradCache step and several processes train exactly as one plain pass does.

    Args:
        encoder: the module; its weights are trained in place.
        loss: a `Loss`, or any callable of views `[B, V, d]`; by default `InfoNCE()`.
        pooling: makes vectors `[N, d]` of the `last_hidden_state` `[N, L, d]` and the `attention_mask`, for a plain
            encoder of transformers.
        settings: prompts and so on, as in `LossConfig`.

    Raises:
        InputError: an encoder of transformers without a pooling.

    Example:
        >>> class Bag(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.words = nn.Embedding(9, 4, padding_idx=0)
        ...     def forward(self, input_ids, attention_mask):
        ...         return self.words(input_ids * attention_mask).sum(1)
        >>> EncoderForCL(Bag())(torch.tensor([[3, 5], [4, 0]]), torch.tensor([[1, 1], [1, 0]])).pooler_output.shape
        torch.Size([2, 4])
    """

    config_class = PreTrainedConfig
    base_model_prefix = "encoder"
    settings_class = EncoderSettings
    supports_gradient_checkpointing = False
    takes_lengths = takes_types = True
    length_bucketing = True
    bucket_options: ClassVar[dict[str, float]] = {}  # for `contrastive_st.buckets.bucket_rows`

    def __init__(
        self, encoder: nn.Module, loss: object = None, pooling: Pooling | None = None, **settings: object
    ) -> None:
        custom = not type(encoder).__module__.startswith("transformers.")
        if pooling is None and isinstance(encoder, PreTrainedModel) and not custom:
            raise InputError(
                f"a {type(encoder).__name__} of transformers does not record how it pools; open the checkpoint with "
                "AutoModelForCL.from_pretrained(...), or give EncoderForCL(model, pooling=...)"
            )
        super().__init__(PreTrainedConfig())
        self.encoder, self.pooling_function = encoder, pooling
        attend_by_length(encoder)
        names = set(inspect.signature(encoder.forward).parameters)
        self.takes = names & {"token_type_ids", "text_mask"}
        if is_sentence_transformer(encoder):
            check_modules(encoder)
            if reads_messages(encoder):
                logger.warning(
                    "its chat template is left out: it is trained with texts as they are, and saved for these"
                )
                first: Any = modules_of(encoder)[0]
                first.modality_config = {name: x for name, x in first.modality_config.items() if name != "message"}
            of_model: Any = encoder
            recorded = {"prompts": dict(of_model.prompts), "default_prompt_name": of_model.default_prompt_name}
            settings = {**recorded, "include_prompt": includes_prompt(encoder), **settings}
            self.after = settings_of_modules(encoder)
        else:
            settings = {"include_prompt": "text_mask" not in self.takes, **settings}
        self.name_or_path = self.config._name_or_path = str(getattr(encoder, "name_or_path", "") or "")
        self.settings = self.parse_settings(self.config, settings if loss is None else {**settings, "loss": loss})
        self.add_head()
        self.training = encoder.training  # layers of the encoder keep theirs: some may be frozen in evaluation mode
        if hasattr(self, "loss_head"):
            self.loss_head.train(encoder.training)

    @classmethod
    def from_pretrained(cls, name: object, *args: object, **kwargs: object) -> NoReturn:  # type: ignore[override]
        """Refuse: only the code that made the module can open it.

        Raises:
            InputError: always.
        """
        raise InputError(f"{name}: open your own encoder, load its weights, and give it to EncoderForCL(encoder)")

    @property
    def embedding_dim(self) -> int:
        """Dimension of the vectors, found by encoding one token."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        training = [module for module in self.encoder.modules() if module.training]
        try:
            with torch.no_grad():
                self.encoder.eval()
                return int(self._encode(torch.ones_like(token), input_ids=token).pooler_output.shape[-1])
        finally:
            for module in training:
                module.training = True

    def add_head(self) -> None:
        """Create the head of the loss; the module runs once only if the loss may have one."""
        if type(self.settings.loss).make_head is not Loss.make_head:
            super().add_head()

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None, **other: Any) -> Tensor:
        """Encode token ids `[..., L]` to vectors `[..., d]`, in buckets of rows of similar length."""
        rows = self._rows(input_ids, attention_mask, **other)
        if self.length_bucketing:
            lengths = row_lengths(rows["attention_mask"], rows.pop("lengths", None))
            buckets = bucket_rows(lengths, **training_buckets(input_ids.device, self.bucket_options))
            parts = take_rows(rows, buckets, lengths)
            vectors = in_order([self._encode(**part).pooler_output for part in parts], buckets)
        else:
            vectors = self._encode(**rows).pooler_output
        return vectors.view(*input_ids.shape[:-1], -1)

    def _encode(self, attention_mask: Tensor, lengths: NDArray[np.int64] | None = None, **rows: Tensor) -> Any:
        ids, text_mask = rows["input_ids"], rows.get("text_mask")
        if is_sentence_transformer(self.encoder):
            types = rows.get("token_type_ids")
            output: Any = output_of(self.encoder, ids, attention_mask, text_mask, types)
        else:
            other = {name: rows[name] for name in self.takes if rows.get(name) is not None}
            output = self.encoder(input_ids=ids, attention_mask=attention_mask, **other)
        pool = self.pooling_function
        vectors = sentence_vectors(output) if pool is None else pool(output.last_hidden_state, attention_mask)
        if vectors.dim() != 2 or len(vectors) != len(ids):
            raise InputError(
                f"{type(self.encoder).__name__} gave a tensor of shape {list(vectors.shape)} for {len(ids)} rows; "
                f"return one vector per row, [{len(ids)}, d]"
            )
        if self.training and (head := self.head_parameters()):  # so that DDP, which reads the graph, finds them used
            vectors = vectors + 0.0 * torch.stack([weight.sum() for weight in head]).sum().to(vectors.dtype)
        return BaseModelOutputWithPooling(pooler_output=vectors)

    def save_pretrained(  # type: ignore[override]
        self, save_directory: str | Path, state_dict: object = None, **kwargs: object
    ) -> None:
        """Save the module as its library does; a plain module as `model.safetensors` of its own `state_dict`.

        The head of the loss is not saved: an encoder is used without it.
        """
        if not kwargs.get("is_main_process", True):
            return
        folder, encoder = Path(save_directory), self.encoder
        folder.mkdir(parents=True, exist_ok=True)
        with weights_as(encoder, self.save_dtype):
            if is_sentence_transformer(encoder):
                encoder.save_pretrained(str(folder), create_model_card=False)  # type: ignore[operator]
            elif hasattr(encoder, "save_pretrained"):
                encoder.save_pretrained(folder)  # type: ignore[operator]
                if self.pooling_function is not None and (folder / "config.json").is_file():
                    config = read_json(folder / "config.json", dict)
                    if config.pop("contrastive", None) is not None:  # the record of a base, which pooled otherwise
                        write_json(folder / "config.json", config, indent=2)
            else:
                write_tensors(_each_once(encoder), folder / "model.safetensors")
                about = PreTrainedConfig(architectures=[type(encoder).__name__])
                about.contrastive = self.settings.section()
                about.save_pretrained(folder)

    def trained_state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs: the module's weights and buffers by its own names, and the loss head."""
        head = self.loss_head.state_dict(prefix="loss_head.") if hasattr(self, "loss_head") else {}
        return {**_each_once(self.encoder), **{name: x.detach().cpu().contiguous() for name, x in head.items()}}

    def load_trained_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `trained_state` returned.

        Raises:
            InputError: it is of another module or another loss.
        """
        if strange := sorted(state.keys() ^ self.trained_state().keys()):
            raise InputError(f"it was trained with another module or loss: only one of the two has {strange[0]}")
        head = {name.removeprefix("loss_head."): x for name, x in state.items() if name.startswith("loss_head.")}
        if hasattr(self, "loss_head"):
            self.loss_head.load_state_dict(head)
        weights = {name: x for name, x in state.items() if not (head and name.startswith("loss_head."))}
        self.encoder.load_state_dict(weights, strict=False)  # a weight with two names is written under one


def contrastive(model: Any, loss: object = None) -> ForCL:
    """The model that a trainer trains: a `ForCL` model with this loss, or an `EncoderForCL` around another module.

    Weights in half precision that would be trained become float32, since most steps would be rounded away; the model is
    saved in the type that it had (`save_dtype`). A frozen base of an adapter stays as it is.

    Args:
        model: a `ForCL` model, also inside a `PeftModel`, or any torch module that gives vectors `[N, d]`.
        loss: a `Loss` or a callable of views; by default the model's own, and `InfoNCE()` for another module.

    Raises:
        InputError: it is not a module, or the loss that it was trained with is not defined here and none is given.
    """
    if hasattr(model, "get_base_model") and isinstance(model.get_base_model(), ForCL):
        model = adopt(model)
    if isinstance(model, ForCL):
        if loss is not None:
            model.use_loss(loss)
        _ = model.loss_fn if model.settings is not None else None  # raises if it is not defined here
    elif not isinstance(model, nn.Module):
        what = repr(model) if isinstance(model, str) else f"a {type(model).__name__}"
        raise InputError(f"the model is {what}; open the checkpoint with AutoModelForCL.from_pretrained(...)")
    elif not hasattr(model, "loss_fn"):
        model = EncoderForCL(model, loss)
    elif loss is not None:  # it takes the place of a `ForCL` model
        raise InputError(f"{type(model).__name__} has a loss_fn; leave out loss=")
    trained = cast("ForCL", model)
    if isinstance(trained, ContrastiveMixin):
        trained.check_words()
    half = {weight.dtype for weight in trained.parameters() if weight.requires_grad} & {torch.float16, torch.bfloat16}
    if half:
        adapted = has_adapter(trained)
        for weight in (*trained.parameters(), *(() if adapted else trained.buffers())):
            if weight.dtype in half and (weight.requires_grad or not adapted):
                weight.data = weight.data.float()
        trained.save_dtype = half.pop()
    return trained


def own_module(model: Any) -> Any:
    """The module inside an `EncoderForCL`; any other model as it is."""
    plain = isinstance(model, EncoderForCL) and model.pooling_function is None
    return model.encoder if plain else model


def output_of(
    encoder: nn.Module, ids: Tensor, mask: Tensor, text_mask: Tensor | None, types: Tensor | None
) -> dict[str, Tensor]:
    """What a `SentenceTransformer` gives for padded rows of tokens.

    Its pooling leaves out the prompt of a whole batch, of one length, so rows with prompts of different lengths are
    computed in one call for each length.
    """
    if text_mask is None:
        return dict(encoder(_features(encoder, ids, mask, None, types)))
    lengths, numbers = torch.unique((mask - text_mask).sum(1), return_inverse=True)
    outputs = []
    for number, length in enumerate(lengths.tolist()):
        rows = slice(None) if len(lengths) == 1 else numbers == number
        types_of_rows = None if types is None else types[rows]
        outputs.append(encoder(_features(encoder, ids[rows], mask[rows], length, types_of_rows)))
    if len(outputs) == 1:
        return dict(outputs[0])
    order = numbers.argsort(stable=True).argsort()
    names = ("sentence_embedding", "token_embeddings")
    return {name: torch.cat([output[name] for output in outputs])[order] for name in names if name in outputs[0]}


def _features(
    encoder: nn.Module, ids: Tensor, mask: Tensor, prompt_length: int | None, types: Tensor | None
) -> dict[str, Tensor | int | str]:
    """The features that a `SentenceTransformer` takes; those of its `StaticEmbedding` are ids without padding.

    Types of 0 are passed if its tokenizer gives any: GPT-2 and XLM add the vector of such a type.
    """
    if type(modules_of(encoder)[0]).__name__ == "StaticEmbedding":
        lengths = (mask != 0).sum(1)
        return {"input_ids": ids[mask != 0], "offsets": lengths.cumsum(0) - lengths}
    before = {} if prompt_length is None else {"prompt_length": prompt_length}
    if types is None and "token_type_ids" in getattr(getattr(encoder, "tokenizer", None), "model_input_names", ()):
        types = torch.zeros_like(ids)
    typed = {} if types is None else {"token_type_ids": types}
    read = {"modality": "message"} if reads_messages(encoder) else {}
    return {"input_ids": ids, "attention_mask": mask, **before, **typed, **read}


def recorded_modules(source: nn.Module) -> Checkpoint:
    """The kind of a model of sentence-transformers, and its modules, as `Checkpoint` has them of a folder."""
    modules = modules_of(source)
    first: Any = modules[0]
    roles = [f"Transformer with {name}" for name in TRANSFORMER_ROLES if getattr(first, name, None) is not None]
    if reads_messages(source) and first._chat_template_declares_task():
        roles.append(f"Transformer with {TASK}")
    kinds = (type(module).__name__ for module in modules)
    return Checkpoint.in_memory(kind=getattr(source, "model_type", ONE_VECTOR), foreign=(*kinds, *roles))


def modules_of(source: Any) -> list[nn.Module]:
    """The modules of a model of sentence-transformers; in place of a `Router` whose routes are all the same, these."""
    result: list[nn.Module] = []
    for module in source:
        routes = [list(route) for route in getattr(module, "sub_modules", {}).values()]
        result += routes[0] if routes and all(route == routes[0] for route in routes) else [module]
    return result


def reads_messages(source: Any) -> bool:
    """Whether a model of sentence-transformers puts each text into a chat template, and a prompt before it."""
    return "message" in getattr(modules_of(source)[0], "modality_config", ())


def includes_prompt(source: Any) -> bool:
    """Whether a model of sentence-transformers pools the tokens of a prompt, as always of a chat template."""
    return reads_messages(source) or all(getattr(module, "include_prompt", True) for module in modules_of(source))


def settings_of_modules(source: nn.Module) -> list[str]:
    """The class of each module of a model of sentence-transformers, and its settings that are set, but for dropout."""
    result = []
    for module in cast("list[Any]", modules_of(source)):
        config: dict[str, object] = getattr(module, "get_config_dict", dict)()  # a plain torch module has none
        held = {name: x for name, x in config.items() if x is not None and name != "dropout"}
        result.append(f"{type(module).__name__} {json.dumps(held, sort_keys=True, default=str)}")
    return result


def check_modules(source: nn.Module) -> None:
    """Raise `InputError` for a model of sentence-transformers that this package does not compute."""
    if (recorded := recorded_modules(source)).is_refused:
        raise unknown_pooling(recorded)


def is_sentence_transformer(model: object) -> bool:
    """Whether it is a model of sentence-transformers."""
    return hasattr(model, "max_seq_length") and hasattr(model, "prompts")


def _each_once(module: nn.Module) -> dict[str, Tensor]:
    """The `state_dict` on the CPU, a weight with two names under the first of them."""
    held = set(module.state_dict(keep_vars=True))
    every = [*module.named_parameters(), *module.named_buffers()]
    return {name: x.detach().cpu().contiguous() for name, x in every if name in held}
