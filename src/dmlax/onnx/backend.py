"""ONNX's backend interface over `dmlax.onnx.load`, for programs that take any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep
from onnx.helper import tensor_dtype_to_np_dtype

from dmlax.errors import UnsupportedError
from dmlax.onnx import Model, load

_PLATFORMS = {"CPU": "cpu", "CUDA": "cuda"}  # ONNX's names of devices, and JAX's


class DmlaxRep(BackendRep):
    """A model that `DmlaxBackend.prepare` loaded."""

    def __init__(self, model: Model, outputs: Sequence[onnx.ValueInfoProto], device: Any) -> None:
        self._model, self._device = model, device
        self._dtypes = {x.name: x.type.tensor_type.elem_type for x in outputs}

    def run(self, inputs: Any, **options: Any) -> tuple[np.ndarray, ...]:
        """Computes the outputs, jitted, on the backend's device.

        Args:
          inputs: arrays in the file's order, or a dict of them by name.
          **options: none is known.

        Returns:
          Arrays in the file's order, with the file's dtypes; rows up to their count.

        Raises:
          SpecError: as `dmlax.onnx.Model.__call__`.
          TypeError: there is an option.
        """
        if options:
            raise TypeError(f"run has no option {', '.join(options)}; give it to prepare")
        given = inputs if isinstance(inputs, dict) else tuple(inputs)
        with jax.default_device(self._device):
            computed = self._model(*([given] if isinstance(given, dict) else given))
        return tuple(self._as_declared(name, computed) for name in self._dtypes)

    def _as_declared(self, name: str, computed: dict[str, jax.Array]) -> np.ndarray:
        """An output without spare rows; where x64 is off, int32 becomes the file's int64."""
        value = np.asarray(computed[name])
        if f"{name}.count" in computed:
            value = value[..., : int(computed[f"{name}.count"])]
        return value.astype(tensor_dtype_to_np_dtype(self._dtypes[name]), copy=False)


class DmlaxBackend(Backend):
    """Runs ONNX models with `dmlax.onnx`; the module has its methods as functions, too."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether the model loads on a device that is here."""
        try:
            cls.prepare(model, device, **options)
        except (UnsupportedError, ValueError):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> DmlaxRep:
        """Loads a model.

        Args:
          model: an `onnx.ModelProto`, which `onnx.checker` accepts.
          device: "CPU" or "CUDA", with the device's number behind a colon.
          **options: those of `dmlax.onnx.load`.

        Raises:
          UnsupportedError: operators, attributes or dtypes are not known.
          dmlax.onnx.ModelError: the model is malformed.
          SpecError: an option is wrong (code `option`).
          ValueError: the device is not here.

        Example:
          >>> import numpy as np, onnx.parser
          >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[2] x) => (float[2] y) {'
          >>> model = onnx.parser.parse_model(text + "y = Relu(x) }")
          >>> prepare(model).run([np.float32([-1, 2])])[0].tolist()
          [0.0, 2.0]
        """
        if (found := _find(device)) is None:
            raise ValueError(f"device is {device!r}, and JAX has none of this name here")
        return DmlaxRep(load(model, **options), model.graph.output, found)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, ...]:
        """Computes a node.

        Args:
          node: its named inputs are those of `inputs`, in order.
          inputs: arrays.
          device: as for `prepare`.
          outputs_info: the dtype and the shape of each output; needed.
          **options: `opset_version`, default the newest that `onnx` has; others as for `prepare`.

        Raises:
          ValueError: `outputs_info` is absent; else as `prepare` and `DmlaxRep.run`.
        """
        if outputs_info is None:
            raise ValueError("outputs_info is absent: give the dtype and the shape of each output")
        opset = options.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(x) for x in inputs]
        named = zip(filter(None, node.input), arrays, strict=True)
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [_struct(name, x.dtype, x.shape) for name, x in named],
            [_struct(name, *info) for name, info in zip(node.output, outputs_info, strict=True)],
        )
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device, **options).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether JAX has the device here."""
        return _find(device) is not None


def _find(device: str) -> Any:
    """JAX's device by ONNX's name, None where there is none."""
    name, _, number = device.partition(":")
    try:
        return jax.devices(_PLATFORMS[name])[int(number or 0)]
    except (KeyError, IndexError, RuntimeError, ValueError):
        return None


def _struct(name: str, dtype: Any, shape: Sequence[int]) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(name, element, shape)


is_compatible = DmlaxBackend.is_compatible
prepare = DmlaxBackend.prepare
run_model = DmlaxBackend.run_model
run_node = DmlaxBackend.run_node
supports_device = DmlaxBackend.supports_device
