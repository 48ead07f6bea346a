#!/usr/bin/env bash
# A float64 column of datasets is float32 when it is read with with_format("numpy"); its rows, one by one, are not.
#
# Versions: datasets 5.2.0, pandas 3.1.1, numpy 2.4.6, Python 3.11
# Expected: the type of the column, as integers and the pandas format keep it. Two moments a minute apart become one,
#   as float32 has steps of 128 seconds there, so that a split by time has other rows; so do other numbers above 16
#   million. with_format("numpy", dtype=numpy.float64) keeps it.
# Seen on 2026-11-30 (what this script printed):
#   column: float64 [1764495000.25, 1764495060.25]
#   pandas: float64, a difference of 60.0 seconds
#   numpy: float32, a difference of 128.0 seconds
#   numpy, dtype=float64: float64, a difference of 60.0 seconds
#   integers in numpy: True
#   numpy, row by row: float64, a difference of 60.0 seconds

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile datasets==5.2.0 pandas==3.1.1 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - 2> errors <<'EOF' || { code=$?; tail -n 1 errors; exit $code; }
import sys
import datasets, numpy

rows = datasets.Dataset.from_dict({"time": [1764495000.25, 1764495060.25], "number": [2**60 + 1, 2**60 + 2]})
plain, read = rows.with_format("pandas"), rows.with_format("numpy")
print("column:", rows.features["time"].dtype, rows["time"][:])
for name, kind in (("pandas", plain), ("numpy", read), ("numpy, dtype=float64", rows.with_format("numpy", dtype=numpy.float64))):
    times = kind["time"][:]
    print(f"{name}: {times.dtype}, a difference of {times[1] - times[0]} seconds")
print("integers in numpy:", read["number"][:].tolist() == rows["number"][:])
single = read[1]["time"] - read[0]["time"]
print(f"numpy, row by row: {read[0]['time'].dtype}, a difference of {single} seconds")
if read["time"][:].dtype != numpy.float32 or single != 60 or plain["time"][:].dtype != numpy.float64:
    sys.exit("changed: the column keeps its type")
EOF
