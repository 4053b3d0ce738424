"""NONZERO_COORDINATES: which values count as zero, for each data type."""

from ...format.tensors import DTYPES
from ..topics import Files, Topic, bits, ints
from .cases import OPERATOR, add

topics = Files(OPERATOR, Topic)

PATTERNS = {
    "float16": {
        "zeros": [0x0000, 0x8000, 0x3C00, 0x8000, 0x0000],
        "nan": [0x7E00, 0x0000, 0x7C01, 0xFE00, 0x8000, 0xFFFF],
        "infinity": [0x7C00, 0x0000, 0xFC00],
        "subnormal": [0x0001, 0x0000, 0x8001, 0x03FF, 0x8000, 0x83FF, 0x0200],
        "normal-limits": [0x0400, 0x0000, 0x8400, 0x7BFF, 0xFBFF],
    },
    "float32": {
        "zeros": [0x00000000, 0x80000000, 0x3F800000, 0x80000000, 0x00000000],
        "nan": [0x7FC00000, 0x00000000, 0x7F800001, 0xFFC00000, 0x80000000, 0xFFFFFFFF],
        "infinity": [0x7F800000, 0x00000000, 0xFF800000],
        "subnormal": [0x00000001, 0x00000000, 0x80000001, 0x007FFFFF, 0x80000000, 0x807FFFFF],
        "normal-limits": [0x00800000, 0x00000000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF],
    },
    "float64": {
        "zeros": [0, 1 << 63, 0x3FF0000000000000, 1 << 63, 0],
        "nan": [0x7FF8000000000000, 0, 0x7FF0000000000001, (1 << 64) - 1, 1 << 63],
        "infinity": [0x7FF0000000000000, 0, 0xFFF0000000000000],
        "subnormal": [1, 0, (1 << 63) | 1, 0x000FFFFFFFFFFFFF, 1 << 63, 1 << 32],
        "beyond-float32": [0x0010000000000000, 0, 0x3690000000000000, 0x7FEFFFFFFFFFFFFF],
    },
}
ABOUT = {
    "zeros": "both zeros around a one",
    "nan": "quiet, signalling and negative NaN between zeros",
    "infinity": "both infinities",
    "subnormal": "the smallest and largest subnormal numbers between zeros",
    "normal-limits": "the smallest and largest normal numbers",
    "beyond-float32": "magnitudes that vanish or overflow in float32",
}


@topics.file("floats")
def _floats(topic: Topic) -> None:
    for dtype, families in PATTERNS.items():
        wide = dtype == "float64"
        flags = "SpecialFloat WideType" if wide else "SpecialFloat"
        for name, words in families.items():
            tensor = bits(dtype, (len(words),), words)
            requires = "dtype:float64" if wide else ""
            text = f"{dtype}: {ABOUT[name]}"
            add(topic, f"{dtype}-{name}", text, "NZC-2 NZC-7", tensor, None, flags, requires)


@topics.file("integers")
def _integers(topic: Topic) -> None:
    for dtype, (kind, width) in DTYPES.items():
        if kind not in ("int", "uint"):
            continue
        low, high = DTYPES[dtype].low, DTYPES[dtype].high
        values = [0, low, 1, 0, high, 1 << (width // 2), -1 if low else 1 << (width - 1), 0]
        wide = width == 64
        flags = "Extreme WideType" if wide else "Extreme"
        tensor = ints(dtype, (2, 4), values)
        requires = f"dtype:{dtype}" if wide else ""
        text = f"{dtype}: both ends of the range and single bits"
        add(topic, f"{dtype}-extremes", text, "NZC-7", tensor, None, flags, requires)
    for dtype in ("int64", "uint64"):
        tensor = ints(dtype, (5,), [0, 1 << 32, 1 << 40, 0, 1 << 62])
        text = f"{dtype}: only the high word is set"
        add(topic, f"{dtype}-high-word", text, "NZC-7", tensor, None, "WideType", f"dtype:{dtype}")
    tensor = ints("bool", (3, 2), [0, 1, 1, 0, 0, 1])
    text = "a mask of truth values"
    add(topic, "bool-mask", text, "NZC-7", tensor, None, "WideType", "dtype:bool")
