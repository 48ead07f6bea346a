"""`ForCL`, the base of contrastive models: views computed from tokens, and a loss computed from views."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import ModelOutput, can_return_tuple

from contrastive_st.distributed import check_first_step, world_size
from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import ADAPTER, HUB_OPTIONS, WEIGHTS, check_weights, local_folder
from contrastive_st.files.reading import read_json, weight_types
from contrastive_st.files.writing import write_json
from contrastive_st.losses import LOCAL, LOSSES, Loss, as_loss, default_gather
from contrastive_st.losses.base import loss_class
from contrastive_st.losses.info_nce import NO_TEXT, Queue
from contrastive_st.losses.words import WordsLoss
from contrastive_st.models.configuration import LossConfig, without_code
from contrastive_st.models.saving import (
    RemoteCodeMixin,
    check_built,
    check_loaded,
    init_unused_pooler,
    runs_in_float32,
    stored_dtype,
    weights_as,
    write_sentence_transformers,
)
from contrastive_st.models.words import Inputs, Words

if TYPE_CHECKING:
    from typing import Self

    from transformers import PreTrainedModel

    class _Base(PreTrainedModel):  # the base of every class that uses this mixin
        def __getattr__(self, name: str) -> Any: ...  # what subclasses add: encoders, heads

else:
    _Base = object


@dataclass
class ContrastiveOutput(ModelOutput):
    """Output of a batch of views: the loss, the embeddings `[B, V, d]` and the hashes of their texts `[B, V]`."""

    loss: Tensor | None = None
    views: Tensor | None = None
    text_hashes: Tensor | None = None


class ForCL(_Base):
    """Base class of contrastive models; subclasses add the encoder in `_encode`.

    Every kind of training step uses `embed`, which computes views, and `compute_loss`, which computes their loss.
    """

    settings: Any = None  # the parsed `config.contrastive`, a `settings_class`; a user's own class may have none
    settings_class: ClassVar[type[LossConfig]] = LossConfig
    default_settings: ClassVar[Mapping[str, object]] = {"loss": "info_nce"}
    citation: ClassVar[str] = ""  # BibTeX entries of the architecture, or the key of one in `references.bib`
    suitable_losses: ClassVar[tuple[str, ...]] = ()  # those that its views are made for; none named is all
    takes_lengths: ClassVar[bool] = False  # whether `_encode` has use for `lengths` `[N]`, known on the host
    #: Most tokens that a row may be padded to; if None, rows are not padded to more than the length of their batch
    positions: Any = None
    save_dtype: torch.dtype | None = None  # of saved weights, if another than that of the model
    saved_for_float32 = False  # the saved folder runs in float32, whatever type its weights have
    loss_is_recorded = False  # in the checkpoint, rather than chosen by whoever opened it
    layout: ClassVar[Mapping[str, str]] = {}  # published names of weights, as patterns, and the names here
    _checks_first_step = False
    accepts_loss_kwargs = False  # the loss is a mean over the batch: the Trainer divides it when accumulating

    def _encode(self, attention_mask: Tensor, **rows: Any) -> BaseModelOutputWithPooling:
        """Encode rows `[N, L]` to embeddings `[N, D]` in `pooler_output`."""
        raise NotImplementedError

    def split_views(self, embeddings: Tensor) -> Tensor:
        """Turn embeddings `[B, V, D]` into views; a model with two towers f and g makes two views of each embedding."""
        return embeddings

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None, **other: Any) -> Tensor:
        """Encode token ids `[..., L]` to embeddings `[..., D]`."""
        output = self._encode(**self._rows(input_ids, attention_mask, **other))
        embeddings = cast("Tensor", output.pooler_output)
        return embeddings.view(*input_ids.shape[:-1], -1)

    def compute_loss(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        text_hashes: Tensor | None = None,
        queue: Queue | None = None,
        task: str | None = None,
    ) -> Tensor:
        """The loss of views `[B, V, d]`, with candidates from all processes in training, and from the queue.

        It is zero for a loss of words alone; `words_of` has that.

        Args:
            views: `[B, V, d]`.
            targets: the targets of the loss.
            text_hashes: `[B, V]`, equal for equal texts.
            queue: candidates from earlier batches.
            task: the data set of a mixture's batch, if it is known without reading the targets.

        Raises:
            InputError: the loss is a constant: it has no gradient of the views.
        """
        if views.requires_grad and world_size() > 1 and not self._checks_first_step:
            self._checks_first_step = True
            check_first_step(self)
        if isinstance(self.settings.loss, WordsLoss):
            return 0.0 * views.sum()
        queued: dict[str, Queue] = {} if queue is None else {"queue": queue}  # only InfoNCE accepts one
        gather = default_gather() if self.training else LOCAL
        loss_fn = self.loss_fn if task is None else self.loss_fn.of_task(task)
        try:
            loss: Tensor = loss_fn(views, targets, text_hashes=text_hashes, gather=gather, **queued)
        except InputError as error:
            if not self.loss_is_recorded or loss_fn.name == "info_nce":  # else another loss may suit the batch
                raise
            raise InputError(
                f"{error}. {self.name_or_path} records the loss {loss_fn.name!r}; for another, open it with a loss, "
                'such as loss="info_nce"'
            ) from error
        if views.requires_grad and not loss.requires_grad:
            raise InputError(f"the loss {loss_fn.name} has no gradient; compute it from the views, without `detach`")
        return loss

    def words_of(self, batch: Inputs) -> Words | None:
        """The words that a batch predicts from states of tokens; None if the loss is of views alone.

        Args:
            batch: the arguments of `forward`, `input_ids` of the shape `[B, V, L]`.
        """
        return None

    @classmethod
    def parse_settings(cls, config: PreTrainedConfig, changes: Mapping[str, object]) -> Any:
        """Combine `changes` with the settings of `config`, and write the result into `config.contrastive`.

        Settings that are given replace those of the config, and the defaults are used if the config has none. If
        another loss is given, the settings of the previous loss are dropped.

        Args:
            config: the config of the model.
            changes: flat settings; `loss` may also be a `Loss`, or any callable of views (`CallableLoss`).

        Raises:
            InputError: as for `LossConfig.parse`, or a loss that does not suit the views of this model.
        """
        held = dict(getattr(config, "contrastive", None) or cls.default_settings)
        changes, names = dict(changes), cls.settings_class.own_names()
        held_loss, loss = held.get("loss", "info_nce"), None
        if not isinstance(changes.get("loss", ""), str):
            loss = as_loss(changes.pop("loss"))
            changes = {**loss.settings(), **changes}
        elif changes.get("loss", held_loss) != held_loss:
            loss_class(changes["loss"])  # only a checkpoint may name one that is not defined here
        if changes.get("loss", held_loss) != held_loss:
            held = {name: value for name, value in held.items() if name in names}
        elif held_loss not in LOSSES and (strange := sorted(set(changes) - {*names, *held})):
            raise InputError(f"unknown setting {', '.join(strange)}; the loss {held_loss!r} is not defined here")
        settings = cls.settings_class.parse({**held, **changes}, loss)
        config.contrastive = settings.section()
        of_package = settings.loss.name in LOSSES and LOSSES[settings.loss.name].of_package
        if cls.suitable_losses and of_package and settings.loss.name not in cls.suitable_losses:
            raise InputError(
                f"the loss {settings.loss.name!r} does not suit the views of {cls.__name__}; choose "
                f"{', '.join(cls.suitable_losses)}"
            )
        return settings

    def change_settings(self, **changes: object) -> None:
        """Change some of the settings, also in the config."""
        if getattr(self.settings, "loss", None) is not None:
            changes.setdefault("loss", self.settings.loss)
        self.settings = self.parse_settings(self.config, changes)

    def use_loss(self, loss: object) -> None:
        """Train with another loss, a `Loss` or any callable of views, and with a new head if it has one."""
        self.change_settings(loss=loss, with_head=True)
        self.loss_is_recorded = False
        if hasattr(self, "loss_head"):
            del self.loss_head
        self.add_head()

    @property
    def loss_fn(self) -> Loss:
        """The loss described in the config, with its head.

        Raises:
            InputError: the checkpoint was trained with a loss that is not defined here.
        """
        loss: Loss = self.settings.loss.with_head(getattr(self, "loss_head", None))
        return loss

    @property
    def embedding_dim(self) -> int:
        """Dimension D of the embeddings."""
        dim: int = getattr(self.config, "projection_dim", None) or self.config.hidden_size
        return dim

    def add_head(self) -> None:
        """Create the head of the loss, such as a classifier, if it has one."""
        if self.settings.with_head and (head := self.settings.loss.make_head(self.embedding_dim)) is not None:
            self.loss_head = head
            if of_user(self.settings.loss, head):
                for part in (*head.modules(), *head.parameters(), *head.buffers()):
                    part._is_hf_initialized = True  # transformers would draw its weights again

    def head_parameters(self) -> list[nn.Parameter]:
        """The trained weights outside the encoder, which embeddings do not depend on."""
        return list(self.loss_head.parameters()) if hasattr(self, "loss_head") else []

    def drop_heads(self) -> None:
        """Remove the modules that only training needs, before the trained encoder is saved."""
        if hasattr(self, "loss_head"):
            del self.loss_head
            self.change_settings(with_head=False)

    @can_return_tuple  # sentence-transformers passes `return_dict`
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        targets: Tensor | None = None,
        key_embeddings: Tensor | None = None,
        queue: Queue | None = None,
        text_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mlm_input_ids: Tensor | None = None,
        mlm_targets: Tensor | None = None,
        lengths: NDArray[np.int64] | None = None,
        predicted: NDArray[np.int64] | None = None,
        task: str | None = None,
        counts: bool = True,
        return_loss: bool = True,
        **other: object,
    ) -> BaseModelOutputWithPooling | ContrastiveOutput:
        """`input_ids [N, L]` gives embeddings in `pooler_output [N, D]`; `[B, V, L]` gives the loss of B anchors.

        Args:
            input_ids: token ids, padded on the right.
            attention_mask: 1 on real tokens; by default all ones.
            targets: the targets of the loss, from the collator; with TSDAE the ids of the whole sentences, `[B, L]`
                with -100 on padding, while `input_ids` `[B, 1, L']` has a part of each.
            key_embeddings: all views except the first, `[B, V-1, d]`, if the momentum encoder has encoded them.
            queue: candidates from earlier batches.
            text_mask: 1 on the tokens of a text, 0 on its prompt and on padding; pooled with `include_prompt=False`.
            mlm_input_ids: `[B, V, L]`, masked copies for the auxiliary loss (`do_mlm`).
            mlm_targets: the masked ids, -100 elsewhere.
            lengths: tokens of each row, `[N]` or `[B, V]`, if the host knows them; then it need not read the mask.
            predicted: tokens to predict in each row, `[B, V]`, with TSDAE `[B]`, if the host knows them.
            task: the data set of a mixture's batch, if it is known; then the targets are not read for it.
            counts: whether the rows count. A process without a row of its own encodes one that does not, so that it
                takes part in what all processes do together.
            return_loss: not used; its default tells the Trainer of transformers that the model returns a loss.
            token_type_ids: as in BERT; ignored by families that have none.
            other: other inputs of the encoder, and with `[N, L]` what else an encoder of transformers returns:
                `output_hidden_states`, `output_attentions`.
        """
        outputs: Inputs = {name: other.pop(name, None) for name in ("output_hidden_states", "output_attentions")}
        rows: Inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "text_mask": text_mask}
        rows |= {"token_type_ids": token_type_ids, "lengths": lengths, **other}
        if input_ids.dim() == 2:
            return self._encode(**self._rows(**rows, **(outputs if hasattr(self, "backbone") else {})))
        of_words = {"mlm_input_ids": mlm_input_ids, "mlm_targets": mlm_targets, "predicted": predicted}
        words = self.words_of({**rows, "targets": targets, **of_words})
        if key_embeddings is not None:
            rows = {name: None if x is None else x[:, :1] for name, x in rows.items()}
        embeddings = self.embed(**rows)
        views = self.split_views(embeddings)
        if key_embeddings is not None:  # the positives and hard negatives, which were encoded separately
            views = torch.cat([views, key_embeddings.to(views.dtype)], 1)
        hashes = text_hashes(input_ids, attention_mask, text_mask)
        if not counts:
            views, hashes, targets = views[:0], hashes[:0], None if targets is None else targets[:0]
        loss = self.compute_loss(views, targets, hashes, queue, **({} if task is None else {"task": task}))
        if words is not None:
            parts = words.parts(default_gather() if self.training else LOCAL, counts)
            loss = loss + parts(embeddings.flatten(0, 1), None)
        return ContrastiveOutput(loss=loss, views=views, text_hashes=hashes)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any, *args: object, revision: str | None = None, **kwargs: Any
    ) -> Self:
        """Open a folder or Hub name. Weights must be safetensors, since a pickle can run code when it is opened.

        The weights are float32, whatever the folder holds: in half precision most steps would be rounded away. They are
        saved again in the type of the folder (`save_dtype`). With `dtype="auto"` they have that type from the start.

        Args:
            pretrained_model_name_or_path: folder or Hub name.
            args: as for `PreTrainedModel.from_pretrained`.
            revision: branch, tag or commit of a Hub name.
            kwargs: settings such as `pooling="mean"` (with a `loss`, what an earlier training added to its own, such as
                `cutoff`, is off unless it is given), arguments of `PreTrainedModel.from_pretrained`, and for encoders
                of transformers `new_head`: initialise a new projection head, by default if the checkpoint is a plain
                encoder (`BertForMaskedLM` and the like), whose pooler was trained for another task or not at all.

        Raises:
            InputError: the checkpoint does not exist, has no safetensors, or refers to files outside its folder.
        """
        name = pretrained_model_name_or_path
        if name is None:
            return super().from_pretrained(name, *args, **kwargs)
        hub = {key: kwargs.pop(key) for key in HUB_OPTIONS if key in kwargs}
        folder = local_folder(name, revision, patterns=(*WEIGHTS, "config.json", ADAPTER), **hub)
        if (folder / ADAPTER).is_file():
            raise InputError(f"{name} is an adapter; open it with AutoModelForCL.from_pretrained")
        check_weights(folder, name, kwargs.get("variant"))
        return cls.load(folder, name, *args, **kwargs)

    @classmethod
    def load(cls, folder: Path, name: object, *args: object, **kwargs: Any) -> Self:
        """Open a folder whose files were checked; other arguments and errors are those of `from_pretrained`.

        Args:
            folder: the folder.
            name: its name in messages.
            args: as for `PreTrainedModel.from_pretrained`.
            kwargs: settings, and arguments of `PreTrainedModel.from_pretrained`.

        Returns:
            The model; with `output_loading_info` also what transformers says of its weights.
        """
        new_head = kwargs.pop("new_head", None) if hasattr(cls, "projection") else None
        if cls.layout:
            names = {key: pattern.format(prefix=cls.base_model_prefix) for key, pattern in cls.layout.items()}
            kwargs.setdefault("key_mapping", names)
        if "torch_dtype" in kwargs:  # the older name
            kwargs.setdefault("dtype", kwargs.pop("torch_dtype"))
        asked, typed = kwargs.pop("output_loading_info", False), "dtype" in kwargs
        kwargs |= {"use_safetensors": True, "output_loading_info": True, **({} if typed else {"dtype": torch.float32})}
        with about(name):
            if kwargs.get("config") is None:
                kept = {key: kwargs.pop(key) for key in ("config", "attn_implementation", "dtype") if key in kwargs}
                kind = cast("type[PreTrainedConfig]", cls.config_class)
                config, kwargs = kind.from_pretrained(folder, return_unused_kwargs=True, **kwargs)
                kwargs |= {**kept, "config": without_code(config)}
            recorded = "loss" not in kwargs and bool(getattr(kwargs["config"], "contrastive", None))
            if not recorded:  # another training than that of the checkpoint
                kwargs = {**cls.settings_class.without_methods(), **kwargs}
            if _holds_module(loss := kwargs.get("loss", "")):
                kwargs["loss"] = copy.deepcopy(loss)  # transformers empties the weights that the folder lacks
            built = getattr(cls, "backbone_class", None) or getattr(cls, "code_class", cls)
            check_built(cast("type[PreTrainedModel]", built), kwargs["config"], name, folder)
            loaded: Any = super().from_pretrained(folder, *args, **kwargs)
        model, info = loaded
        if not isinstance(loss, str) and hasattr(model, "loss_head") and of_user(model.settings.loss, model.loss_head):
            names = weight_types(folder)
            head = {name: x for name, x in model.loss_head.state_dict().items() if f"loss_head.{name}" in names}
            model.use_loss(loss)
            model.loss_head.load_state_dict(head, strict=False)
        model.loss_is_recorded = recorded
        after = [] if "dense" in kwargs else [key for key, _ in model.named_parameters() if key.startswith("after.")]
        missing = set(after) - set(weight_types(folder)) if after else set()
        check_loaded(model, {*info["missing_keys"], *missing}, name, folder)
        if not getattr(model, "has_trained_head", False):
            init_unused_pooler(model, folder)
        model.save_dtype = None if typed else stored_dtype(folder)
        model.saved_for_float32 = not typed and runs_in_float32(folder)
        model.name_or_path = model.config._name_or_path = str(name)
        if folder.parent.name == "snapshots":
            model.config._commit_hash = folder.name
        model.after_loading(new_head)
        return cast("Self", (model, info) if asked else model)  # as transformers, whose type is that of the model

    def after_loading(self, new_head: bool | None) -> None:
        """Do what is left to do when the weights are loaded.

        Args:
            new_head: whether to initialise a new projection head; None leaves it to what the config says.
        """

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        """Save weights, config and the files of sentence-transformers, so that all three loaders open the folder.

        The weights are saved in `save_dtype` if there is one, else as they are.
        """
        kwargs["save_original_format"] = False  # always this package's key names, whatever was loaded
        with weights_as(self, self.save_dtype, kwargs):
            super().save_pretrained(save_directory, **kwargs)
            if kwargs.get("is_main_process", True):
                if self.saved_for_float32:  # transformers writes the type of the weights
                    path = Path(save_directory, "config.json")
                    write_json(path, read_json(path, dict) | {"dtype": "float32"}, indent=2, sort_keys=True)
                self.write_other_loaders(save_directory, kwargs.get("state_dict"))
        if kwargs.get("is_main_process", True):
            mode = Path(save_directory, "config.json").stat().st_mode  # the mode according to the umask
            for path in Path(save_directory).glob("*.safetensors"):
                path.chmod(mode)  # safetensors makes it readable for the owner only

    def write_other_loaders(self, folder: str | Path, state_dict: dict[str, Tensor] | None) -> None:
        """Write the files that loaders other than transformers read."""
        write_sentence_transformers(self, folder, state_dict)

    def _rows(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        lengths: NDArray[np.int64] | None = None,
        **other: Tensor | None,
    ) -> Inputs:
        """Flatten tensors `[..., L]` to rows `[N, L]`; `text_mask` is dropped if the pooling does not use it."""
        if getattr(self.settings, "include_prompt", True):
            other.pop("text_mask", None)
        rows: Inputs = {"input_ids": input_ids, "attention_mask": attention_mask, **other}
        if attention_mask is None:
            rows["attention_mask"] = torch.ones_like(input_ids)
        rows = {name: x.flatten(0, -2) if isinstance(x, Tensor) else x for name, x in rows.items() if x is not None}
        if self.takes_lengths and lengths is not None and lengths.shape == input_ids.shape[:-1]:  # else a part
            rows["lengths"] = lengths.reshape(-1)
        return rows


class OwnArchitecture(RemoteCodeMixin, ForCL):
    """Base of the architectures of this package: `code_class` encodes, and this class adds the loss and its head.

    Args:
        config: that of `code_class`.
        settings: of the loss; see `contrastive_st.models.configuration`.
    """

    _keys_to_ignore_on_load_missing: set[str] | list[str] | None = [r"^loss_head\."]

    def __init__(self, config: PreTrainedConfig, **settings: object) -> None:
        parsed = self.parse_settings(config, settings)
        super().__init__(config)
        self.settings = parsed
        self.add_head()

    @classmethod
    def load(cls, folder: Path, name: object, *args: object, **kwargs: Any) -> Self:
        """As for every model, of a folder of this architecture."""
        config = read_json(folder / "config.json", dict) if (folder / "config.json").is_file() else {}
        kind = cast("type[PreTrainedConfig]", cls.config_class).model_type
        if kwargs.get("config") is None and config.get("model_type") != kind:
            raise InputError(f"{name} is not a {cls.__name__}; open it with AutoModelForCL.from_pretrained")
        return super().load(folder, name, *args, **kwargs)

    def _encode(self, attention_mask: Tensor, **rows: Any) -> BaseModelOutputWithPooling:
        rows.pop("token_type_ids", None)  # of a tokenizer of BERT
        result: BaseModelOutputWithPooling = self.encode(attention_mask=attention_mask, **rows)
        return result


def _holds_module(loss: object) -> bool:
    """Whether a loss is a module, or is made of one."""
    if isinstance(loss, Mapping):
        return any(map(_holds_module, loss.values()))
    return isinstance(loss, nn.Module) or (isinstance(loss, Loss) and _holds_module(vars(loss)))


def of_user(loss: Loss, head: nn.Module) -> bool:
    """Whether a loss or a part of its head is of a class of the user, and so starts with the weights that it has."""
    kinds = (type(loss), *map(type, head.modules()))
    return any(not kind.__module__.startswith(("contrastive_st.", "torch.")) for kind in kinds)


def sentence_vectors(output: object) -> Tensor:
    """The vectors `[N, d]` in the output of a module: itself, its `pooler_output` or its `sentence_embedding`.

    Raises:
        InputError: there are none.

    Example:
        >>> sentence_vectors({"sentence_embedding": torch.ones(2, 3)}).shape
        torch.Size([2, 3])
    """
    if isinstance(output, Tensor):
        return output
    for name in ("pooler_output", "sentence_embedding"):
        result = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(result, Tensor):
            return result
    raise InputError(
        f"the module returned a {type(output).__name__}; return vectors [N, d], or an output with pooler_output or "
        "sentence_embedding"
    )


def attend_by_length(model: nn.Module) -> None:
    """Let the width of each pass alone decide how BigBird attends.

    transformers reads rows that are too short for blocks with full attention, and all rows after them too.
    """
    for module in model.modules():
        if hasattr(module, "set_attention_type") and isinstance(module, PreTrainedModel):
            module.register_forward_pre_hook(_choose_attention, with_kwargs=True)


def _choose_attention(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    held = (kwargs.get("input_ids"), kwargs.get("inputs_embeds"), *args)
    width, config = next(rows for rows in held if rows is not None).shape[1], module.config
    short = width <= (5 + 2 * config.num_random_blocks) * config.block_size
    with torch.device("meta"):  # no random numbers are drawn for new layers, which take over the weights
        module.set_attention_type("original_full" if short else config.attention_type)


def text_hashes(input_ids: Tensor, attention_mask: Tensor | None, text_mask: Tensor | None = None) -> Tensor:
    """A 64-bit hash of each row of token ids, `[..., L] -> [...]`; padding and prompts do not count.

    Equal texts have equal hashes; different texts collide with probability of about 2^-63. The hash is computed from
    ids because dropout makes the embeddings of equal texts differ. With a `text_mask`, a text has the same hash as a
    query, as a document and without a prompt: only the tokens of the text and the first token of the row count. A row
    without tokens has the hash `NO_TEXT`.
    """
    attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    if text_mask is not None:
        attention_mask = torch.cat([attention_mask[..., :1], text_mask[..., 1:]], -1)
    places = attention_mask.cumsum(-1)
    weights = places * -7046029254386353131  # odd 64-bit constant; products wrap around
    weights = (weights ^ (weights >> 29)) * -4658895280553007687
    weights = (weights ^ (weights >> 32)) | 1
    hashes = ((input_ids + 1) * attention_mask * weights).sum(-1)
    return hashes.masked_fill(places[..., -1] == 0, NO_TEXT)
