"""Options typed once: the field of a dataclass is the check of a value, and the flag of a command with its help.

    @dataclass
    class Search(Options):
        query: str = option("what to look for", positional=True)
        k: Count = option("number of hits", default=10, short="-k")
        model: str | None = option("checkpoint folder or Hub name")

`Options` checks its fields when an instance is made. `add_flags` adds them to a parser, and `parsed` makes an instance
of what was parsed.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import numbers
import operator
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import BaseMetadata, Ge, Gt, Le, Lt

from contrastive_st.errors import InputError, suggestion

#: Numbers with bounds; NaN is outside of each
Positive = Annotated[float, Gt(0), Lt(math.inf)]
NotNegative = Annotated[float, Ge(0), Lt(math.inf)]
Finite = Annotated[float, Gt(-math.inf), Lt(math.inf)]
Share = Annotated[float, Ge(0), Lt(1)]
Count = Annotated[int, Ge(1)]
CountOrZero = Annotated[int, Ge(0)]
#: Prompts by name
PROMPTS = Annotated[dict[str, str], "a text for each name, such as {'query': 'query: '}"]

_IN_WORDS: Mapping[type[BaseMetadata], tuple[str, str]] = {
    Gt: ("gt", "above {}"), Ge: ("ge", "{} or more"), Lt: ("lt", "below {}"), Le: ("le", "at most {}"),
}  # fmt: skip
_COMPARED = {Gt: operator.gt, Ge: operator.ge, Lt: operator.lt, Le: operator.le}
_SCALARS: Mapping[object, tuple[type | tuple[type, ...], str]] = {
    bool: (bool, "true or false"), int: (numbers.Integral, "a whole number"), float: (numbers.Real, "a number"),
    str: (str, "text"), Path: ((str, Path), "a path"),
}  # fmt: skip
Kind = TypeVar("Kind")


class OptionError(InputError):
    """The value of an option is not one that its field takes.

    Args:
        name: the option as its user wrote it: an argument, a flag or a key of a file.
        value: what was given.
        wanted: what the field takes.
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{name} {value}: give {expected}")
        self.name, self.value, self.expected = name, value, expected

    def called(self, name: str) -> OptionError:
        """The same error for an option that its user wrote otherwise."""
        return OptionError(name, self.value, self.expected)


# --- Checking values.


def check_options(options: object, types_of: Mapping[str, object] | None = None) -> None:
    """Check the fields of a dataclass against their types.

    Args:
        options: the instance.
        types_of: types by field, in place of those of the class.

    Raises:
        OptionError: with the first field whose value has another type, or is out of its bounds.

    Example:
        >>> @dataclasses.dataclass
        ... class Arguments:
        ...     temperature: Positive = 0.05
        >>> check_options(Arguments(temperature=float("nan")))
        Traceback (most recent call last):
        ...
        contrastive_st.options.OptionError: temperature nan: give a number above 0
    """
    for name, kind in (field_types(type(options)) if types_of is None else types_of).items():
        checked(name, getattr(options, name), kind)


def checked(name: str, value: Kind, kind: object) -> Kind:
    """A value, if it is of a type and within its bounds.

    Args:
        name: what it is called in the message.
        value: the value.
        kind: the type.

    Returns:
        The value.

    Raises:
        OptionError: it is not.

    Example:
        >>> checked("k", 0, Count)
        Traceback (most recent call last):
        ...
        contrastive_st.options.OptionError: k 0: give a whole number of 1 or more
    """
    if not fits(value, kind):
        raise OptionError(name, value if isinstance(value, (int, float)) else repr(value), in_words(kind))
    return value


def _field_types(kind: type) -> dict[str, object]:
    hints = get_type_hints(kind, include_extras=True)
    return {spec.name: hints[spec.name] for spec in dataclasses.fields(kind) if spec.init}


#: The types of the fields of a dataclass, with their bounds
field_types: Callable[[type], dict[str, object]] = functools.cache(_field_types)


def fits(value: Any, kind: object) -> bool:
    """Whether a value is of a type and within its bounds; types that are not known here take every value.

    Example:
        >>> fits(3, Count), fits(0, Count), fits(True, Count), fits([1, 2], list[Count] | None)
        (True, False, False, True)
    """
    if kind is Any:
        return True
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = [(_COMPARED[type(x)], getattr(x, _IN_WORDS[type(x)][0])) for x in args[1:] if type(x) in _IN_WORDS]
        return fits(value, args[0]) and all(compare(value, limit) for compare, limit in bounds)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in args)
    if origin is Literal:
        return isinstance(value, str | int) and value in args
    if kind in _SCALARS:
        return isinstance(value, _SCALARS[kind][0]) and (kind is bool or not isinstance(value, bool))
    if origin in (list, tuple, Sequence) and args:
        kinds = (Iterable,) if origin is Sequence else (list, tuple)
        listed = isinstance(value, kinds) and not isinstance(value, str)
        if origin is tuple and ... not in args:
            return listed and len(value) == len(args) and all(map(fits, value, args))
        return listed and all(fits(item, args[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            fits(x, part) for pair in value.items() for x, part in zip(pair, args, strict=True)
        )
    return value is not None if kind is not type(None) else value is None


def in_words(kind: object) -> str:
    """What a type takes, for a message: the text that an `Annotated` type has, or its name and bounds.

    Example:
        >>> in_words(Share), in_words(Count | None), in_words(Literal["a", "b"])
        ('a number of 0 or more and below 1', 'a whole number of 1 or more', 'a or b')
    """
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        if phrase := next((text for text in args[1:] if isinstance(text, str)), None):
            return phrase
        bounds = [bound for bound in args[1:] if type(bound) in _IN_WORDS]
        limits = [(_IN_WORDS[type(bound)][1], getattr(bound, _IN_WORDS[type(bound)][0])) for bound in bounds]
        shown = [words.format(limit) for words, limit in limits if abs(limit) != math.inf]
        if not shown:
            return f"a finite {in_words(args[0]).removeprefix('a ')}" if limits else in_words(args[0])
        return in_words(args[0]) + (" of " if shown[0][0].isdigit() else " ") + " and ".join(shown)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(in_words(one) for one in args if one is not type(None)))
    if origin is Literal:
        return " or ".join(map(str, args))
    if kind in _SCALARS:
        return _SCALARS[kind][1]
    if origin is dict:
        return f"names, each with {in_words(args[1])}"
    return f"a list: {in_words(args[0])}" if origin in (list, tuple, Sequence) and args else "another value"


def from_keys(kind: type[Kind], content: object) -> Kind:
    """The instance of a dataclass whose fields are the keys of a file.

    Raises:
        InputError: there is no such key, or a value is not one that its field takes; one that is missing is None.

    Example:
        >>> @dataclasses.dataclass
        ... class Entry(Options):
        ...     name: str
        ...     weight: Positive | None = None
        >>> from_keys(Entry, {"name": "nli", "wieght": 2})
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: unknown key 'wieght'; did you mean weight?
    """
    names = field_types(kind)
    if not isinstance(content, Mapping):
        raise InputError(f"{str(content)[:60]!r} has no keys and values; it takes {', '.join(names)}")
    for key in content:
        if key not in names:
            raise InputError(f"unknown key {key!r}; {suggestion(str(key), names)}")
    specs: Any = dataclasses.fields(kind)  # type: ignore[arg-type]
    missing = [x.name for x in specs if x.default is dataclasses.MISSING is x.default_factory and x.name not in content]
    return kind(**{**dict.fromkeys(missing), **content})


class Options:
    """Base of dataclasses whose fields are checked when an instance is made.

    Example:
        >>> @dataclasses.dataclass
        ... class Range(Options):
        ...     low: int = 0
        ...     high: int = 1
        ...
        ...     def conflicts(self):
        ...         if self.low > self.high:
        ...             yield f"low {self.low} is above high {self.high}"
        >>> Range(3, 2)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: low 3 is above high 2
    """

    def __post_init__(self) -> None:
        check_options(self)
        if conflict := next(iter(self.conflicts()), None):
            raise InputError(conflict)

    def conflicts(self) -> Iterable[str]:
        """Yield what is wrong with several fields together, as lines for an error; the first one is raised."""
        return ()

    def unused(self, where: str, *names: str) -> Iterator[str]:
        """Yield a line for each of some fields that is not at its default: in `conflicts`, for what is never read.

        Args:
            where: when it is never read, such as `without --tune`.
            names: the fields.
        """
        for name in names:
            if getattr(self, name) != getattr(type(self), name):
                yield f"--{name} has no effect {where}; leave it out"


# --- Fields as flags.


def option(
    help: str,
    default: object = None,
    *,
    positional: bool = False,
    short: str = "",
    metavar: str | tuple[str, ...] = "",
    group: str = "",
    **flag: object,
) -> Any:
    """The field of a dataclass with its help.

    Args:
        help: one line for `--help`.
        default: its value where nothing is given; `dataclasses.MISSING` for an option that must be given.
        positional: whether it is given by its position rather than by a flag; it must then be given, unless its default
            is not None.
        short: a second flag of one letter, such as `-k`.
        metavar: what the help calls its value.
        group: the title in the help under which it stands; by default that of `add_flags`.
        flag: other arguments of `add_argument`: `action="append"` for a list with one value per flag, `nargs="*"` for
            one that may be empty.
    """
    default = dataclasses.MISSING if positional and default is None else default
    flag |= {"metavar": metavar} if metavar else {}
    about = {"positional": positional, "short": short, "group": group, "flag": flag}
    metadata = {"help": help, **{name: value for name, value in about.items() if value}}  # as HfArgumentParser reads it
    return dataclasses.field(default=default, kw_only=not positional, metadata=metadata)


def add_flags(
    parser: argparse.ArgumentParser,
    *kinds: type,
    groups: Mapping[str, str] | None = None,
    hidden: Collection[str] = (),
) -> None:
    """Add a flag for each field of dataclasses: `--name VALUE`.

    A field that is true or false needs no value: `--name`. If there are positional options, it takes none, since a
    value would be one of those, and one that is true by default is switched off by `--no_name`. The flag of a list
    takes several values and may be repeated.

    Args:
        parser: the parser.
        kinds: the dataclasses.
        groups: titles in the help by the names of fields; fields without one are in the group `options`.
        hidden: the names of fields whose flags the help does not list.

    Example:
        >>> @dataclasses.dataclass
        ... class Search(Options):
        ...     query: str = option("what to look for", positional=True)
        ...     k: Count = option("number of hits", default=10, short="-k")
        ...     exact: bool = option("without the graph", default=False)
        >>> parser = argparse.ArgumentParser()
        >>> add_flags(parser, Search)
        >>> parsed(Search, parser.parse_args(["cats", "-k", "3", "--exact"]))
        Search(query='cats', k=3, exact=True)
    """
    specs = [(kind, spec) for kind in kinds for spec in dataclasses.fields(kind) if spec.init]
    alone, made = any(spec.metadata.get("positional") for _, spec in specs), dict[str, Any]()
    for kind, spec in specs:
        about, flag = spec.metadata, _flag_of(field_types(kind)[spec.name])
        title = None if about.get("positional") else about.get("group") or (groups or {}).get(spec.name)
        if title and title not in made:
            made[title] = parser.add_argument_group(title)
        add = (made[title] if title else parser).add_argument
        default: object = spec.default if spec.default_factory is dataclasses.MISSING else spec.default_factory()
        required = default is dataclasses.MISSING
        words = str(about.get("help", ""))
        if not required and not (default is False or (default is True and alone)):  # else --name or --no_name says it
            words += default_words(default)
        flag["help"] = argparse.SUPPRESS if spec.name in hidden else words.replace("%", "%%")
        flag |= {key: about[key] for key in ("nargs", "const", "choices") if key in about}  # as transformers has them
        flag |= about.get("flag", {})
        if flag.get("action") == "append":
            del flag["nargs"]
        if about.get("positional"):
            if not required:
                flag |= {"nargs": "*" if flag.get("nargs") else "?", "default": default}
            add(spec.name, **flag)
            continue
        names = [f"--{spec.name}", *([about["short"]] if about.get("short") else [])]
        if flag.get("type") is truth and alone:
            flag = {"help": flag["help"], "dest": spec.name, "action": "store_false" if default else "store_true"}
            names = [f"--no_{spec.name}"] if default else names
        elif flag.get("type") is truth:
            flag |= {"nargs": "?", "const": True, "metavar": "true|false"}
        if flag.get("nargs") == "+" and "action" not in flag:
            flag["action"] = _Extend
        add(*names, **flag, **({"required": True} if required else {"default": default}))


def default_words(default: object) -> str:
    """What the help says of a default; nothing of one that is empty.

    Example:
        >>> default_words(10), default_words(["a", "b"]), default_words(None)
        (' (default: 10)', ' (default: a b)', '')
    """
    if default is None or default in ("", (), []):
        return ""
    return f" (default: {' '.join(map(str, default)) if isinstance(default, (list, tuple)) else default})"


class _Extend(argparse.Action):
    """The values of a flag that is given once or several times, in place of the default."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, [*(() if before is None or before is self.default else before), *values])


def _flag_of(kind: object) -> dict[str, Any]:
    """The arguments of `add_argument` for a type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _flag_of(args[0])
    if origin in (Union, types.UnionType):
        some = [one for one in args if one is not type(None)]
        enums = (one for one in some if isinstance(one, type) and issubclass(one, Enum))
        texts = (one for one in some if one is str or get_origin(one) in (list, tuple))
        return _flag_of(next(chain(enums, texts), some[0]))
    if origin is Literal:
        return {"choices": list(args), "type": type(args[0])}
    if origin in (list, tuple, Sequence):
        return {**_flag_of(args[0]), "nargs": "+"}
    if kind is bool:
        return {"type": truth}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"choices": [one.value for one in kind]}
    return {"type": kind if kind in (int, float, Path) else str}


def truth(text: str) -> bool:
    """True or false as a command line writes it.

    Example:
        >>> truth("no"), truth("True")
        (False, True)
    """
    values = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(("false", "f", "no", "n", "0"), False)
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return values[text.lower()]


def parsed(kind: type[Kind], namespace: argparse.Namespace) -> Kind:
    """The instance of a dataclass that a parser with its flags has read.

    Raises:
        OptionError: a value is out of its bounds; the message has the flag.
    """
    values = {name: getattr(namespace, name) for name in field_types(kind)}
    try:
        return kind(**values)
    except OptionError as error:
        flags = {spec.name for spec in dataclasses.fields(kind) if not spec.metadata.get("positional")}  # type: ignore[arg-type]
        raise (error.called(f"--{error.name}") if error.name in flags else error) from None
