"""Clusters and what they are called, their sizes over a column, the map."""

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from search_fakes import TOPICS, WordEncoder, topic_index, topic_texts

from contrastive_st import InputError
from contrastive_st.search.analysis import topics as trends
from contrastive_st.search.analysis.projection import draw_map, draw_sizes, lay_out, new_figure, place_labels, project
from contrastive_st.search.analysis.topics import distinctive_terms, find_trends, group_values, table
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.index import sample


@pytest.fixture(scope="module")
def index():
    return topic_index()


@pytest.fixture(scope="module")
def by_year(index):
    return find_trends(index, "year", clusters=3)


def test_topics_are_found_counted_and_named(index, by_year):
    texts, metadata = topic_texts()
    assert [cluster.size for cluster in by_year.clusters] == [60, 60, 60]
    assert by_year.values == ["2000", "2001", "2002"]
    seen = set()
    for cluster in by_year.clusters:
        topic = next(topic for topic, words in TOPICS.items() if cluster.terms[0] in words.split())
        seen.add(topic)
        assert set(cluster.terms) <= set(TOPICS[topic].split())
        assert cluster.name == ", ".join(cluster.terms[:3])
        counted = Counter(str(entry["year"]) for entry in metadata if entry["topic"] == topic)
        assert cluster.counts == [counted[year] for year in by_year.values]
        own = [i for i, entry in enumerate(metadata) if entry["topic"] == topic]
        vectors = WordEncoder().encode([texts[i] for i in own])
        cosines = vectors @ by_year.centres[by_year.clusters.index(cluster)]
        assert cluster.central == texts[own[cosines.argmax()]]
        assert index.get([cluster.central_id])[0].text == cluster.central
        assert cluster.cohesion == pytest.approx(cosines.mean(), abs=1e-6)
    assert seen == set(TOPICS)


def test_documents_of_which_the_model_knows_no_token_are_left_out(index):
    """A move to another model gives them vectors of zeros."""
    ids, texts, metadata, vectors = next(index.scan())
    vectors[50:70] = 0  # of two clusters; and a whole batch of the scan below
    silent = ExactIndex(ids, texts, vectors, metadata)
    silent.scan = lambda: ExactIndex.scan(silent, 10)
    found = find_trends(silent, "year", clusters=3)
    assert (found.total, found.left_out, sum(sum(cluster.counts) for cluster in found.clusters)) == (160, 20, 160)
    assert not set(ids[50:70].tolist()) & set(lay_out(silent, found).sample.ids.tolist())
    with pytest.raises(InputError, match=f"document {ids[50]} is without a token that the model knows"):
        silent.similar(ids[50])
    with pytest.raises(InputError, match="no documents with a token"):
        find_trends(ExactIndex(ids, texts, 0 * vectors))


def test_the_change_is_that_of_the_share(by_year):
    counts = np.array([cluster.counts for cluster in by_year.clusters])
    for row, cluster in zip(counts, by_year.clusters, strict=True):
        early, late = row[0] / counts[:, 0].sum(), row[2] / counts[:, 2].sum()
        assert cluster.change == pytest.approx(100 * (late - early))
        variance = 0.0
        for own, total in ((row[0], counts[:, 0].sum()), (row[2], counts[:, 2].sum())):
            share = (own + 1) / (total + 2)
            variance += share * (1 - share) / (total + 2)
        assert cluster.error == pytest.approx(196 * math.sqrt(variance))
    assert [row["change"] for row in by_year.rows()] == [round(cluster.change, 2) for cluster in by_year.clusters]
    assert max(abs(cluster.change) for cluster in by_year.clusters) > 10


def test_batches_do_not_matter_and_the_seed_does(index, by_year, monkeypatch):
    class Slices:
        dimension, fingerprint, draw = index.dimension, index.fingerprint, index.draw

        def __len__(self):
            return len(index)

        def scan(self, batch_size=10_000):
            return index.scan(batch_size=7)

    again = find_trends(Slices(), "year", clusters=3)
    assert [cluster.name for cluster in again.clusters] == [cluster.name for cluster in by_year.clusters]
    np.testing.assert_allclose(again.centres, by_year.centres, atol=1e-6)
    one, same, other = (sample(index, 20, seed) for seed in (0, 0, 1))
    assert one.total == 180
    assert one.ids.tolist() == same.ids.tolist() == sorted(set(one.ids))
    assert one.ids.tolist() != other.ids.tolist()
    monkeypatch.setattr(trends, "SAMPLE", 50)  # the centres of a sample, the counts of all
    assert sum(cluster.size for cluster in find_trends(Slices(), clusters=3).clusters) == 180


def test_class_based_tf_idf_against_plain_loops():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (4, 30)).astype(float)

    class Counter_:
        def get_feature_names_out(self):
            return [f"w{i}" for i in range(30)]

    for row, found in enumerate(distinctive_terms(counts, Counter_(), n=30)):
        weights = {}
        for column in range(30):
            f = sum(counts[other, column] for other in range(4))
            average = sum(counts[c, w] for c in range(4) for w in range(30)) / 4
            weights[f"w{column}"] = math.sqrt(counts[row, column] / counts[row].sum()) * math.log(1 + average / f)
        wanted = sorted((w for w in weights if weights[w] > 0), key=lambda w: (-weights[w], int(w[1:])))
        assert found == wanted


@pytest.mark.parametrize(
    ("values", "names", "ordered"),
    [
        ({2019: 1, 2021: 1}, ["2019", "2020", "2021"], True),
        ({1: 1, 1.5: 2, "2": 1, "2.0": 1}, ["1", "1.5", "2"], True),
        ({1000: 1, 5: 2, 40: 1}, ["5", "40", "1000"], True),
        ({"2019": 1, "2020": 1}, ["2019", "2020"], True),
        ({"2020-01-05": 1, "2020-01-07": 1}, ["2020-01-05", "2020-01-07"], True),
        (
            {f"20{year}-{month:02}": 1 for year in (20, 21, 22) for month in range(1, 13)},
            ["2020", "2021", "2022"],
            True,
        ),
        ({"01": 1, "+3": 1, 2: 1}, ["1", "2", "3"], True),
        ({"1_0": 1, "nan": 2}, ["nan", "1_0"], False),
        ({"b": 1, "a": 2}, ["a", "b"], False),
        ({"a": 2, None: 1}, ["a", "(none)"], False),
        ({2019: 1, 2020: 1, None: 5}, ["2019", "2020", "(none)"], True),
        ({True: 2, False: 1}, ["True", "False"], False),
    ],
)
def test_values_are_put_into_groups(values, names, ordered):
    groups = group_values(values)
    assert (groups.names, groups.ordered) == (names, ordered)
    assert sum(groups.count(values)) == sum(values.values())


@pytest.mark.parametrize(
    ("every", "names"),
    [
        ("month", ["2019-11", "2019-12", "2020-01", "2020-02"]),
        ("quarter", ["2019-Q4", "2020-Q1"]),
        ("year", ["2019", "2020"]),
    ],
)
def test_dates_are_counted_by_period_of_which_empty_ones_are_shown(every, names):
    counted = {"2019-11-30": 2, "2019-12-01T10:00": 1, "2020-02": 4, None: 1}
    groups = group_values(counted, every)
    assert groups.names == [*names, "(none)"]
    held = Counter()
    for value, n in counted.items():
        held[groups.names[groups.of[value]]] += n
    assert held[names[-1]] == 4
    assert held[names[0]] == 2 + (every != "month")
    for strange in ({"2019": 1}, {2019: 1}, {"soon": 1}, {"1800-01-01": 1, "2020-01-01": 1}):
        with pytest.raises(InputError, match=f"--every {every}"):
            group_values(strange, every)


def test_documents_without_a_value_are_counted_and_leave_the_curve_as_it_is(by_year):
    texts, metadata = topic_texts()
    index = topic_index(
        texts=[*texts, *texts[:30]], metadata=[*metadata, *[{"year": None}, {"year": ""}, {"year": []}] * 10]
    )
    found = find_trends(index, "year", clusters=3)
    assert found.values == [*by_year.values, "(none)"]
    assert sum(cluster.counts[-1] for cluster in found.clusters) == 30
    curves = lambda trends: sorted(
        (trends.curve(cluster), cluster.change, cluster.error) for cluster in trends.clusters
    )
    assert curves(found) == curves(by_year)
    *_, last = table(found)
    assert last == "without year: 30 documents, which are in no curve and no change"


def test_values_inside_objects_are_counted_and_objects_are_not():
    texts, metadata = topic_texts()
    index = topic_index(texts=texts, metadata=[{"of": {"topic": one["topic"]}, "deep": [[1]]} for one in metadata])
    assert find_trends(index, "of.topic", clusters=3).values == ["kitchen", "sea", "space"]
    for column, held in (("of", r'{"topic": "'), ("deep", "[1]")):
        with pytest.raises(InputError, match=f"--by {column}: .*is not one value.* such as {column}.NAME") as error:
            find_trends(index, column)
        assert held in str(error.value)


@pytest.mark.parametrize(("first", "step"), [("3.0", "0.1"), ("-0.35", "0.05"), ("1700000000.5", "1")])
def test_a_number_is_counted_in_the_range_that_contains_it(first, step):
    numbers = [float(Decimal(first) + i * Decimal(step)) for i in range(30)]
    groups = group_values(dict.fromkeys(numbers, 1))
    for number in numbers:
        low, high = map(float, groups.names[groups.of[number]].split(" to "))
        assert low <= number < high


def test_many_values_become_few():
    many = group_values({i / 7: 1 for i in range(1000)})
    assert len(many.names) <= 24
    assert many.names[0] == "0 to 10"
    assert sum(many.count({i / 7: 1 for i in range(1000)})) == 1000
    words = group_values({f"w{i}": 1000 - i for i in range(1000)})
    assert len(words.names) == 24
    assert words.names[-1] == "(others)"
    assert words.count({"w999": 2, "w0": 1})[-1] == 2


def test_bad_requests_are_named(index, monkeypatch):
    with pytest.raises(InputError, match="--by"):
        find_trends(index, "nothing")
    with pytest.raises(InputError, match="1 to 180"):
        find_trends(index, clusters=181)
    with pytest.raises(InputError, match="no documents"):
        find_trends(topic_index(texts=[], metadata=[]))
    monkeypatch.setattr(trends, "_DISTINCT", 50)
    with pytest.raises(InputError, match="too many values"):
        find_trends(index, "number")


def test_texts_without_words_and_twins_and_names_with_dollar_signs(tmp_path):
    index = topic_index(texts=["1 2", "$^$", "?", "1 2"], metadata=[{"price": f"${i % 2}^$"} for i in range(4)])
    found = find_trends(index, "price")
    assert sum(cluster.size for cluster in found.clusters) == 4
    for cluster in found.clusters:
        cluster.name = r"$\frac{$ a_$ " + "\x1b"
    draw_map(lay_out(index, found), tmp_path / "map.png")
    draw_sizes(found, tmp_path / "sizes.png")


def test_the_map_keeps_topics_together_and_places_queries_among_them(index, by_year, tmp_path):
    layout = lay_out(index, by_year, points=120)
    assert layout.xy.shape == (120, 2)
    middles = np.stack([layout.xy[layout.labels == label].mean(0) for label in range(3)])
    nearest = np.linalg.norm(layout.xy[:, None] - middles, axis=2).argmin(1)
    assert (nearest == layout.labels).mean() > 0.95
    query = WordEncoder().encode(["tide wave ship sailor"])
    place = layout.place(query)
    assert np.linalg.norm(place - middles, axis=1).argmin() == by_year.assign(query)[0]
    np.testing.assert_array_equal(project(layout.sample.vectors), layout.xy)
    for path in (draw_map(layout, tmp_path / "map.png"), draw_sizes(by_year, tmp_path / "sizes.png")):
        assert path.read_bytes()[:4] == b"\x89PNG"


def test_labels_do_not_overlap():
    figure = new_figure(8, 6, 110, None)
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    wanted = [(f"a name of some length {i}", np.array([0.5, 0.5]) + 0.01 * (i % 3), "#000000") for i in range(16)]
    texts = place_labels(axes, wanted)
    boxes = [text.get_window_extent(axes.figure.canvas.get_renderer()) for text in texts]
    frame = axes.get_window_extent()
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert frame.contains(box.x0, box.y0)
        assert frame.contains(box.x1, box.y1)
