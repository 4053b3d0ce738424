"""CONVOLUTION_INTEGER: padded images that are higher and wider than 128."""

from itertools import product

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared.convolution_cases import RING, ConvolutionTopic, image
from .._shared.rounding import RANGES
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, ConvolutionTopic)


@topics.file("structures")
def _structures(topic: ConvolutionTopic) -> None:
    for number, (tx, tw) in enumerate(product(RANGES, repeat=2)):
        for name, sizes in {"high": (1, 1, 131, 1), "wide": (1, 1, 1, 131)}.items():
            x = from_recipe(tx, sizes, Recipe(500 + number, *RANGES[tx]))
            w = image(tw, (1, 1, 3, 3), 510 + number)
            middle = 128 * (tx == "uint8") - 77 + 9 * number
            own, flags = {"zx": [middle], "zw": [3 + number]}, "BlockEdge Padding"
            text = f"a {name} image of {tx} with padding all around, a filter of {tw}"
            topic.add(f"{name}-{tx}-{tw}", text, "CVI-1 CVI-2 CVI-4", x, w, own, flags, RING)
