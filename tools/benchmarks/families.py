"""One classifier of every torchvision family, beside ONNX Runtime.

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
from typing import Any

import onnx

import dmlax.onnx
from dmlax.onnx import peer
from tools.benchmarks.models import FORM, different_elements, largest_error
from tools.benchmarks.report import ONLY
from tools.zoo import networks

OPTIONS = (ONLY, FORM)
SMALL = (  # a member of each family that takes images of 64 pixels
    *("convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet"),
    *("mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "regnet_y_400mf", "resnet50"),
    *("resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "swin_v2_t"),
    "wide_resnet50_2",
)
FAMILIES = dict.fromkeys(SMALL, 64) | {"inception_v3": 96}
FAMILIES |= dict.fromkeys(("alexnet", "maxvit_t", "vgg11", "vit_b_16"), 224)
BOUND = 0.5  # an output behind float islands, in its standard deviations
BATCH = 2
_OPSET = 17
_NEEDED = ("torch", "torchvision", "onnxruntime")


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


def compare(build: Callable[[], onnx.ModelProto], form: str) -> tuple[bool, str]:
    """Quantize a network, load it, and compare it with ONNX Runtime: success, and a sentence."""
    try:
        form, file = _quantize(build(), form)
        model = dmlax.onnx.load(file)
    except Exception as error:  # raised by torch, ONNX Runtime or dmlax
        return False, f"{form}: {type(error).__name__}: {error}"
    inputs = networks.draw_inputs(file, BATCH, seed=1)
    differ, elements = different_elements(file, form, inputs)
    largest = largest_error(model(inputs), peer.run(peer.start(file), inputs))
    text = f"{form}: {len(file.graph.node)} nodes, {differ} of {elements} elements differ"
    return differ == 0 and largest <= BOUND, f"{text}, output error {largest:.2g}"


def _quantize(model: onnx.ModelProto, form: str) -> tuple[str, onnx.ModelProto]:
    """Quantize, as QDQ if ONNX Runtime refuses its quantizer's file of the form."""
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

    file = networks.quantize(model, form, True)
    try:
        peer.start(file, optimised=False)
    except InvalidGraph:
        return "qdq", networks.quantize(model, "qdq", True)
    return form, file


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Hide what torch prints, and the quantizer's warnings of tensors that stay in float."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(None):
            yield
    finally:
        logging.disable(logging.NOTSET)


def run(only: str, form: str) -> None:
    """Compare the classifiers; exits with 2 if packages are missing."""
    if absent := missing():
        print(f"missing: {', '.join(absent)}; nothing is compared")
        raise SystemExit(2)
    names = [name for name in FAMILIES if re.search(only, name)]
    failed = 0
    for name in names:
        with _quietly():
            is_good, text = compare(functools.partial(export, name), form)
        print(f"{name}, {text}", flush=True)
        failed += not is_good
    print(f"{len(names)} families, {failed} failed")
    raise SystemExit(1 if failed else 0)
