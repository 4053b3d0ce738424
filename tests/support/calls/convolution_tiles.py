"""Convolutions whose output rows end in the midst of tiles, vectors and panels."""

from collections.abc import Iterator

import numpy as np

import dmlax
from support import draw, sums_of_products
from support.cases.convolution import LAYOUTS, laid_out

_SIZES = (7, 9, 14, 16, 17, 31, 33, 40)  # sizes of an image's rows
_WINDOWS = (  # kernel, strides, dilations, start and end padding
    ((3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    ((1, 1), (2, 2), (1, 1), (0, 0), (0, 0)),
    ((4, 5), (1, 2), (2, 1), (0, 2), (3, 0)),
    ((6, 4), (3, 1), (1, 2), (2, 0), (0, 1)),
    ((1, 1), (1, 1), (1, 1), (0, 0), (0, 0)),
)
_CHANNELS = (  # channels of a group, and its outputs
    *((64, 64), (64, 70), (128, 20), (4, 65), (12, 130)),
    *((96, 16), (40, 33)),
    *((3, 64), (1, 40), (2, 96), (3, 20)),  # rows of the kernel are taps
)
_PACKINGS = ("rows", "panels")


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The convolutions from `first` to `last` that are not NumPy's."""
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        layout = LAYOUTS["NCHW" if seed % 5 == 4 else "NHWC"]
        kernel, strides, dilations, start, end = _WINDOWS[seed % len(_WINDOWS)]
        channels, outputs = _CHANNELS[seed % len(_CHANNELS)]
        groups, images = 1 + (seed % 4 == 3), 1 + seed % 3
        large = seed % 7 == 0  # one image is several tasks
        sizes = (50 if large else int(rng.choice(_SIZES[:4])), _SIZES[seed % len(_SIZES)])
        x_dtype, w_dtype = rng.choice(["int8", "uint8"], 2)
        x = draw(seed, x_dtype, (images, groups * channels, *sizes))
        w = draw(seed + 1, w_dtype, (groups * outputs, channels, *kernel))
        zeros = draw(seed + 2, x_dtype), draw(seed + 3, w_dtype) if seed % 2 else 0
        windows = {
            "strides": strides,
            "dilations": dilations,
            "start_padding": start,
            "end_padding": end,
        }
        wanted = sums_of_products(x, w, *map(int, zeros), groups, **windows)
        filter = dmlax.prepare_filter(
            laid_out(w, "OIHW", layout[1]),
            filter_zero_point=np.asarray(zeros[1], w_dtype),
            group_count=groups,
            dimension_numbers=layout,
            packing=_PACKINGS[seed // 2 % 2],
        )
        options = {"input_zero_point": zeros[0], "implementation": implementation} | windows
        name = f"{seed}: {images}x{sizes} {channels} to {outputs}, {groups} groups, {windows}"
        image = laid_out(x, "NCHW", layout[0])
        wanted = laid_out(wanted, "NCHW", layout[2])
        sums = dmlax.convolution_integer(image, filter, **options)
        if not np.array_equal(sums, wanted):
            yield f"sums of {name}"
        scales = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 2.0**11}
        bytes_ = dmlax.quantized_linear_convolution(
            image, filter, **scales, **options, output_dtype=np.int8
        )
        rounded = np.clip(np.rint(wanted / 2.0**11), -128, 127)
        if not np.array_equal(bytes_, rounded):
            yield f"bytes of {name}"
