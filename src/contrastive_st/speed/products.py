"""Products by oneDNN with packed weights, in float32 and bfloat16, for inference on a CPU.

A layer of BERT and of its relatives has one product for query, key and value, and its operations are called as
functions of torch: of one short text, calls of modules take a third of the time.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from contrastive_st.device import has_amx
from contrastive_st.forks import undone
from contrastive_st.speed.attention import is_plain_sdpa

_ROWS = 1024  # number of tokens for which the layout of packed weights is chosen; others work too
#: With AMX, oneDNN cuts the sum over an inner dimension of 512 or more in other places for other numbers of rows. It
#: sums in one piece over up to 448, in products of up to 32 rows, and in convolutions, whose fastest images have 128.
_IN_ONE_PIECE, _FEW, _IMAGE = 448, 32, 128
_OPS = torch.ops.mkldnn
_EACH_PIXEL = ([0, 0], [1, 1], [1, 1], 1)  # padding, stride, dilation and groups of such a convolution
_OF_BERT = {"BertLayer", "RobertaLayer", "XLMRobertaLayer", "CamembertLayer", "ElectraLayer"}
_ENCODERS = {name.replace("Layer", "Encoder") for name in _OF_BERT}
_NOT_ASKED = {"position_ids", "use_cache"}  # what an encoder is given that changes nothing in its layers
_NO_LAYERS: Any = SimpleNamespace(layer=())  # an encoder that gives its input back
_JOINED = ("attention.self.query", "attention.self.key", "attention.self.value")
_OTHERS = ("attention.output.dense", "intermediate.dense", "output.dense")
_OF_DECODERS = ("encoder_attention_mask", "past_key_values")
_CAPTURES = "output_capturing_hook"  # by which transformers collects states, and of sdpa no attentions
_CHANGES = "ParamWrapper"  # of peft, which adds an adapter to the weight of the layer inside for each call
_INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}  # of the same size as each type that is packed


class _Kept:
    """Packed weights of the layers of a model, until it changes.

    A change is another module or hook, and a weight with another place, another version or another sample of its
    numbers, of every row. It is looked for whenever texts are encoded, so it has to be quick.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        places = dict(zip(modules, range(len(modules)), strict=True))
        changing = {module.base_layer for module in places if type(module).__name__ == _CHANGES}
        changing |= set(chain.from_iterable(all_modules(module) for module in places if _is_compiled(module)))
        linears = [module for module in places if _packs(module) and module not in changing]
        packed = {module: _Whole(module) for module in places if _is_of_bert(module) and module not in changing}
        inside = set(chain.from_iterable(map(all_modules, packed)))
        self.products: list[tuple[int, _Product | _Whole | _Layers]] = [(places[x], y) for x, y in packed.items()]
        self.products += [(places[x], _Product(x.weight, x.bias)) for x in linears if x not in inside]
        for module in places:
            layers = list(cast("nn.ModuleList", module.layer)) if _is_of_transformers(module, _ENCODERS) else []
            if layers and packed.keys() >= set(layers):  # a layer may be there twice
                self.products.append((places[module], _Layers(list(map(packed.__getitem__, layers)))))
        self.linears = list(map(places.__getitem__, linears))
        self.state = _state(modules, self.linears)
        # views as integers, since numpy has no bfloat16; biases are copied by whole layers alone
        copied: list[tuple[Tensor, int]] = [(x.weight, max(x.in_features - 1, 1)) for x in linears]
        copied += [(layer.get_parameter(f"{name}.bias"), 1) for layer in packed for name in _JOINED]
        self.samples = [x.detach().view(_INTEGERS[x.dtype]).reshape(-1)[::step].numpy() for x, step in copied]
        self.numbers = [sample.tobytes() for sample in self.samples]

    def holds(self, modules: list[nn.Module]) -> bool:
        """Whether a model with these modules is as it was."""
        same = len(modules) > max(self.linears, default=0) and self.state == _state(modules, self.linears)
        return same and self.numbers == [sample.tobytes() for sample in self.samples]


_KEPT: weakref.WeakKeyDictionary[nn.Module, _Kept] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def packed_products(model: nn.Module, keep: bool = False) -> Iterator[None]:
    """A context in which the `nn.Linear` layers of a `model` on a CPU use packed copies of their weights.

    Layers of BERT, RoBERTa, XLM-RoBERTa, CamemBERT and ELECTRA are computed as a whole, unless a module in them has a
    hook.

    For inference: values are equal up to rounding (both sum in float32), there are no gradients, and weights must not
    change inside the context. The bits of a row do not depend on the number of rows or threads, as they do in other
    products of torch. Layers in other types stay as they are, and without oneDNN in torch so do all, without its
    bfloat16 those in bfloat16.

    The copies need as much memory as the weights of the layers, and up to twice as much in bfloat16 on a processor with
    AMX. Those that are kept go with the model.

    Args:
        model: the model.
        keep: keep the copies for the next call. It makes new ones if a weight has another place, another version (as
            after a step of an optimizer or `load_state_dict`) or another sample of numbers, of every row: changes of
            `weight.data` have no version. So a change of single numbers of `weight.data` may not be seen.

    Example:
        >>> layer, x = nn.Linear(8, 4), torch.ones(2, 8)
        >>> with torch.inference_mode(), packed_products(layer):
        ...     packed = layer(x)
        >>> torch.allclose(packed, layer(x))
        True
    """
    sharded = hasattr(model, "unshard")  # by FSDP 2: a layer has its whole weight only while it computes
    packs = not sharded and torch.backends.mkldnn.is_available() and hasattr(_OPS, "_reorder_linear_weight")
    modules = all_modules(model) if packs else []
    kept = _KEPT.get(model)
    if not keep or kept is None or not kept.holds(modules):
        _KEPT.pop(model, None)
        with torch.no_grad():
            kept = _Kept(modules)
    if keep:
        _KEPT[model] = kept
    replaced = [modules[index] for index, _ in kept.products]
    with undone(lambda: [vars(module).pop("forward", None) for module in replaced]):
        for module, (_, product) in zip(replaced, kept.products, strict=True):
            # as `module.forward = ...`, in a fifth of the time
            vars(module)["forward"] = partial(product.of, module)  # type: ignore[arg-type]
        yield


def all_modules(model: nn.Module) -> list[nn.Module]:
    """A module and all of its parts, those in two places twice: for every text, `Module.modules` takes too long.

    Example:
        >>> [type(module).__name__ for module in all_modules(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))]
        ['Sequential', 'Linear', 'Tanh']
    """
    modules: list[nn.Module] = [model]
    for module in modules:
        modules.extend(filter(None, module._modules.values()))
    return modules


def _packs(module: nn.Module) -> TypeGuard[nn.Linear]:
    if type(module) is not nn.Linear:
        return False
    weight = module.weight
    fast = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and _OPS._is_mkldnn_bf16_supported())
    return fast and weight.is_cpu and weight.numel() > 0 and weight.is_contiguous()


def _is_compiled(module: nn.Module) -> bool:
    """Whether `torch.compile` makes a graph of a module, in which inductor of torch 2.13 takes no packed weights."""
    return module._compiled_call_impl is not None or hasattr(module, "_orig_mod")


def _is_of_bert(module: Any) -> bool:
    """Whether a module is a layer that computes what BERT's does, from weights that are packed."""
    kind = type(module)
    if kind.__name__ not in _OF_BERT or not kind.__module__.startswith("transformers.models."):
        return False
    parts = all_modules(module)[1:]
    hooks = [hook for part in parts for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())]
    plain = all(getattr(hook, "__name__", "") == _CAPTURES for hook in hooks)
    plain = plain and not any("forward" in part.__dict__ for part in parts)
    linears = [module.get_submodule(name) for name in (*_JOINED, *_OTHERS)]
    packs = all(_packs(x) and x.bias is not None and x.weight.dtype == linears[0].weight.dtype for x in linears)
    return plain and packs and not module.is_decoder


def _is_of_transformers(module: nn.Module, names: Set[str]) -> bool:
    """Whether a module is of one of these classes of transformers, and computes what they do."""
    kind = type(module)
    plain = not module._forward_hooks and not module._forward_pre_hooks and "forward" not in vars(module)
    return kind.__name__ in names and kind.__module__.startswith("transformers.models.") and plain


def _state(modules: list[nn.Module], linears: list[int]) -> list[object]:
    """Modules with their hooks, and of those at some places where their numbers are and how often they were written."""
    state: list[object] = [
        (id(x), len(x._forward_hooks), len(x._forward_pre_hooks), "forward" in x.__dict__, x._compiled_call_impl)
        for x in modules
    ]
    for index in linears:
        for weight in modules[index]._parameters.values():
            if weight is not None:
                state.append((weight.data_ptr(), 0 if weight.is_inference() else weight._version))
    return state


class _Layers:
    """The layers of an encoder of BERT one after the other, as functions: calling modules takes as long as products."""

    def __init__(self, layers: Sequence[_Whole]) -> None:
        self.layers = layers

    def of(self, encoder: Any, x: Tensor, attention_mask: Tensor | None = None, *rest: Any, **options: Any) -> Any:
        """What the encoder returns. Rows that need a mask, and layers whose states are asked for, are left to it."""
        joined, values = self.layers[0].joined, set(map(options.get, options.keys() - _NOT_ASKED)) - {None}
        plain = attention_mask is None and not (rest or values or encoder.training or torch.is_autocast_enabled("cpu"))
        for layer in encoder.layer:  # which transformers may have given hooks meanwhile
            plain = plain and not layer._forward_hooks and not layer._forward_pre_hooks
        if not (plain and x.dtype == joined.bias.dtype and is_plain_sdpa(encoder.layer[0].attention.self.config)):
            return type(encoder).forward(encoder, x, attention_mask, *rest, **options)
        for packed in self.layers:
            x = packed.states(x)
        # in the output that the encoder makes itself, whose fields change with releases
        return type(encoder).forward(_NO_LAYERS, x, attention_mask, **options)


class _Whole:
    """A layer of BERT with packed weights, those of query, key and value in one."""

    def __init__(self, layer: Any) -> None:
        joined, others = ([layer.get_submodule(name) for name in names] for names in (_JOINED, _OTHERS))
        self.joined = _Product(torch.cat([x.weight for x in joined]), torch.cat([x.bias for x in joined]))
        self.attended, self.wide, self.narrow = (_Product(x.weight, x.bias) for x in others)
        self.after, self.last = layer.attention.output.LayerNorm.forward, layer.output.LayerNorm.forward
        self.activate, attention = layer.intermediate.intermediate_act_fn.forward, layer.attention.self
        self.size, self.scaling = attention.attention_head_size, attention.scaling

    def of(self, layer: Any, x: Tensor, attention_mask: Tensor | None = None, *rest: Any, **options: Any) -> Tensor:
        """What the layer returns."""
        attention = layer.attention.self
        name, kept = attention.config._attn_implementation, {k: v for k, v in options.items() if k not in _OF_DECODERS}
        more = any(y is not None for y in (*rest, *map(options.get, _OF_DECODERS)))
        fits = x.dtype == self.joined.bias.dtype and not torch.is_autocast_enabled("cpu")
        if layer.training or more or name == "eager" or not fits:
            plain: Tensor = type(layer).forward(layer, x, attention_mask, *rest, **options)
            return plain
        kept |= {"dropout": 0.0, "scaling": self.scaling}
        return self.states(x, lambda *rows: ALL_ATTENTION_FUNCTIONS[name](attention, *rows, attention_mask, **kept)[0])

    def states(self, x: Tensor, attend: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None) -> Tensor:
        """The states of the tokens after the layer.

        Args:
            x: before it, `[N, L, d]`.
            attend: attention, `[N, heads, L, d]` to `[N, L, heads, d]`; by default that of rows without a mask.
        """
        query, key, value = self.joined(x).view(*x.shape[:2], 3, -1, self.size).permute(2, 0, 3, 1, 4).unbind()
        if attend is None:
            attended = scaled_dot_product_attention(query, key, value, scale=self.scaling).transpose(1, 2)
        else:
            attended = attend(query, key, value)
        x = self.after(self.attended(attended.reshape(x.shape)) + x)
        result: Tensor = self.last(self.narrow(self.activate(self.wide(x))) + x)
        return result


class _Product:
    """The product with a packed weight."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        self.out, self.inner = weight.shape
        # without a bias the bits of a row would depend on the number of rows
        self.bias = weight.new_zeros(self.out) if bias is None else bias.detach()
        packed = _OPS._reorder_linear_weight(weight, _ROWS)
        usual = {"attr": "none", "scalars": [], "algorithm": ""}
        self.linear = partial(_OPS._linear_pointwise.default, W=packed, B=self.bias, **usual)
        self.kernel: Tensor | None = None
        if weight.dtype == torch.bfloat16 and self.inner > _IN_ONE_PIECE and has_amx():
            shape = [1, self.inner, _IMAGE, 1]
            self.kernel = _OPS._reorder_convolution_weight(weight[..., None, None], *_EACH_PIXEL, shape)

    def of(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """What the layer returns."""
        # a model in training brings its own autocast
        fits = x.dtype == self.bias.dtype and not torch.is_autocast_enabled("cpu")
        return self(x) if fits else linear(x, layer.weight, layer.bias)

    def __call__(self, x: Tensor) -> Tensor:
        if x.numel() == self.inner:  # with AVX-512, oneDNN sums a row alone in another way than those of several
            one: Tensor = self.linear(x.reshape(1, -1).repeat(2, 1))[:1]
            return one.view(*x.shape[:-1], self.out)
        if self.kernel is None or x.numel() <= _FEW * self.inner:
            few: Tensor = self.linear(x)
            return few
        rows = x.reshape(-1, self.inner)
        rest = len(rows) % _IMAGE
        if not rest:
            product = self._convolution(rows)
        elif rest > 2 * _FEW or (len(rows) > _IMAGE and self.out >= self.inner):
            filled = torch.cat([rows, rows.new_zeros(_IMAGE - rest, self.inner)])
            product = self._convolution(filled)[: len(rows)]
        else:
            images = [self._convolution(rows[:-rest])] if len(rows) > _IMAGE else []
            product = torch.cat([*images, *map(self.linear, rows[-rest:].split(_FEW))])
        return product.view(*x.shape[:-1], self.out)

    def _convolution(self, rows: Tensor) -> Tensor:
        """The product as one of every pixel of images; `rows` fill them."""
        images = rows.view(-1, _IMAGE, 1, rows.shape[1]).permute(0, 3, 1, 2)
        output = _OPS._convolution_pointwise(images, self.kernel, self.bias, *_EACH_PIXEL, "none", [], "")
        product: Tensor = output.permute(0, 2, 3, 1).reshape(len(rows), -1)
        return product
