"""Depthwise convolutions, channels last, whose channels and output lines end within vectors."""

from collections.abc import Iterator

import numpy as np

import dmlax
from support import draw, sums_of_products
from support.cases.convolution import LAYOUTS

_CHANNELS = (16, 24, 32, 33, 64, 96, 144, 7)
_SIZES = (1, 7, 12, 64, 65, 67, 130)  # sizes of an image's rows
_WINDOWS = (  # kernel, strides, dilations, start and end padding
    ((3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    ((3, 3), (2, 1), (2, 1), (2, 3), (3, 2)),
    ((3, 3), (1, 2), (1, 1), (0, 1), (2, 2)),
    ((3, 3), (1, 3), (1, 1), (1, 1), (1, 1)),
    ((5, 5), (1, 1), (1, 1), (2, 2), (2, 2)),
)
_OUTPUT_SCALES = (2.0**9, 3 * 2.0**9, 0.75)  # no near ties; ties among near ones; beyond the bytes


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The convolutions from `first` to `last` that are not NumPy's."""
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        kernel, strides, dilations, start, end = _WINDOWS[seed % len(_WINDOWS)]
        channels, images = int(rng.choice(_CHANNELS)), 1 + seed % 3
        sizes = (int(rng.choice((3, 6, 17))), int(rng.choice(_SIZES)))
        dtype, output_dtype = (str(each) for each in rng.choice(["int8", "uint8"], 2))
        x = draw(seed, dtype, (images, channels, *sizes))
        w = draw(seed + 1, "int8", (channels, 1, *kernel))
        zeros = draw(seed + 2, dtype), draw(seed + 3, "int8") if seed % 5 == 4 else np.int8(0)
        windows = {
            "strides": strides,
            "dilations": dilations,
            "start_padding": start,
            "end_padding": end,
        }
        total = sums_of_products(x, w, *map(int, zeros), channels, **windows)
        scale = np.float32(_OUTPUT_SCALES[seed % len(_OUTPUT_SCALES)])
        zero = int(draw(seed + 4, output_dtype))
        limits = np.iinfo(output_dtype)
        for arithmetic in ("exact", "float32"):
            found = dmlax.quantized_linear_convolution(
                x.transpose(0, 2, 3, 1),
                w.transpose(2, 3, 1, 0),
                input_scale=1.0,
                filter_scale=1.0,
                output_scale=scale,
                input_zero_point=zeros[0],
                filter_zero_point=zeros[1],
                output_zero_point=np.asarray(zero, output_dtype),
                group_count=channels,
                dimension_numbers=LAYOUTS["NHWC"],
                arithmetic=arithmetic,
                implementation=implementation,
                **windows,
            )
            # Sums have 24 bits, and their quotients by these scales are ties or far from them.
            exact = arithmetic == "exact"
            quotients = total / np.float64(scale) if exact else total.astype("f4") * (1 / scale)
            wanted = np.clip(np.rint(quotients) + zero, limits.min, limits.max)
            if not np.array_equal(np.asarray(found).transpose(0, 3, 1, 2), wanted):
                yield f"{seed}: {images}x{sizes}, {channels} channels, {windows}, {arithmetic}"
