"""The library `dmlax`: eager with NumPy arrays, jitted with traced ones, and by descriptors.

Descs run eager and jitted. The variant `constant` jits with every tensor known to the compiler but
the input, as in a model whose weights are. The variant `descriptor` takes the valid functional
calls instead, and puts each as a desc at the lowest level that accepts it.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from numpy.exceptions import AxisError

from ..errors import NotStartable
from ..format.descs import buffer
from ..format.tensors import DTYPES, from_numpy, to_numpy
from ..oracle import OPERATORS
from ..oracle.calls import RULES
from ..oracle.descriptors import express, feature_levels
from ..oracle.fixed_point import FIELD
from .base import Case, SpecViolation, Unsupported

WIDE = {"int64", "uint64", "float64"}
COORDINATES = "OutputCoordinatesTensor"
FIELDS = {"x": "ATensor", "y": "BTensor"}  # of `dmlax.reproducible`
JIT, CONSTANT, DESCRIPTOR = "jit", "constant", "descriptor"
Operands = Mapping[str, Any]
Call = Callable[[Operands], Mapping[str, Any]]


class Dmlax:
    """Imports `dmlax` only when built, so that the suite installs without it."""

    name = "dmlax"
    operators = tuple(OPERATORS)
    variants: tuple[str, ...] = ("eager", JIT, CONSTANT, DESCRIPTOR)
    usual_variants = ("eager",)
    desc_variants = ("eager", JIT)
    dtypes: Mapping[str, tuple[str, ...]] = {
        **dict.fromkeys((JIT, CONSTANT), tuple(sorted(DTYPES.keys() - WIDE))),  # x64 is off
        "matrix_multiply_integer_to_float": ("int8", "uint8", "float16", "float32"),
        "max_pooling": ("int8", "uint8"),
    }
    capabilities = frozenset({"descriptors", "strides", "large", "requantization"})

    implementation: str | None = None  # named in every call
    needs_gpu = False

    def __init__(self) -> None:
        """Import the library and JAX, and see that the implementation runs here."""
        self._library: Any = import_module("dmlax")
        self._jax: Any = import_module("jax")
        self._named = {"implementation": self.implementation} if self.implementation else {}
        device = self._jax.devices()[0]
        self.concurrent = device.platform == "cpu"  # others belong to one process
        if self.needs_gpu and device.platform != "gpu":
            raise NotStartable(f"{self.name} needs a GPU, and JAX runs on {device}")
        try:
            if self._named:
                self._library.nonzero_coordinates(self._jax.numpy.ones(1), **self._named)
        except self._library.UnsupportedError as error:
            raise NotStartable(str(error)) from error

    def runs_on(self) -> dict[str, str]:
        """Return versions, device, driver, and what compiled calls of the kernels call."""
        device = self._jax.devices()[0]
        driver = Path("/proc/driver/nvidia/version")
        packages = ("dmlax", "jax", "jaxlib", "numpy")
        facts = {name: str(import_module(name).__version__) for name in packages}
        facts |= {"device": device.device_kind, "platform": device.client.platform_version}
        if device.platform == "gpu" and driver.exists():
            facts["driver"] = driver.read_text(encoding="utf-8").splitlines()[0]
        numpy = self._jax.numpy
        x, w = numpy.ones((1, 1, 8, 8), "uint8"), numpy.ones((1, 1, 3, 3), "int8")
        scales = dict.fromkeys(("input_scale", "filter_scale", "output_scale"), 0.5)
        return facts | {
            "compiled nonzero_coordinates": self._custom_calls("nonzero_coordinates", x),
            "compiled convolution_integer": self._custom_calls("convolution_integer", x, w),
            "compiled quantized_linear_convolution": self._custom_calls(
                "quantized_linear_convolution", x, w, **scales
            ),
        }

    def _custom_calls(self, name: str, *operands: Any, **options: Any) -> str:
        """Return the custom calls of a compiled function; none if all of it is XLA's code."""
        function = partial(getattr(self._library, name), **options, **self._named)
        try:
            text = self._jax.jit(function).lower(*operands).compile().as_text()
        except self._library.UnsupportedError as error:
            return f"declined: {error}"
        targets = sorted(set(re.findall(r'custom_call_target="([^"]+)"', text)))
        return ", ".join(targets) or "none"

    def run(self, case: Case, variant: str) -> Mapping[str, Any]:
        """Call the operator, and translate what it raises."""
        if not hasattr(self._library, case.operator) and not _is_exact(case):
            raise Unsupported(case.operator)
        if variant == DESCRIPTOR:
            case = _as_desc(case)
        known = _known(case, variant)
        is_wide = any(array.dtype.name in WIDE for array in case.inputs.values())
        if known is not None and is_wide and not self._jax.config.jax_enable_x64:
            raise Unsupported("JAX has no 64-bit elements while x64 is off")
        try:
            call = self._function(case) if case.desc is None else self._created(case)
            answer = call(case.inputs) if known is None else self._jitted(case, call, known)
            return _as_called(case, answer) if variant == DESCRIPTOR else answer
        except self._library.SpecError as error:
            field = FIELDS.get(error.field, error.field) if _is_exact(case) else error.field
            field = field.replace("requantization", FIELD)  # a parameter, of no desc
            raise SpecViolation(error.code, field, str(error)) from error
        except AxisError as error:
            raise SpecViolation("dimension_count", "ATensor", str(error)) from error
        except self._library.UnsupportedError as error:
            raise Unsupported(str(error)) from error

    def _jitted(self, case: Case, call: Call, known: Operands) -> Mapping[str, Any]:
        """Trace every tensor that the compiler should not know."""
        traced = {name: array for name, array in case.inputs.items() if name not in known}
        outputs: Mapping[str, Any] = self._jax.jit(lambda given: call({**known, **given}))(traced)
        return outputs

    def _created(self, case: Case) -> Call:
        """Create the operator of a desc, which is where a desc is refused."""
        directml: Any = import_module("dmlax.directml")
        struct = _camel(OPERATORS[case.operator].struct.lower())
        desc = getattr(directml, f"{struct}OperatorDesc").from_dict(case.desc)
        level = directml.FeatureLevel[f"LEVEL_{case.feature_level}"]
        operator = directml.create_operator(desc, feature_level=level)

        def call(given: Operands) -> Mapping[str, Any]:
            results = operator(**{_snake(name): array for name, array in given.items()})
            return {name: results[_snake(name)] for name in case.outputs}

        return call

    def _function(self, case: Case) -> Call:
        """Take the function of the operator's name; its parameters have the tensors' names."""
        if _is_exact(case):
            return _reproducible(case)
        function = getattr(self._library, case.operator)
        parameters = signature(function).parameters
        positional = [name for name, one in parameters.items() if one.kind == one.POSITIONAL_ONLY]
        options = _options(case, parameters)
        options |= self._named if "implementation" in parameters else {}

        def call(given: Operands) -> Mapping[str, Any]:
            tensors = {_parameter(name): array for name, array in given.items()}
            first = [tensors.pop(name, None) for name in positional]
            return _outputs(case, function(*first, **tensors, **options))

        return call


class Xla(Dmlax):
    """`implementation="xla"`, where "auto" may run a kernel. Descs run "auto"."""

    name = "dmlax-xla"
    implementation = "xla"


class NativeCpu(Dmlax):
    """`implementation="native_cpu"`; kernels that are absent are a failure. Descs run "auto"."""

    name = "dmlax-native_cpu"
    implementation = "native_cpu"


class CudaXla(Dmlax):
    """`implementation="xla"` on an NVIDIA GPU; none attached is a failure. Descs run "auto"."""

    name = "dmlax-cuda-xla"
    implementation = "xla"
    needs_gpu = True


class CudaMosaic(CudaXla):
    """`implementation="mosaic_gpu"` on an NVIDIA GPU; none attached is a failure."""

    name = "dmlax-cuda-mosaic_gpu"
    implementation = "mosaic_gpu"


def _is_exact(case: Case) -> bool:
    """Say whether the operator is one of `dmlax.reproducible`."""
    return case.operator in ("exact_function", "exact_sum")


def _reproducible(case: Case) -> Call:
    """Take a function of `dmlax.reproducible`: `sum` and `dot` for the operator of sums."""
    options: dict[str, Any] = {}
    name = case.attributes.get("Function", "dot")
    if name == "dot" and "BTensor" not in case.inputs:
        name, options = "sum", {"axis": -1}
    if name == "gelu_tanh":
        name, options = "gelu", {"approximate": True}
    function = getattr(import_module("dmlax.reproducible"), name, None)
    if function is None:
        raise SpecViolation("option", "Function")
    return lambda given: {"OutputTensor": function(*(given[k] for k in case.inputs), **options)}


def _known(case: Case, variant: str) -> Operands | None:
    """Return the tensors that a compiler knows, or None where nothing is compiled."""
    if variant == CONSTANT:
        first = OPERATORS[case.operator].tensors[0].tensor
        return {name: array for name, array in case.inputs.items() if name != first}
    if variant != JIT:
        return None
    scales = "values:known" in case.requires  # a case about values that are known beforehand
    return {n: array for n, array in case.inputs.items() if scales and n.endswith("ScaleTensor")}


def _as_desc(case: Case) -> Case:
    """Return a functional case as a desc at the lowest level that accepts it."""
    if case.desc is not None:
        raise Unsupported("the descs themselves run eager and jitted")
    if "large" in case.requires:
        raise Unsupported("a desc has as many rows as elements")
    inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
    try:
        RULES[case.operator](case.attributes, inputs, case.outputs)
    except SpecViolation:
        raise Unsupported("only calls that keep every rule are put as descs") from None
    desc = express(case.operator, case.attributes, inputs, case.outputs)
    levels = feature_levels(case.operator, desc)
    if not levels:
        raise Unsupported("no feature level accepts this call as a desc")
    held = {name: to_numpy(buffer(desc[name], tensor)) for name, tensor in inputs.items()}
    return replace(case, inputs=held, desc=desc, feature_level=levels[0])


def _as_called(case: Case, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a desc's outputs as the call's: one value has the desc's rank there."""
    return {
        name: value.reshape(case.outputs[name].sizes) if value.size == 1 else value
        for name, value in outputs.items()
    }


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _parameter(field: str) -> str:
    """Spell a tensor's or an option's field as the parameter that takes it."""
    return _snake(field.removesuffix("Tensor"))


def _options(case: Case, parameters: Collection[str]) -> dict[str, Any]:
    """Return the static options: the attributes, and what the requested outputs imply."""
    options = {
        _parameter(field): tuple(value) if isinstance(value, list) else value
        for field, value in case.attributes.items()
    }
    asked = next((name for name in ("sum_dtype", "output_dtype") if name in parameters), None)
    if asked is not None:
        options[asked] = case.outputs["OutputTensor"].dtype
    if "FilterTensor" in case.inputs and case.inputs["InputTensor"].ndim == 3:
        options["dimension_numbers"] = ("NCW", "OIW", "NCW")
    if "coordinate_rank" in parameters:
        *_, options["size"], options["coordinate_rank"] = case.outputs[COORDINATES].sizes
    return options


def _outputs(case: Case, result: Any) -> dict[str, Any]:
    """Name the results: an array is the output, a named tuple has one a field.

    One of the documented shape, a scalar or a matrix, gets the sizes that are asked for.
    """
    if not hasattr(result, "_asdict"):
        return {"OutputTensor": result}
    outputs = {}
    for field, value in result._asdict().items():
        name = f"Output{_camel(field.removeprefix('output'))}Tensor"
        sizes = case.outputs[name].sizes
        documented = sizes[-2:] if name == COORDINATES else ()
        outputs[name] = value.reshape(sizes) if value.shape == tuple(documented) else value
    return outputs
