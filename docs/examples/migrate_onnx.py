"""A float ONNX model, quantized by ONNX Runtime, then a JAX function: on handwritten digits.

    python docs/examples/migrate_onnx.py --folder migrated

Needs matplotlib, onnx, onnxruntime, rich and scikit-learn besides dmlax, and digits_int8.py and
digits.py beside it.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
import onnxruntime
from jax import export
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

import digits
import digits_int8
import dmlax.onnx
from digits_int8 import WINDOWS, Layer

# The float model -------------------------------------------------------------------------------


def float_model(layers: Sequence[Layer]) -> onnx.ModelProto:
    """The network in ONNX. From PyTorch, `torch.onnx.export` writes this file."""
    nodes, tensors, x = [], [], "images"
    for i, (layer, window) in enumerate(zip(layers, WINDOWS, strict=True)):
        names = [f"weights{i}", f"bias{i}"]
        tensors += [
            numpy_helper.from_array(np.asarray(x), n) for x, n in zip(layer, names, strict=True)
        ]
        options = {"strides": 2 * [window.stride], "pads": 4 * [window.padding]}
        nodes.append(helper.make_node("Conv", [x, *names], [f"conv{i}"], **options))
        if window is not WINDOWS[-1]:
            nodes.append(helper.make_node("Relu", [f"conv{i}"], [f"relu{i}"]))
        x = nodes[-1].output[0]
    nodes.append(helper.make_node("Flatten", [x], ["scores"]))
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 1, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "digits", [images], [scores], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


# The migration ---------------------------------------------------------------------------------


class Calibration(quantization.CalibrationDataReader):
    """Images whose activations give the ranges."""

    def __init__(self, images: np.ndarray) -> None:
        self._batches: Iterator[np.ndarray] = iter(np.split(images, 8))

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch, or None after the last."""
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch}


def quantize(source: Path, target: Path, images: np.ndarray) -> None:
    """Writes the model in 8 bits; weights of 7 bits saturate on no processor."""
    quantization.quantize_static(
        source,
        target,
        Calibration(images),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
    )


def export_program(model: dmlax.onnx.Model) -> bytes:
    """The model as StableHLO for batches of any size, its params arguments."""
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model.params)
    return bytes(export.export(jax.jit(model.apply))(params, model.inputs).serialize())


# Both of them ----------------------------------------------------------------------------------


class Record(NamedTuple):
    """The migrated model's accuracies, and its agreement with the others."""

    float_accuracy: float
    int8_accuracy: float
    differ: int
    saved_equal: bool
    exported_equal: bool

    def __str__(self) -> str:
        lines = (
            f"float32 accuracy             {self.float_accuracy:.1%}",
            f"int8 accuracy                {self.int8_accuracy:.1%}",
            f"differ from ONNX Runtime's   {self.differ}",
            f"saved equals loaded          {self.saved_equal}",
            f"exported equals loaded       {self.exported_equal}",
        )
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> Record:
    """Trains, migrates, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("migrated"), help="of the files")
    parser.add_argument("--steps", type=int, default=400, help="of the training")
    options = parser.parse_args(arguments)
    options.folder.mkdir(exist_ok=True)
    names = ("digits.onnx", "digits-int8.onnx", "digits.dmlax")
    source, target, saved = (options.folder / name for name in names)

    known, unseen = digits.load()
    seeds = jax.random.split(jax.random.key(1))
    initial = digits_int8.initial_layers(seeds[0])
    layers = digits.train(digits_int8.float_scores, initial, known, options.steps, seeds[1])
    onnx.save(float_model(layers), source)
    quantize(source, target, np.asarray(known.images[:256]))

    model = dmlax.onnx.load(target)
    scores = model(unseen.images)["scores"]
    model.save(saved)
    exported = export.deserialize(bytearray(export_program(model)))

    def accuracy(scores: Any) -> float:
        return float((scores.argmax(axis=1) == unseen.labels).mean())

    def equals(outputs: dict[str, Any]) -> bool:
        return bool((outputs["scores"] == scores).all())

    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(["scores"], {"images": np.asarray(unseen.images)})
    record = Record(
        float_accuracy=accuracy(digits_int8.float_scores(layers, unseen.images)),
        int8_accuracy=accuracy(scores),
        differ=int((np.asarray(scores) != theirs).sum()),
        saved_equal=equals(dmlax.onnx.load(saved)(unseen.images)),
        exported_equal=equals(exported.call(model.params, {"images": unseen.images})),
    )
    print(record)
    return record


if __name__ == "__main__":
    main()
