"""nonzero_coordinates of integers, as a program: questions on stdin, answers on stdout."""

import itertools
import json
import sys

HELLO = {"protocol": 1, "name": "lines", "language": "Python", "version": "1"}
DTYPES = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]


def run(case):
    """Answer one case."""
    x, outputs = case["inputs"].get("InputTensor", {}), case["outputs"]
    if case["operator"] != "nonzero_coordinates" or "data" not in x:
        return {"unsupported": "only nonzero_coordinates of integers"}
    *_, size, width = [1, *outputs["OutputCoordinatesTensor"]["sizes"]]
    if not 1 <= width <= len(x["sizes"]):
        return {"refused": {"code": "sizes", "field": "OutputCoordinatesTensor"}}
    places = itertools.product(*map(range, x["sizes"]))
    rows = list(itertools.compress(places, map(int, x["data"])))
    table = [place for row in rows for place in row[-width:]]
    table += [0] * (size * width - len(table))
    data = {"OutputCountTensor": [len(rows)], "OutputCoordinatesTensor": table}
    return {"outputs": {name: asked | {"data": data[name]} for name, asked in outputs.items()}}


for line in sys.stdin:
    message = json.loads(line)
    if message["command"] == "start":
        print(
            json.dumps(HELLO | {"operators": ["nonzero_coordinates"], "dtypes": DTYPES}), flush=True
        )
    elif message["command"] == "run":
        print(json.dumps({"seq": message["seq"]} | run(message["case"])), flush=True)
    else:
        break
