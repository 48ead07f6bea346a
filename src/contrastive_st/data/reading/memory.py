"""What people hold in memory as a table: data sets, DataFrames, columns, lists of rows or of texts, generators."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contrastive_st.data.profile import is_missing
from contrastive_st.data.reading.delimited import distinct
from contrastive_st.data.reading.objects import rows_of
from contrastive_st.data.reading.rows import BATCH, Row, Table, arrow_rows, numbered
from contrastive_st.data.roles import ColumnRoles, table_roles
from contrastive_st.errors import InputError, choice

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

_STREAMED = 1000  # rows of a stream from which its columns are known


def in_memory(source: object, name: str = "the data", split: str = "train") -> Table:
    """The rows of something in memory.

    | source                                                | its rows                                           |
    |-------------------------------------------------------|----------------------------------------------------|
    | a `Dataset`, an `IterableDataset`                     | as indexing gives them: transformed, and without   |
    |                                                       | the columns that its format hides                  |
    | a `DatasetDict`, any dictionary of such tables        | those of `split`                                   |
    | a DataFrame of pandas or polars, a table of pyarrow   | its rows; the index of pandas is not a column      |
    | a dictionary of columns                               | the first cell of each column, then the second ... |
    | a list, an array, a column, a generator               | its items: dictionaries, texts (in a column        |
    |                                                       | `text`), or lists of cells (in columns `0`, `1`)   |

    Args:
        source: as above; a `Table` is returned as it is.
        name: what it is called in messages.
        split: which table of a dictionary of tables.

    Raises:
        InputError: it is something else, two columns have one name, or there is no such split.

    Example:
        >>> [row.cells for row in in_memory([("Why?", "So."), ("Who?", "I.")])]
        [{'0': 'Why?', '1': 'So.'}, {'0': 'Who?', '1': 'I.'}]
        >>> [row.cells for row in in_memory({"query": ["Why?", "Who?"], "answer": ["So.", "I."]})]
        [{'query': 'Why?', 'answer': 'So.'}, {'query': 'Who?', 'answer': 'I.'}]
    """
    if isinstance(source, Table):
        return source
    if (splits := splits_in(source)) is not None:
        return in_memory(splits[choice("split", split, splits, name)], name)
    datasets = sys.modules.get("datasets")  # whoever has one of its objects has imported it
    if datasets and isinstance(source, datasets.Dataset):
        return of_dataset(source, name)
    if datasets and isinstance(source, datasets.IterableDataset):
        plain = source.with_format(None)
        read = lambda: numbered(map(dict, plain))
        classes = classes_of(source.features or {})
        return Table(name, "row", read, source.column_names, sampled=_STREAMED, classes=classes)
    named = isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "items"))
    arrow = any(hasattr(source, f"__arrow_c_{kind}__") for kind in ("stream", "array"))
    if hasattr(source, "columns") and not named and arrow:
        import pyarrow as pa  # here, because texts are read without it

        return of_arrow(pa.table(source), name)
    rows = list(_of_columns(source, name) if named else _of_items(source, name))
    return Table(name, "row", lambda: iter(rows))


def column_roles(
    rows: Iterable[Mapping[str, object]],
    columns: Sequence[str | int] | None = None,
    *,
    source: str = "the data",
    kinds: Sequence[str] = (),
) -> ColumnRoles:
    """The role of each column of rows in memory, as by `contrastive_st.data.roles.table_roles`.

    Args:
        rows: the rows of the table: cells by column.
        columns: as for `table_roles`: the columns wanted, by name or by position from 0, or as `name=role`.
        source: name of the source in messages.
        kinds: the kinds of rows that are wanted, keys of `KINDS`; by default any.

    Raises:
        InputError: the roles are not clear, or do not fit together; the message shows how to name them.

    Example:
        >>> column_roles([{"text": "a cat", "category": "animals"}]).kind
        'labelled_texts'
        >>> column_roles([{"a": "one", "b": "two", "n": 3}], ["b=anchor", "a=positive"]).columns
        {'b': 'anchor', 'a': 'positive'}
    """
    return table_roles(in_memory(rows, source), columns, kinds)


def splits_in(source: object) -> Mapping[str, object] | None:
    """The tables of a dictionary of tables, by the names of their splits; None for anything else."""
    if not isinstance(source, Mapping) or not source:
        return None
    return source if all(hasattr(one, "column_names") or hasattr(one, "columns") for one in source.values()) else None


def of_dataset(data: datasets.Dataset, source: str) -> Table:
    """The rows of a data set, as indexing it gives them."""
    if data.format["type"] == "custom":
        return Table(source, "row", lambda: numbered({name: _python(row[name]) for name in row} for row in data))
    data = visible(data)
    plain = data.with_format("arrow")
    return Table(
        source, "row", lambda: arrow_rows(plain.iter(batch_size=BATCH)), list(data.column_names),
        schema=data.features.arrow_schema, read_columns=data.with_format(None).select_columns,
        classes=classes_of(data.features),
    )  # fmt: skip


def of_arrow(data: pa.Table, source: str) -> Table:
    """The rows of a table of Arrow, which may be mapped from disk."""
    names, classes = distinct(data.column_names, source), stored_classes(data.schema)
    read = lambda: arrow_rows(data.to_batches(BATCH))
    return Table(source, "row", read, names, schema=data.schema, classes=classes)


def visible(data: datasets.Dataset) -> datasets.Dataset:
    """The data set without the columns that its format hides (`with_format(columns=...)`)."""
    shown = data.column_names if data.format["output_all_columns"] else data.format["columns"]
    return data if set(shown) == set(data.column_names) else data.select_columns(shown)


def classes_of(features: Mapping[str, object]) -> dict[str, list[str]]:
    """The names of the classes of each column of them."""
    import datasets

    kinds = {name: getattr(kind, "feature", kind) for name, kind in features.items()}  # of a list, its items
    return {name: list(kind.names) for name, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)}


def stored_classes(schema: pa.Schema) -> dict[str, list[str]]:
    """The same for the schema of a file, in which `datasets` has written its features."""
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    import datasets

    with contextlib.suppress(ValueError):  # a type that `datasets` does not have
        return classes_of(datasets.Features.from_arrow_schema(schema))
    return {}


def _of_columns(source: Any, name: str) -> Iterator[Row]:
    """The rows of a dictionary of columns, or of pandas, which gives its columns as a dictionary does."""
    columns = [(str(label), column) for label, column in source.items()]
    names, cells = distinct([label for label, _ in columns], name), [_items(column, name) for _, column in columns]
    if len(lengths := {len(column) for column in cells}) > 1:
        raise InputError(f"{name}: the columns have {' and '.join(map(str, sorted(lengths)))} rows; make them equal")
    return numbered(dict(zip(names, map(_python, row), strict=True)) for row in zip(*cells, strict=True))


def _of_items(source: object, name: str) -> Iterator[Row]:
    def plain(item: Any) -> Any:
        item = _python(item)
        if isinstance(item, tuple):
            item = item._asdict() if hasattr(item, "_asdict") else list(item)
        return {str(label): _python(cell) for label, cell in item.items()} if isinstance(item, Mapping) else item

    return rows_of(enumerate(map(plain, _items(source, name)), 1), f"{name}, row")


def _items(source: object, name: str) -> list[Any]:
    """The items of a list, a column or a generator, in order."""
    unordered = isinstance(source, (str, bytes, set, frozenset, Mapping, io.IOBase))
    if unordered or not isinstance(source, Iterable):
        accepted = "a list of texts or of dictionaries, a dictionary of columns, a DataFrame or a data set"
        what = f"an object of the type {type(source).__name__} has no rows"
        raise InputError(f"{name}: {what}; give {accepted}, or the name of a file")
    as_list = getattr(source, "to_pylist", None) or getattr(source, "tolist", None)
    return list(source) if as_list is None else list(as_list())


def _python(cell: object) -> Any:
    """A cell without the types of numpy; what pandas means by a missing value is null."""
    cell = cell.tolist() if hasattr(cell, "tolist") else cell
    return None if is_missing(cell) else cell
