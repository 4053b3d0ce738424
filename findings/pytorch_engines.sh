#!/usr/bin/env bash
# PyTorch | 2.14.1 (2.15.0 too), x86-64 with AVX2 and without VNNI | quantized.linear | The four engines have three
# answers. A sum of 32 products of 255 and 127 is half as large in fbgemm, x86 and onednn, whose pairs saturate at 16
# bits. onednn adds the zero point before it rounds, so 0.5 with the zero point 3 is 4. | qnnpack's: the sum is
# 1,036,320, and halves go to the even number before the zero point is added.
. "$(dirname "$0")/environment.sh"
if grep --quiet vnni /proc/cpuinfo; then echo "this processor has VNNI, and adds no pairs" && exit 2; fi
install torch==2.14.1 numpy==2.4.6 # with what it needs, some 3 GB
python -W ignore - <<'PY'
import torch

engines = torch.backends.quantized.supported_engines
linear = torch.ops.quantized


def quantized(values, dtype, scale):
    return torch._make_per_tensor_quantized_tensor(torch.tensor(values, dtype=dtype), scale, 0)


def product(x, w, w_scale, scale, zero_point):
    packed = linear.linear_prepack(quantized(w, torch.int8, w_scale), None)
    y = linear.linear(quantized(x, torch.uint8, 1.0), packed, scale, zero_point)
    return y.int_repr().ravel().tolist()


sums, halves = {}, {}
for engine in ("qnnpack", "fbgemm", "x86", "onednn"):
    assert engine in engines, engines
    torch.backends.quantized.engine = engine
    sums[engine] = product([[255] * 32], [[127] * 32], 1.0, 10000.0, 0)
    halves[engine] = product([[1], [3], [5], [7]], [[1]], 0.5, 1.0, 3)
    print(f"{engine}: {sums[engine]} for [104]; {halves[engine]} for [3, 5, 5, 7]")
assert sums == dict(qnnpack=[104], fbgemm=[52], x86=[52], onednn=[52])
assert halves.pop("onednn") == [4, 4, 6, 6]
assert all(y == [3, 5, 5, 7] for y in halves.values())
PY
