"""The statements that search: composed of constants and checked identifiers, everything else a parameter.

Parameters: `q` the query vector, `k` how many, `filter` a jsonpath, `words` the user's text, `ids` a list.
"""

from __future__ import annotations

from psycopg import sql

from contrastive_st.search.schema import Tables

Statement = sql.Composed
_MATCHES = "t.metadata @@ %(filter)s::jsonpath"

# Adding 0 keeps the planner from answering by the approximate index.
_EXACT = """
    SELECT v.id, v.embedding <=> %(q)b AS distance FROM {vectors} AS v
    ORDER BY (v.embedding <=> %(q)b) + 0 LIMIT %(k)s"""
_EXACT_FILTERED = f"""
    SELECT v.id, v.embedding <=> %(q)b AS distance
    FROM (SELECT t.id FROM {{texts}} AS t WHERE {_MATCHES}) AS matching JOIN {{vectors}} AS v ON v.id = matching.id
    ORDER BY (v.embedding <=> %(q)b) + 0 LIMIT %(k)s"""
_HNSW = """
    SELECT v.id, v.embedding <=> %(q)b AS distance FROM {vectors} AS v ORDER BY v.embedding <=> %(q)b LIMIT %(k)s"""
_HNSW_FILTERED = f"""
    SELECT v.id, v.embedding <=> %(q)b AS distance FROM {{vectors}} AS v JOIN {{texts}} AS t ON t.id = v.id
    WHERE {_MATCHES} ORDER BY v.embedding <=> %(q)b LIMIT %(k)s"""
_BINARY = """
    SELECT c.id, c.embedding <=> %(q)b AS distance FROM (
        SELECT v.id, v.embedding FROM {vectors} AS v
        ORDER BY binary_quantize(v.embedding)::bit({width}) <~> binary_quantize(%(q)b)::bit({width}) LIMIT %(many)s
    ) AS c ORDER BY 2 LIMIT %(k)s"""
_BINARY_FILTERED = f"""
    SELECT c.id, c.embedding <=> %(q)b AS distance FROM (
        SELECT v.id, v.embedding FROM {{vectors}} AS v JOIN {{texts}} AS t ON t.id = v.id WHERE {_MATCHES}
        ORDER BY binary_quantize(v.embedding)::bit({{width}}) <~> binary_quantize(%(q)b)::bit({{width}})
        LIMIT %(many)s
    ) AS c ORDER BY 2 LIMIT %(k)s"""
_BY_INDEX = {"none": _EXACT, "hnsw": _HNSW, "binary": _BINARY}
_BY_INDEX_FILTERED = {"none": _EXACT_FILTERED, "hnsw": _HNSW_FILTERED, "binary": _BINARY_FILTERED}


def nearest(tables: Tables, index: str, dimension: int, filtered: bool) -> Statement:
    """`id, cosine, text, metadata` of the k nearest; `index` is `none` for an exact search."""
    inner = (_BY_INDEX_FILTERED if filtered else _BY_INDEX)[index]
    outer = f"""WITH nearest AS MATERIALIZED ({inner})
    SELECT n.id, 1 - n.distance, t.text, t.metadata FROM nearest AS n JOIN {{texts}} AS t ON t.id = n.id
    ORDER BY n.distance, n.id"""
    return _compose(outer, tables, width=sql.Literal(dimension))


def matching_estimate(tables: Tables) -> Statement:
    """The planner's plan, as JSON, for the documents that meet the filter."""
    return _compose(f"EXPLAIN (FORMAT JSON) SELECT t.id FROM {{texts}} AS t WHERE {_MATCHES}", tables)


def by_ids(tables: Tables) -> Statement:
    """`id, cosine, text, metadata` of some documents."""
    return _compose(
        """SELECT v.id, 1 - (v.embedding <=> %(q)b), t.text, t.metadata
        FROM {vectors} AS v JOIN {texts} AS t ON t.id = v.id WHERE v.id = ANY(%(ids)s)""",
        tables,
    )


_DOCUMENT = "to_tsvector('english', left(t.text, 100000))"  # a tsvector has room for 1 MB
_ANY_WORD = """(SELECT coalesce(string_agg('''' || replace(replace(w, '\\', '\\\\'), '''', '''''') || '''', ' | '), '')
    FROM unnest(tsvector_to_array(to_tsvector('english', left(%(words)s, 10000)))) AS w)::tsquery"""
_ALL_WORDS = "websearch_to_tsquery('english', left(%(words)s, 10000))"


def words_estimate(tables: Tables) -> Statement:
    """The planner's plan, as JSON, for the documents that hold any of the words."""
    return _compose(
        f"EXPLAIN (FORMAT JSON) SELECT t.id FROM {{texts}} AS t WHERE {_DOCUMENT} @@ %(any)s::tsquery", tables
    )


def any_word() -> Statement:
    """The words as a tsquery of alternatives: text in, text out."""
    return sql.SQL(f"SELECT {_ANY_WORD}::text, {_ALL_WORDS}::text").format()


def by_words(tables: Tables, filtered: bool) -> Statement:
    """Ids of the k documents that a tsquery ranks first, of at most 10,000 that it finds."""
    condition = f"{_DOCUMENT} @@ %(tsquery)s::tsquery" + (f" AND {_MATCHES}" if filtered else "")
    return _compose(
        f"""SELECT id FROM (SELECT t.id, t.text FROM {{texts}} AS t WHERE {condition} LIMIT 10000) AS t
        ORDER BY ts_rank_cd({_DOCUMENT}, %(tsquery)s::tsquery, 1) DESC, id LIMIT %(k)s""",
        tables,
    )


def _compose(template: str, tables: Tables, **more: sql.Composable) -> Statement:
    return sql.SQL(template).format(vectors=tables.vectors, texts=tables.texts, **more)  # type: ignore[arg-type]
