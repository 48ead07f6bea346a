"""The actor of Ray Data gives the vectors of `encode`; on one machine with two actors, where Ray is installed."""

import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrastive_st.errors import InputError
from contrastive_st.integrations.ray import BatchEncoder
from contrastive_st.search.encoding import encode_file
from contrastive_st.vectors import quantization_ranges, quantize

TEXTS = [f"the cat sat on mat number {i} " for i in range(200)]
TEXTS[7] = None


class Told(BatchEncoder):
    """Tells which process encoded a batch; slow enough for both to get some."""

    def __call__(self, batch):
        time.sleep(0.3)
        return super().__call__(batch).append_column("process", pa.array([os.getpid()] * len(batch)))


@pytest.fixture
def wanted(tmp_path):
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "all.parquet")
    encode_file(str(tmp_path / "all.parquet"), tmp_path / "all.npy")
    return np.load(tmp_path / "all.npy")


@pytest.mark.parametrize("precision", ["float32", "int8", "ubinary"])
def test_a_batch_gets_the_vectors_of_encode(wanted, precision):
    ranges = quantization_ranges(wanted) if precision == "int8" else None
    found = BatchEncoder(precision=precision, ranges=ranges)(pa.table({"text": TEXTS, "id": range(200)}))
    assert found.column_names == ["text", "id", "embedding"]
    np.testing.assert_array_equal(np.array(found["embedding"].to_pylist()), quantize(wanted, precision, ranges))


def test_faults_are_named():
    with pytest.raises(InputError, match="int8 needs ranges"):
        BatchEncoder(precision="int8")
    encoder = BatchEncoder(column="body")
    with pytest.raises(KeyError, match="body"):
        encoder(pa.table({"text": ["a"]}))


@pytest.mark.slow
def test_two_actors_on_one_machine_give_the_vectors_of_encode(tmp_path, wanted):
    ray = pytest.importorskip("ray")
    ray_data = pytest.importorskip("ray.data")
    parts = [range(25 * part, 25 * part + 25) for part in range(8)]
    tables = [pa.table({"id": rows, "text": [TEXTS[i] for i in rows]}) for rows in parts]
    ray.init(
        num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"HF_HUB_OFFLINE": "1"}}
    )
    try:
        texts = ray_data.from_arrow(tables)
        pool = ray_data.ActorPoolStrategy(size=2)
        texts.map_batches(Told, compute=pool, batch_format="pyarrow", batch_size=10).write_parquet(
            str(tmp_path / "out")
        )
    finally:
        ray.shutdown()
    found = pq.read_table(tmp_path / "out").sort_by("id")
    assert found["id"].to_pylist() == list(range(200))
    assert found["text"].to_pylist() == TEXTS
    np.testing.assert_array_equal(np.array(found["embedding"].to_pylist()), wanted)
    assert len(set(found["process"].to_pylist())) == 2
    assert found.schema.field("embedding").type == pa.list_(pa.float32(), 256)
