#!/usr/bin/env bash
# vec_quantize_binary of sqlite-vec packs bits from the lowest on; numpy.packbits, and so the ubinary codes of
# sentence-transformers, from the highest: one vector in both codes is as far from itself as from any other.
#
# Versions: sqlite-vec 0.1.9, apsw 3.54.1.0, numpy 2.4.6, Python 3.11
# Expected: a column of bits takes codes of either, as their type, length and distances are the same. Queries that are
#   quantized in SQL over codes that were packed by numpy find texts at random, without an error. Its own column, and
#   numpy alone, are right; bitorder="little" of numpy gives the codes of sqlite-vec.
# Seen on 2026-11-30 (what this script printed):
#   positive in the first dimension alone: sqlite-vec 01 numpy 80
#   codes of packbits, numpy's order: a vector finds itself for 0.03 of them, at a mean distance of 192 of 384 bits
#   codes of packbits, bitorder='little': a vector finds itself for 1.00 of them, at a mean distance of 0 of 384 bits

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile sqlite-vec==0.1.9 apsw==3.54.1.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import apsw, numpy, sqlite_vec

database = apsw.Connection(":memory:")
database.enable_load_extension(True)
database.load_extension(sqlite_vec.loadable_path())
one = numpy.array([1] + 7 * [-1], numpy.float32)
print("positive in the first dimension alone: sqlite-vec", database.execute("select hex(vec_quantize_binary(?))", [one.tobytes()]).get,
      "numpy", numpy.packbits(one > 0).tobytes().hex())
vectors = numpy.random.default_rng(0).normal(size=(200, 384)).astype(numpy.float32)
found = {}
for name, order in (("numpy's order", "big"), ("bitorder='little'", "little")):
    database.execute("create virtual table texts using vec0(code bit[384])")
    for number, vector in enumerate(vectors):
        code = numpy.packbits(vector > 0, bitorder=order).tobytes()
        database.execute("insert into texts(rowid, code) values (?, vec_bit(?))", [number, code])
    own = distances = 0
    for number, vector in enumerate(vectors):
        query = "select rowid, distance from texts where code match vec_quantize_binary(?) and k = 200"
        hits = dict(database.execute(query, [vector.tobytes()]).fetchall())
        own += next(iter(hits)) == number
        distances += hits[number]
    found[order] = own / len(vectors)
    print(f"codes of packbits, {name}: a vector finds itself for {found[order]:.2f} of them, at a mean distance of {distances / len(vectors):.0f} of 384 bits")
    database.execute("drop table texts")
if found["little"] != 1 or found["big"] > 0.1:
    sys.exit("changed: another order of bits")
EOF
