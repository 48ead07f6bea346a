"""Topics of a collection: named clusters, with their sizes by the values of a metadata column."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import CountVectorizer

from contrastive_st.data.profile import number_of
from contrastive_st.errors import InputError
from contrastive_st.search.filters import values_of
from contrastive_st.search.index import VectorIndex, known_of, sample
from contrastive_st.search.values import one_line
from contrastive_st.vectors import unit_vectors

# --- Groups of the values of a metadata column: years, months, ranges of numbers, or the most frequent values.

MOST = 24  # groups; more cannot be read in a table or a picture
_PERIODS = 120  # of --every
MISSING, OTHERS = "(none)", "(others)"
_DATE = re.compile(r"\d{4}-\d\d(-\d\d.*)?")


@dataclass(frozen=True)
class Groups:
    """Groups of values.

    Args:
        names: names of the groups, in order.
        of: index into `names` for each value.
        ordered: whether their order has a meaning, as that of years does; `MISSING`, the last one, is outside of it.
    """

    names: list[str]
    of: Mapping[object, int]
    ordered: bool

    def count(self, values: Mapping[object, int]) -> list[int]:
        """The number of counted values in each group."""
        counts = [0] * len(self.names)
        for value, n in values.items():
            counts[self.of[value]] += n
        return counts


def group_values(counted: Mapping[object, int], every: str | None = None) -> Groups:
    """Put the values, given with how often they occur, into at most 24 groups; or dates into months, quarters or years.

    Numbers (also as texts) and ISO dates keep their order: if there are more, numbers are put in ranges of a round
    width, and dates in days, months, years or decades. Of other values, each of the most frequent gets a group. A
    missing value gets the last group.

    Args:
        counted: how often each value occurs; None is a missing value.
        every: `month`, `quarter` or `year`, for dates.

    Returns:
        The groups.

    Example:
        >>> group_values({2019: 4, 2021: 1}).names
        ['2019', '2020', '2021']
        >>> group_values({"b": 1, "a": 3}).names
        ['a', 'b']
        >>> group_values({"2019-12-24": 1, "2020-07": 1}, "quarter").names
        ['2019-Q4', '2020-Q1', '2020-Q2', '2020-Q3']
    """
    values = [value for value in counted if value is not None]
    numbers = {value: number for value in values if not isinstance(value, bool)
               and (number := number_of(value)) is not None}  # fmt: skip
    dates = {value: value for value in values if isinstance(value, str) and _DATE.match(value)}
    number_in: dict[object, int]  # the group of each value
    ordered = True
    if every is not None:  # every month, quarter or year from the first date to the last one
        if strange := [value for value in values if value not in dates]:
            raise InputError(f"--every {every}: {one_line(str(strange[0]), 60)} is not a date such as 2024-05-31")
        months = {"month": 1, "quarter": 3, "year": 12}[every]
        periods = {value: (12 * int(date[:4]) + int(date[5:7]) - 1) // months for value, date in dates.items()}
        first, last = min(periods.values()), max(periods.values())
        if last - first >= _PERIODS:
            span = f"{last - first + 1} from {min(dates.values())} to {max(dates.values())}"
            raise InputError(f"--every {every}: {span}; {_PERIODS} at most")
        name = {"month": lambda n: f"{n // 12}-{n % 12 + 1:02}", "quarter": lambda n: f"{n // 4}-Q{n % 4 + 1}"}
        names = [name.get(every, str)(number) for number in range(first, last + 1)]
        number_in = {value: number - first for value, number in periods.items()}
    elif len(numbers) == len(values):
        # as decimals, as they are written: 4.1 / 0.1 is less than 41 in floats
        exact = {value: Decimal(repr(number)) for value, number in numbers.items()}
        low, high, width = min(exact.values()), max(exact.values()), Decimal(1)
        integers = all(number.is_integer() for number in numbers.values())
        if not integers or high - low >= MOST:  # the next larger of 1, 2, 5, 10, 20, ... times a power of ten
            least = (high - low) / (MOST - 2) or Decimal(1)
            power = Decimal(10) ** least.adjusted()
            width = next(step * power for step in (1, 2, 5, 10) if step * power >= least)
        first = math.floor(low / width)
        starts = range(first, math.floor(high / width) + 1)
        edge = lambda i: repr(float(i * width)).removesuffix(".0")
        names = [f"{i}" if integers and width == 1 else f"{edge(i)} to {edge(i + 1)}" for i in starts]
        number_in = {value: math.floor(number / width) - first for value, number in exact.items()}
        distinct = sorted({*numbers.values()})
        if len(distinct) <= MOST and not (integers and width == 1):  # each has a group
            names = [repr(number).removesuffix(".0") for number in distinct]
            number_in = {value: distinct.index(number) for value, number in numbers.items()}
    elif len(dates) == len(values):
        for length, rest in ((10, ""), (7, ""), (4, ""), (3, "0s"), (2, "00s")):
            names = sorted({date[:length] + rest for date in dates.values()})
            if len(names) <= MOST:
                break
        number_in = {value: names.index(date[:length] + rest) for value, date in dates.items()}
    else:
        texts: Counter[str] = Counter()
        for value in values:
            texts[str(value)] += counted[value]
        names = sorted(texts, key=lambda name: (-texts[name], name))
        group_of = {name: min(i, MOST - 1) for i, name in enumerate(names)}
        names = names if len(names) <= MOST else [*names[: MOST - 1], OTHERS]
        number_in, ordered = {value: group_of[str(value)] for value in values}, False
    ordered = ordered and len(names) > 1
    if None not in counted:
        return Groups(names, number_in, ordered)
    return Groups([*names, MISSING], {**number_in, None: len(names)}, ordered)


SAMPLE = 20_000  # documents from which the centres and the vocabulary are computed
_WORDS = 20_000  # terms kept in the vocabulary
_DISTINCT = 100_000  # most values of the --by column


@dataclass
class Cluster:
    """A cluster: documents on the same topic.

    Args:
        name: its most distinctive terms, separated by commas.
        size: number of documents.
        central: the text nearest to its centre.
        central_id: id of that document.
        cohesion: mean cosine of its documents to its centre.
        terms: the most distinctive terms, best first, by class-based TF-IDF (Grootendorst 2022).
        counts: documents by value of the `by` column, in the order of `Trends.values`.
        change: difference of its share in the later and in the earlier half of the values, in percentage points;
            None if the values have no order. Documents without a value do not count.
        error: half the width of the 95% interval of the change, as the difference of two proportions (Agresti and Caffo
            2000).
    """

    name: str
    size: int
    central: str
    central_id: int
    cohesion: float
    terms: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    change: float | None = None
    error: float = 0.0


@dataclass
class Trends:
    """The clusters of an index, largest first.

    Args:
        clusters: the clusters.
        total: number of documents.
        by: the metadata column by which they were counted, or None.
        values: its values or ranges of values, in order; the last one is `MISSING` if documents have none.
        centres: unit vectors `[clusters, d]`, in the order of the clusters.
        left_out: number of further documents, of which the model knows no token.
    """

    clusters: list[Cluster]
    total: int
    by: str | None
    values: list[str]
    centres: NDArray[np.float32]
    left_out: int = 0

    def assign(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """The cluster of each vector `[n, d]`: the one with the nearest centre."""
        return np.asarray((vectors @ self.centres.T).argmax(1))

    def curve(self, cluster: Cluster) -> list[int]:
        """The counts of a cluster, without its documents that have no value."""
        return cluster.counts[: len(self.values) - (self.values[-1:] == [MISSING])]

    def rows(self) -> list[dict[str, object]]:
        """One flat dict per cluster, for tables."""
        result = []
        for cluster in self.clusters:
            row: dict[str, object] = {"cluster": cluster.name, "size": cluster.size}
            row["share"] = round(100 * cluster.size / self.total, 2)
            if cluster.change is not None:
                row |= {"change": round(cluster.change, 2), "change_error": round(cluster.error, 2)}
            row |= {"cohesion": round(cluster.cohesion, 4), "central": one_line(cluster.central)}
            row |= {f"{self.by}: {value}": n for value, n in zip(self.values, cluster.counts, strict=True)}
            result.append(row)
        return result


def find_trends(
    index: VectorIndex,
    by: str | None = None,
    clusters: int | None = None,
    seed: int = 0,
    *,
    every: str | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Trends:
    """Cluster an index by k-means over its unit vectors, in two passes of bounded memory.

    The first pass draws a sample of 20,000 documents, from which the centres and the vocabulary are computed; the
    second pass assigns every document to its nearest centre and counts.

    Args:
        index: any `VectorIndex`.
        by: a metadata column by whose values the sizes are counted, named as in a filter (`author.name` is a value
            inside an object). Many numbers or dates are grouped into ranges.
        clusters: number of clusters; by default one for every 50 documents, from 2 to 16, as many as a map can show.
            (Scores for choosing the number, such as the silhouette, hardly change from 4 to 45 clusters on sentence
            embeddings.)
        seed: seed of the sample and of k-means.
        every: `month`, `quarter` or `year`: the periods of dates, of which those without a document are there too.
        progress: is called with the number of documents that are counted, and that of all.

    Returns:
        The clusters with their names, sizes and counts, largest first.

    Raises:
        InputError: the index is empty, has fewer documents than clusters, or no document has the column, or it holds
            objects.
    """
    drawn = sample(index, SAMPLE, seed)
    count = clusters or int(np.clip(drawn.total // 50, 2, 16))
    distinct = len(np.unique(drawn.vectors[: 10 * count + 1000], axis=0))
    if clusters is not None and not 1 <= clusters <= distinct:
        raise InputError(f"{clusters} clusters of {distinct} distinct documents; give a number from 1 to {distinct}")
    means = MiniBatchKMeans(min(count, distinct), random_state=seed, n_init=5, batch_size=4096).fit(drawn.vectors)
    centres, counter = unit_vectors(means.cluster_centers_.astype(np.float32)), _vocabulary(drawn.texts)
    k = len(centres)
    sizes, sums, nearest, central = np.zeros(k, dtype=np.int64), np.zeros(k), np.full(k, -np.inf), [(0, "")] * k
    words, by_value = np.zeros((k, len(counter.vocabulary_) if counter else 0)), [Counter[object]() for _ in range(k)]
    left_out = 0
    for batch in index.scan():
        ids, texts, metadata, vectors = known_of(batch)
        left_out += len(batch[0]) - len(ids)
        cosines = unit_vectors(vectors) @ centres.T
        labels = cosines.argmax(1)
        best = cosines[np.arange(len(labels)), labels]
        np.add.at(sizes, labels, 1)
        np.add.at(sums, labels, best)
        for row in np.flatnonzero(best > nearest[labels]):
            if best[row] > nearest[labels[row]]:
                nearest[labels[row]], central[labels[row]] = best[row], (int(ids[row]), texts[row])
        if counter is not None:
            counted = counter.transform(texts)
            for label in np.unique(labels):
                words[label] += np.asarray(counted[labels == label].sum(0)).ravel()
        for label, entry in zip(labels, metadata, strict=True) if by is not None else ():
            values = [value for value in values_of(entry, str(by)) if value not in (None, "")]
            if held := [value for value in values if isinstance(value, (dict, list))]:
                there = one_line(json.dumps(held[0], ensure_ascii=False), 60)
                raise InputError(f"--by {by}: {there} is not one value; choose another column, or name a "
                                 f"value inside an object, such as {by}.NAME")  # fmt: skip
            by_value[label].update(values or [None])
        if sum(map(len, by_value)) > _DISTINCT:
            raise InputError(f"--by {by} has too many values (more than {_DISTINCT:,} counted); "
                             "choose a column that groups documents")  # fmt: skip
        progress(int(sizes.sum()) + left_out, drawn.total)
    groups, all_values = Groups([], {}, False), sum(by_value, Counter[object]())
    if by is not None:
        if set(all_values) <= {None}:
            raise InputError(f"--by {by}: no document has this metadata; choose a column that the corpus has")
        groups = group_values(all_values, every)
    order = [i for i in np.argsort(-sizes, kind="stable") if sizes[i]]
    result: list[Cluster] = []
    for i, terms in zip(order, distinctive_terms(words[order], counter), strict=True):
        number, text = central[i]
        name = _name(terms, text, [cluster.name for cluster in result])
        cohesion = float(sums[i] / sizes[i])
        result.append(Cluster(name, int(sizes[i]), text, number, cohesion, terms, groups.count(by_value[i])))
    trends = Trends(result, int(sizes.sum()), by, groups.names, centres[order], left_out)
    if groups.ordered:
        changes = _changes(np.array([*map(trends.curve, result)]))
        for cluster, change in zip(result, changes, strict=True):
            cluster.change, cluster.error = change
    return trends


def distinctive_terms(counts: NDArray[np.float64], counter: CountVectorizer | None, n: int = 8) -> list[list[str]]:
    """The n terms of each class (counts `[classes, words]`) with the highest class-based TF-IDF, best first.

    The weight of term t in class c is the square root of its share of the words of c times log(1 + A / f), with f its
    count in all classes and A the mean number of words per class (Grootendorst 2022; the root is what BERTopic calls
    `reduce_frequent_words`).

    Args:
        counts: of each term in each class, `[classes, terms]`.
        counter: knows the terms; None if there are none.
        n: terms of a class.

    Returns:
        The terms of each class.
    """
    if counter is None:
        return [[] for _ in counts]
    names = counter.get_feature_names_out()
    weights = np.sqrt(counts / np.maximum(counts.sum(1, keepdims=True), 1))
    weights = weights * np.log1p(counts.sum() / len(counts) / np.maximum(counts.sum(0), 1))
    best = np.argsort(-weights, axis=1, kind="stable")[:, :n]
    return [[str(names[i]) for i in row if item[i] > 0] for row, item in zip(best, weights, strict=True)]


def _name(terms: Sequence[str], text: str, taken: Collection[str]) -> str:
    """The name of a cluster: three terms, or more if that name is taken; without terms, its central text."""
    # no term is a prefix of another one, as a singular of its plural
    apart = [term for at, term in enumerate(terms) if not any(_alike(term, other) for other in terms[:at])]
    names = [", ".join(apart[:n]) for n in range(min(3, len(apart)), len(apart) + 1) if apart]
    names = names or [one_line(text, 40) or "(no words)"]
    names += [f"{names[0]} ({n})" for n in range(2, len(taken) + 2)]
    return next(name for name in names if name not in taken)


def _alike(a: str, b: str) -> bool:
    shorter, longer = sorted([a, b], key=len)
    return len(shorter) > 3 and longer.startswith(shorter[: max(len(shorter) - 1, 3)])


def _vocabulary(texts: Sequence[str]) -> CountVectorizer | None:
    """A counter of informative words: without stop words, and without words that are in a single text."""
    word = r"(?u)\b[^\W\d_]{3,}\b"
    for fewest in (2, 1):
        counter = CountVectorizer(stop_words="english", token_pattern=word, min_df=fewest, max_features=_WORDS)
        try:
            return counter.fit(texts)
        except ValueError:  # no words are left
            continue
    return None


def _changes(counts: NDArray[np.int64]) -> list[tuple[float, float]]:
    """Change of the share of each row of `[clusters, values]` between the halves of the columns, and its error."""
    half = counts.shape[1] // 2
    early, late = counts[:, :half].sum(1), counts[:, counts.shape[1] - half :].sum(1)
    change = late / max(late.sum(), 1) - early / max(early.sum(), 1)
    variances = [(p := (part + 1) / (part.sum() + 2)) * (1 - p) / (part.sum() + 2) for part in (early, late)]
    return [*zip((100 * change).tolist(), (196 * np.sqrt(sum(variances))).tolist(), strict=True)]


def table(trends: Trends, width: int = 150) -> Iterator[str]:
    """Lines to print: size, share, name and centre; change and curve by a column with an order, or else its counts.

    Args:
        trends: the clusters.
        width: characters of a line.
    """
    ordered = any(cluster.change is not None for cluster in trends.clusters)
    names = max([len(cluster.name) for cluster in trends.clusters])
    curve = max(5, len(trends.values) - (trends.values[-1:] == [MISSING]))
    head = f"{'change, points':>15}  {'curve':{curve}}" if ordered else ""
    yield f"{'size':>9} {'share':>6}{head}  {'cluster':{names}}  central text"
    for cluster in trends.clusters:
        start = f"{cluster.size:9,} {100 * cluster.size / trends.total:5.1f}%"
        start += f"{f'{cluster.change:+.1f} ±{cluster.error:.1f}':>15}" if cluster.change is not None else ""
        start += f"  {sparkline(trends.curve(cluster)):{curve}}" if ordered else ""
        start += f"  {cluster.name:{names}}  "
        yield start + one_line(cluster.central, max(width - len(start), 40))
        if trends.values and not ordered:
            counted = zip(trends.values, cluster.counts, strict=True)
            yield " " * 18 + ", ".join(f"{one_line(value, 40)} {n:,}" for value, n in counted if n)
    if ordered:
        first, *_, last = trends.values[: -1 if trends.values[-1] == MISSING else None]
        yield f"change: share in the later half of {first} to {last}, minus that in the earlier half, ± 95%"
    if ordered and trends.values[-1] == MISSING:
        missing = sum(cluster.counts[-1] for cluster in trends.clusters)
        yield f"without {trends.by}: {missing:,} documents, which are in no curve and no change"


def sparkline(counts: Iterable[int]) -> str:
    """A sparkline: a bar for each count.

    Example:
        >>> sparkline([0, 1, 4, 8])
        ' ▁▄█'
    """
    counts = list(counts)
    top = max([*counts, 1])
    return "".join(" ▁▂▃▄▅▆▇█"[-(-8 * count // top)] for count in counts)
