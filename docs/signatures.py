"""Signatures with types as the source writes them: `ArrayLike`, not the union behind it."""

import ast
import inspect
import textwrap
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

_JAX = "https://docs.jax.dev/en/latest/"
_PYTHON = "https://docs.python.org/3/library/"
_PAGES = {  # other projects' types; None: a union whose members the parameter's text lists
    "Any": f"{_PYTHON}typing.html#typing.Any",
    "Array": f"{_JAX}_autosummary/jax.Array.html",
    "ArrayLike": f"{_JAX}jax.typing.html",
    "DTypeLike": f"{_JAX}jax.typing.html",
    "ConvDimensionNumbers": f"{_JAX}_autosummary/jax.lax.ConvDimensionNumbers.html",
    "Callable": f"{_PYTHON}collections.abc.html#collections.abc.Callable",
    "Mapping": f"{_PYTHON}collections.abc.html#collections.abc.Mapping",
    "EllipsisType": f"{_PYTHON}types.html#types.EllipsisType",
    "Exported": f"{_JAX}jax.export.html#jax.export.Exported",
    "dtype": "https://numpy.org/doc/stable/reference/generated/numpy.dtype.html",
    "ShapeDtypeStruct": f"{_JAX}_autosummary/jax.ShapeDtypeStruct.html",
    "Sequence": f"{_PYTHON}collections.abc.html#collections.abc.Sequence",
    "ModelProto": "https://onnx.ai/onnx/api/classes.html",
    "Arithmetic": None,
    "Form": None,
    "Implementation": None,
    "Inputs": None,
    "OperatorDesc": None,
    "Param": None,
    "Range": None,
    "Histogram": None,
    "Quantization": None,
    "Requantization": None,
    "SumRequantization": None,
    "MeanRequantization": None,
    "QuantizedWeights": None,
    "ErrorReport": None,
    "Self": None,
    "Path": None,
    "Source": None,
    "State": None,
}


class _LastName(ast.NodeTransformer):
    """Turns `module.Name` into `Name`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Name(node.attr)


def _signature(
    app: Sphinx, what: str, name: str, function: Any, options: Any, *shown: str | None
) -> tuple[str, str] | None:
    if inspect.isclass(function) and not name.endswith("Desc"):
        return "", ""  # users receive its objects and do not make them
    if not inspect.isfunction(function):
        return None
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    annotations = {
        node.arg: _text(node.annotation)
        for node in ast.walk(definition.args)
        if isinstance(node, ast.arg) and node.annotation
    }
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=annotations.get(parameter.name, parameter.empty))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    bare = signature.replace(parameters=parameters, return_annotation=signature.empty)
    return stringify_signature(bare), _text(definition.returns) if definition.returns else ""


def _text(annotation: ast.expr) -> str:
    return ast.unparse(_LastName().visit(annotation))


def _reference(
    app: Sphinx, env: Any, node: pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """A link to another project's page of a type, without fetching its inventory."""
    name = node["reftarget"].rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in _PAGES:
        return None
    page = _PAGES[name]
    return nodes.reference("", "", text, refuri=page, internal=False) if page else text


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _reference)
    return {"parallel_read_safe": True}
