"""A small language model as an ONNX file, in the form that exporters write for ONNX Runtime."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
Weights = Mapping[str, np.ndarray]


class Sizes(NamedTuple):
    """The sizes of a decoder; a window of 0 is no window."""

    vocabulary: int = 128
    width: int = 64
    layers: int = 2
    heads: int = 4
    groups: int = 2
    head: int = 16
    inner: int = 128
    positions: int = 512
    window: int = 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights by name."""
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, self.width)}
        for i in range(self.layers):
            rows = (self.heads + 2 * self.groups) * self.head
            shapes |= {f"norm_a.{i}": (self.width,), f"norm_b.{i}": (self.width,)}
            shapes |= {f"qkv.{i}": (self.width, rows), f"gate_up.{i}": (self.width, 2 * self.inner)}
            shapes |= {f"out.{i}": (self.heads * self.head, self.width)}
            shapes |= {f"down.{i}": (self.inner, self.width)}
        return shapes | {"norm": (self.width,), "logits": (self.width, self.vocabulary)}

    def random_weights(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Weights that make every token's answer another one."""
        rng = np.random.default_rng(seed)
        weights = {}
        for name, shape in self.shapes().items():
            is_norm = name.startswith("norm")
            draw = rng.normal(1 if is_norm else 0, 0.1 if is_norm else shape[0] ** -0.5, shape)
            weights[name] = draw.astype(np.float32)
        return weights

    def angles(self) -> dict[str, np.ndarray]:
        """The cosines and sines of the positions."""
        speeds = 10_000.0 ** (-np.arange(0, self.head, 2) / self.head)
        angles = np.arange(self.positions)[:, None] * speeds
        return {
            "cosines": np.cos(angles).astype(np.float32),
            "sines": np.sin(angles).astype(np.float32),
        }


def to_bits(weight: np.ndarray, bits: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Packs the integers of a matrix, transposed, in blocks that share a scale."""
    half = 1 << (bits - 1)
    blocks = weight.T.reshape(weight.shape[1], -1, block)
    scale = np.abs(blocks).max(-1, keepdims=True) / (half - 1) + np.float32(1e-12)
    integers = (np.rint(blocks / scale) + half).astype(np.uint8)
    if bits == 4:
        integers = integers[..., ::2] | integers[..., 1::2] << 4
    return integers, scale[..., 0].astype(np.float32)


def make_file(
    sizes: Sizes, weights: Weights, bits: int = 0, level: int = 4, block: int = 32
) -> onnx.ModelProto:
    """The file: tokens, a mask and caches to scores and caches; with 4 or 8 bits of weights."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Any] = {**weights, **sizes.angles(), "one": np.int64(1), "axis": [1]}

    def node(op: str, *inputs: str, outputs: Any = 1, domain: str = "", **attributes: Any) -> Any:
        names = outputs
        if isinstance(outputs, int):
            names = [f"{op}{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def product(x: str, name: str) -> Any:
        if not bits:
            return node("MatMul", x, name)
        if name in constants:
            packed = to_bits(constants.pop(name), bits, block)
            constants.update(zip((f"{name}.q", f"{name}.scale"), packed, strict=True))
        depth, columns = sizes.shapes()[name]
        options = {"K": depth, "N": columns, "bits": bits, "block_size": block}
        names = (x, f"{name}.q", f"{name}.scale")
        return node("MatMulNBits", *names, domain=MICROSOFT, accuracy_level=level, **options)

    def to_int32(x: str) -> Any:
        return node("Cast", x, to=TensorProto.INT32)

    counts = node("ReduceSum", "attention_mask", "axis", keepdims=0)
    last = to_int32(node("Sub", counts, "one"))
    total = to_int32(node("Gather", node("Shape", "attention_mask"), "one"))
    x = node("Gather", "embedding", "input_ids")
    options = {"num_heads": sizes.heads, "kv_num_heads": sizes.groups, "do_rotary": 1}
    if sizes.window:
        options |= {"local_window_size": sizes.window, "sliding_window_cache": 1}
    for i in range(sizes.layers):
        y = node("SimplifiedLayerNormalization", x, f"norm_a.{i}", axis=-1, epsilon=1e-5)
        past = [f"past_key_values.{i}.{name}" for name in ("key", "value")]
        present = [f"present.{i}.{name}" for name in ("key", "value")]
        inputs = (product(y, f"qkv.{i}"), "", "", *past, last, total, "cosines", "sines")
        outputs = [f"attended.{i}", *present]
        y, *_ = node("GroupQueryAttention", *inputs, outputs=outputs, domain=MICROSOFT, **options)
        skip = (x, product(y, f"out.{i}"), f"norm_b.{i}")
        outputs = [f"normal.{i}", "", "", f"sum.{i}"]
        names = node("SkipSimplifiedLayerNormalization", *skip, outputs=outputs, domain=MICROSOFT)
        both = product(names[0], f"gate_up.{i}")
        gate, up = node("Split", both, outputs=2, axis=-1, num_outputs=2)
        hidden = node("Mul", node("Mul", gate, node("Sigmoid", gate)), up)
        x = node("Add", names[3], product(hidden, f"down.{i}"))
    y = node("SimplifiedLayerNormalization", x, "norm", axis=-1, epsilon=1e-5)
    nodes.append(helper.make_node("Identity", [product(y, "logits")], ["scores"]))
    places = "places" if not sizes.window else "window_places"
    cache = ["batch", sizes.groups, places, sizes.head]
    caches = {name: cache for node in nodes for name in node.input if name.startswith("past")}
    presents = [name for node in nodes for name in node.output if name.startswith("present")]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            value("input_ids", TensorProto.INT64, ["batch", "rows"]),
            value("attention_mask", TensorProto.INT64, ["batch", "total"]),
            *(value(name, TensorProto.FLOAT, shape) for name, shape in caches.items()),
        ],
        [value(name, TensorProto.FLOAT, None) for name in ("scores", *presents)],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
