"""The public contract: names, signatures, docstrings and the version."""

import inspect
import re
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import pytest

import dmlax
from dmlax import directml, errors
from dmlax._core import dispatch
from dmlax._operators.registry import OPERATORS, SUPPORT
from renew_messages import README, readme

pytestmark = pytest.mark.oldest

ROOT = Path(__file__).parent.parent
NAMES = [row.name for row in OPERATORS]
FUNCTIONS = [*NAMES, "prepare_filter", "prepare_matrix", "explain", "export", "deserialize"]
CHECKED = [*FUNCTIONS, "keep_freed_memory"]  # keep_freed_memory takes nothing and raises nothing
SECTIONS = ["Args", "Returns", "Raises", "DirectML", "Lowering", "Example"]


def sections(function):
    """The docstring's sections by heading, in order."""
    parts = re.split(r"^(\w+):$", inspect.getdoc(function), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_exactly_these_names_are_exported():
    names = {
        *CHECKED,
        "DynamicQuantizeLinear",
        "Explanation",
        "MachineExplanation",
        "NonzeroCoordinates",
        "PreparedFilter",
        "PreparedMatrix",
        "ProgramExplanation",
        "SpecError",
        "UnsupportedError",
    }
    assert set(dmlax.__all__) == names
    assert dmlax.__all__ == sorted(dmlax.__all__)
    public = {name for name in vars(dmlax) if not name.startswith("_")}
    modules = {"calibration", "litert", "onnx", "quantization", "reproducible", "training"}
    assert public - names - modules == {
        "directml",
        "errors",
    }  # modules


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_a_docstring_says_what_to_train_with(row):
    document = getattr(dmlax, row.name).__doc__
    assert "gradient" in document
    assert (row.training or "") in document.partition("gradient")[2].partition("Raises:")[0]


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_an_operator_has_one_name(row):
    """The public function's, the messages', and DirectML's in snake case."""
    assert row.function is getattr(dmlax, row.name)
    assert row.function.__name__ == row.name
    desc = getattr(directml, f"{row.name.title().replace('_', '')}OperatorDesc", None)
    assert (desc is None) == (not row.supports)
    assert desc in {None, *(support.desc for support in row.supports)}
    if desc:
        assert f"{desc.operator}OperatorDesc" == desc.__name__
        assert inspect.getdoc(desc).startswith(f"DML_{row.name.upper()}_OPERATOR_DESC")


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_a_lowering_has_a_reason_on_every_platform_that_it_is_not_for(row):
    for lowering in row.operator.lowerings:
        for platform in dispatch.PLATFORMS:
            why_not = None
            if platform not in lowering.platforms or lowering.name in ("xla", "reference"):
                why_not = lowering.why_not(mock.MagicMock(), platform)
            assert bool(why_not) == (platform not in lowering.platforms)


def test_the_readmes_table_of_operators_is_the_lists():
    assert README.read_text() == readme(), "python tests/renew_messages.py writes it"


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_has_a_page_and_is_in_the_changelog(name):
    assert f"dmlax.{name}\n" in (ROOT / f"docs/operators/{name}.md").read_text()
    assert f"`{name}`" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", CHECKED)
def test_every_parameter_and_result_has_a_type(name):
    signature = inspect.signature(getattr(dmlax, name))
    annotations = [p.annotation for p in signature.parameters.values()]
    assert inspect.Signature.empty not in [*annotations, signature.return_annotation]


@pytest.mark.parametrize("name", NAMES)
def test_options_are_by_keyword_only(name):
    function = getattr(dmlax, name)
    parameters = inspect.signature(function).parameters
    kinds = {p.kind for p in parameters.values()}
    assert kinds == {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(TypeError, match="positional-only"):
        function(**{next(iter(parameters)): None})


@pytest.mark.parametrize("name", [*NAMES, "prepare_filter", "prepare_matrix"])
def test_docstrings_have_the_same_sections_in_the_same_order(name):
    assert list(sections(getattr(dmlax, name))) == SECTIONS


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_a_docstring_says_that_gradients_are_zero_and_how_to_train(row):
    text = " ".join(sections(row.function)["Returns"].split())
    assert re.search(r"gradients? (is|are) zero|no gradients?", text)
    if row.training:
        assert f"train with `dmlax.training.{row.training}`" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_documented_and_nothing_else(name):
    function = getattr(dmlax, name)
    documented = re.findall(r"^  \*{0,2}(\w+): \S", sections(function)["Args"], re.MULTILINE)
    assert documented == list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", CHECKED)
def test_docstrings_start_with_one_line_and_end_with_a_doctest(name):
    function = getattr(dmlax, name)
    lines = inspect.getdoc(function).splitlines()
    assert lines[0].endswith((".", "."))
    assert not lines[1]
    assert ">>> " in list(sections(function).values())[-1]
    assert list(sections(function))[-1] == "Example"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_errors_raised_are_documented(name):
    raises = sections(getattr(dmlax, name))["Raises"]
    assert re.search(r"^  SpecError: ", raises, re.MULTILINE)
    takes = name in (*NAMES, "explain", "export", "deserialize")
    assert bool(re.search(r"^  UnsupportedError: ", raises, re.MULTILINE)) == takes
    for code in re.findall(r"`(\w+)`", raises):
        assert code in errors.CODES or code == "function"


@pytest.mark.parametrize("name", dmlax.__all__)
def test_everything_public_has_a_docstring(name):
    assert inspect.getdoc(getattr(dmlax, name))


def test_the_codes_are_a_closed_set():
    assert (
        *("data_type", "dimension_count", "sizes", "strides", "byte_size", "alignment", "flags"),
        *("feature_level", "missing_tensor", "option", "value"),
    ) == errors.CODES


def test_errors_are_a_value_error_and_a_not_implemented_error():
    assert issubclass(dmlax.SpecError, ValueError)
    assert issubclass(dmlax.UnsupportedError, NotImplementedError)


DIRECTML_SECTIONS = {
    "create_operator": SECTIONS,
    "validate": ["Args", "Returns", "Raises", "Example"],
}


def test_exactly_these_names_are_exported_from_directml():
    descs = {desc.__name__ for desc in SUPPORT}
    names = descs | {
        *DIRECTML_SECTIONS,
        "BindOrder",
        "BufferTensorDesc",
        "CompiledOperator",
        "DataType",
        "FeatureLevel",
        "TensorFlags",
        "Violation",
    }
    assert set(directml.__all__) == names
    assert len(directml.__all__) == len(names)
    public = {name for name, value in vars(directml).items() if not inspect.ismodule(value)}
    assert {name for name in public if not name.startswith("_")} == names
    assert callable(directml.validate)  # not the module of that name
    assert directml.Violation is errors.Violation


@pytest.mark.parametrize("name", DIRECTML_SECTIONS)
def test_every_parameter_and_result_of_directml_has_a_type(name):
    signature = inspect.signature(getattr(directml, name))
    annotations = [p.annotation for p in signature.parameters.values()]
    assert inspect.Signature.empty not in [*annotations, signature.return_annotation]


@pytest.mark.parametrize("name", DIRECTML_SECTIONS)
def test_docstrings_of_directml_have_these_sections(name):
    found = sections(getattr(directml, name))
    assert list(found) == DIRECTML_SECTIONS[name]
    documented = re.findall(r"^  (\w+): \S", found["Args"], re.MULTILINE)
    assert documented == list(inspect.signature(getattr(directml, name)).parameters)
    assert re.search(r"^  SpecError: ", found["Raises"], re.MULTILINE)
    assert ">>> " in found["Example"]


@pytest.mark.parametrize("name", directml.__all__)
def test_everything_public_in_directml_has_a_docstring(name):
    assert inspect.getdoc(getattr(directml, name))


def test_the_version_is_that_of_the_distribution():
    assert dmlax.__version__ == version("dmlax")
