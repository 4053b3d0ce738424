"""One classifier of every torchvision family, and the networks of `zoo.networks`.

Weights are random. Every model is exported, quantized by ONNX Runtime and loaded; all tensors and
the outputs are compared with ONNX Runtime's. The command exits with 1 if a model cannot be loaded,
if a tensor outside of the float islands differs, or if an output differs by more than a bound.
"""

import contextlib
import functools
import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import onnx

import dmlax.onnx
from dmlax.onnx import peer
from tools.benchmarks.models import FORM, different_elements, largest_error
from tools.benchmarks.options import ONLY, option
from tools.zoo import networks

WRITE = option("--write", type=Path, metavar="FOLDER", help="write the networks' files instead")
OPTIONS = (ONLY, FORM, WRITE)
FAMILIES = {  # a small member of every family, and the least size of an image that fits it
    "alexnet": 224,
    "convnext_tiny": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "efficientnet_v2_s": 64,
    "googlenet": 64,
    "inception_v3": 96,
    "maxvit_t": 224,
    "mnasnet1_0": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "regnet_y_400mf": 64,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "shufflenet_v2_x1_0": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "vgg11": 224,
    "vit_b_16": 224,
    "wide_resnet50_2": 64,
}
BOUND = 0.5  # of an output behind float islands, in its standard deviations
BATCH = 2
_OPSET = 17
_OF_TORCHVISION = "mobilenet_v3_large"  # `zoo.networks` does not have it
_NEEDED = ("torch", "torchvision", "onnxruntime")


class Outcome(NamedTuple):
    """The comparison of one network; `error` says why it cannot be loaded."""

    name: str
    form: str
    nodes: int = 0
    elements: int = 0
    differ: int = 0
    output_error: float = 0.0
    error: str = ""

    @property
    def is_good(self) -> bool:
        """True if no element differs and outputs stay within the bound."""
        return not self.error and self.differ == 0 and self.output_error <= BOUND

    def __str__(self) -> str:
        if self.error:
            return f"{self.name}, {self.form}: {self.error}"
        numbers = f"{self.differ} of {self.elements} elements differ"
        where = f"{self.name}, {self.form}: {self.nodes} nodes"
        return f"{where}, {numbers}, output error {self.output_error:.2g}"


def missing() -> list[str]:
    """Return the packages that the families need and that are not installed."""
    return [name for name in _NEEDED if find_spec(name) is None]


def export(name: str) -> onnx.ModelProto:
    """Export a classifier of torchvision with random weights and a dynamic batch."""
    import torch
    import torchvision
    from onnxruntime.quantization import shape_inference

    torch.manual_seed(0)
    size = FAMILIES[name]
    options: dict[str, Any] = (
        {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    )
    model = torchvision.models.get_model(name, weights=None, **options).eval()
    for weight in model.parameters():
        if weight.ndim > 1 and not weight.any():  # a transformer's head, else all outputs are 0
            torch.nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer takes sizes as constants
        exported, prepared = Path(folder) / "float.onnx", Path(folder) / "prepared.onnx"
        torch.onnx.export(
            model,
            (torch.zeros(1, 3, size, size),),
            exported,
            input_names=["x"],
            output_names=["logits"],
            dynamic_axes={"x": {0: "n"}, "logits": {0: "n"}},
            opset_version=_OPSET,
            dynamo=False,
        )
        shape_inference.quant_pre_process(exported, prepared, skip_symbolic_shape=True)
        return onnx.load(prepared)


def compare(name: str, build: Callable[[], onnx.ModelProto], form: str) -> Outcome:
    """Quantize a network, load it, and compare it with ONNX Runtime."""
    try:
        form, file = _quantize(build(), form)
        model = dmlax.onnx.load(file)
    except Exception as error:  # of torch, ONNX Runtime or dmlax
        return Outcome(name, form, error=f"{type(error).__name__}: {error}")
    inputs = networks.draw_inputs(file, BATCH, seed=1)
    differ, elements = different_elements(file, form, inputs)
    largest = largest_error(model(inputs), peer.run(peer.start(file), inputs))
    return Outcome(name, form, len(file.graph.node), elements, differ, largest)


def _quantize(model: onnx.ModelProto, form: str) -> tuple[str, onnx.ModelProto]:
    """Quantize, as QDQ if ONNX Runtime refuses its quantizer's file of the form."""
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

    file = networks.quantize(model, form, True)
    try:
        peer.start(file, optimised=False)
    except InvalidGraph:
        return "qdq", networks.quantize(model, "qdq", True)
    return form, file


def write_networks(folder: Path, form: str) -> None:
    """Write the quantized files of the networks, and of MobileNetV3 if torchvision is there."""
    folder.mkdir(parents=True, exist_ok=True)
    builders = dict(networks.NETWORKS)
    if absent := missing():
        print(f"missing: {', '.join(absent)}; {_OF_TORCHVISION} is not written")
    else:
        builders[_OF_TORCHVISION] = functools.partial(export, _OF_TORCHVISION)
    for name, build in builders.items():
        path = folder / f"{name}-{form}.onnx"
        onnx.save(networks.quantize(build(), form, True), path)
        print(path)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Hide what torch prints, and the quantizer's warnings of tensors that stay in float."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(None):
            yield
    finally:
        logging.disable(logging.NOTSET)


def run(only: str, form: str, write: Path | None) -> None:
    """Compare the classifiers, or write files; exits with 2 if packages are missing."""
    if write:
        return write_networks(write, form)
    if absent := missing():
        print(f"missing: {', '.join(absent)}; nothing is compared")
        raise SystemExit(2)
    names = [name for name in FAMILIES if re.search(only, name)]
    failed = 0
    for name in names:
        with _quietly():
            outcome = compare(name, functools.partial(export, name), form)
        print(outcome, flush=True)
        failed += not outcome.is_good
    print(f"{len(names)} families, {failed} failed")
    raise SystemExit(1 if failed else 0)
