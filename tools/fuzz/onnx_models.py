"""Changed ONNX models: loading one gives a model, or an error of `dmlax`.

    python tools/fuzz/onnx_models.py [seconds] [seed]

A file differs from a golden model in some bytes, in some fields of its messages, or in nodes of
large known values; an archive in its JSON, or in its members. Nothing but `ModelError`,
`UnsupportedError` and `SpecError` may be raised, no load may take long or much memory. A failure
names the number of the case, which with the seed gives it again.
"""

import contextlib
import functools
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onnx

import dmlax
import dmlax.onnx

MODELS = Path(__file__).parents[2] / "conformance/golden_models"
ALLOWED = (dmlax.onnx.ModelError, dmlax.UnsupportedError, dmlax.SpecError)
SECONDS = 30  # the longest load
MEBIBYTES = 512  # one load raises the peak of resident memory by less
ROWS = 200  # rows of the detector's NonZero
ODD_INTEGERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 16, 2**31, 2**40, 2**63 - 1)
ODD_SIZES = ("a^1000000", "(" * 900, "max(" * 30 + "a" + ",b)" * 30, "a,b", "-1", "2*a", "é", "\0")
LOCATIONS = ("weights.bin", "absent", "../model", "", ".", "loop", "a" * 300, "a\0b", "/dev/zero")
SOURCES = {  # operators of known values, and the dtypes of their operands: "s" of sizes
    "Concat": "ss",
    "ConstantOfShape": "s",
    "Expand": "ss",
    "Gather": "ss",
    "Mul": "ss",
    "Pad": "ss",
    "Pow": "ss",
    "Range": "iii",
    "ReduceProd": "s",
    "Reshape": "ss",
    "Resize": "s  s",
    "Slice": "sss",
    "Split": "s",
    "Tile": "ss",
    "Unsqueeze": "ss",
    "Where": "sss",
}
ODD_FLOATS = (0.0, -1.0, 1e-45, 1e38, float("inf"), float("nan"))
_NO_VALUE = ValueError, TypeError, OverflowError  # protobuf's, of a value that a field cannot have
_REPEATED = 3  # FieldDescriptor.LABEL_REPEATED


class OutOfTime(BaseException):
    """A load took too long; a node's own errors become a `ModelError`, and this one does not."""


class Failure(NamedTuple):
    """A case that raised another error, or took too much."""

    case: int
    model: str
    reason: str

    def __str__(self) -> str:
        return f"case {self.case}, of {self.model}: {self.reason}"


class Outcome(NamedTuple):
    """The number of cases, of those that loaded, and what went wrong."""

    cases: int
    loaded: int
    failures: list[Failure]


def run(seconds: float, seed: int) -> Outcome:
    """Loads changed models until the time is over."""
    files = {path.stem: path.read_bytes() for path in sorted(MODELS.glob("*.onnx"))}
    return run_cases(seconds, seed, functools.partial(make_case, files=files), try_to_load)


def run_cases(
    seconds: float,
    seed: int,
    make: Callable[[random.Random], tuple[str, bytes]],
    load: Callable[[bytes], str | None],
) -> Outcome:
    """Makes and loads cases until the time is over."""
    failures, loaded, case = [], 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        model, data = make(random.Random(f"{seed} {case}"))
        reason = load(data)
        loaded += reason is None
        if reason:
            failures.append(Failure(case, model, reason))
        case += 1
    return Outcome(case, loaded, failures)


def make_case(chosen: random.Random, files: dict[str, bytes]) -> tuple[str, bytes]:
    """The name of a golden model, and the bytes of a changed one."""
    name = chosen.choice(sorted(files))
    kind = chosen.randrange(10)
    if kind < 3:
        change = (change_bytes, change_json, change_members)[kind]
        return f"{name}.dmlax", change(chosen, _archive(files[name]))
    if kind == 3:
        return name, change_bytes(chosen, files[name])
    model = onnx.ModelProto.FromString(files[name])
    if kind == 4:
        add_nodes(chosen, model)
    if kind == 5:
        move_data_out(chosen, model)
    for _ in range(chosen.choice((1, 1, 1, 2, 5))):
        change_field(chosen, model)
    return name, model.SerializeToString()


@functools.cache
def _archive(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dmlax"
        dmlax.onnx.load(data, nonzero_size=ROWS).save(path)
        return path.read_bytes()


def try_to_load(data: bytes) -> str | None:
    """Returns the reason for which a load is a failure, "" for an error that is allowed."""
    with _saved(data) as path:
        return judge(lambda: dmlax.onnx.load(path, nonzero_size=ROWS).outputs)


def judge(load: Callable[[], Any]) -> str | None:
    """Returns the reason for which a load is a failure, "" for an error that is allowed."""
    before = _peak()
    try:
        with _time_limit():
            load()
        reason = None
    except ALLOWED:
        reason = ""
    except (Exception, OutOfTime) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error}, in {last.filename}:{last.lineno}"
    grown = _peak() - before
    return f"it took {grown:.0f} MiB" if grown > MEBIBYTES else reason


@contextlib.contextmanager
def _saved(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(data)
        (path.parent / "weights.bin").write_bytes(bytes(1 << 16))
        (path.parent / "loop").symlink_to("loop")
        yield path


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise OutOfTime(f"it took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _peak() -> float:
    """The peak of resident memory, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def change_bytes(chosen: random.Random, data: bytes) -> bytes:
    """Changes, removes, repeats or adds bytes."""
    changed = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 8))):
        start = chosen.randrange(len(changed) + 1)
        end = min(start + chosen.choice((1, 1, 2, 16, 300)), len(changed))
        kind = chosen.randrange(4)
        if kind == 0 and end > start:
            changed[start] = chosen.choice((0, 127, 255, chosen.randrange(256)))
        elif kind == 1:
            del changed[start:end]
        elif kind == 2:
            changed[start:start] = changed[start:end]
        else:
            changed[start:start] = chosen.randbytes(end - start)
    return bytes(changed)


def change_json(chosen: random.Random, archive: bytes) -> bytes:
    """Changes some values of an archive's graph."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".json"):
                tree = json.loads(data)
                for _ in range(chosen.choice((1, 1, 2))):
                    _change_tree(chosen, tree)
                data = json.dumps(tree).encode()
            new.writestr(name, data)
    return changed.getvalue()


def change_members(chosen: random.Random, archive: bytes) -> bytes:
    """Changes bytes of some members, their compression, or adds one twice."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w") as new:
        names = old.namelist()
        for name in [*names, *chosen.choice(((), (), (), chosen.choices(names)))]:
            data = old.read(name)
            if chosen.random() < 0.5:
                header = chosen.choice((20, 128, len(data)))
                data = change_bytes(chosen, data[:header]) + data[header:]
            methods = (zipfile.ZIP_STORED, *(zipfile.ZIP_DEFLATED,) * 30, zipfile.ZIP_LZMA)
            with warnings.catch_warnings(action="ignore"):
                new.writestr(name, data, chosen.choice(methods))
    return changed.getvalue()


def _change_tree(chosen: random.Random, tree: Any) -> None:
    places = list(_places(tree))
    container, key = chosen.choice(places)
    other, another = chosen.choice(places)
    odd = (None, True, "", "x", [], {}, 1.5, *ODD_INTEGERS, *ODD_FLOATS, *ODD_SIZES, other[another])
    if chosen.random() < 0.2:
        del container[key]
    else:
        container[key] = json.loads(json.dumps(chosen.choice(odd)))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def change_field(chosen: random.Random, model: Any) -> None:
    """Changes one field of one message."""
    messages = list(_messages(model))
    message = chosen.choice(messages)
    present = [field for field, _ in message.ListFields()]
    field = chosen.choice(
        present if present and chosen.random() < 0.9 else message.DESCRIPTOR.fields
    )
    if chosen.random() < 0.05:
        message.ClearField(field.name)
    elif _is_repeated(field):
        _change_repeated(chosen, message, field, messages)
    elif field.message_type is not None:
        _copy_from_alike(chosen, getattr(message, field.name), messages)
    else:
        value = _other(chosen, field, getattr(message, field.name), messages)
        with contextlib.suppress(*_NO_VALUE):
            setattr(message, field.name, value)


def add_nodes(chosen: random.Random, model: Any) -> None:
    """Adds nodes that compute known values of odd sizes, and an input of a node that reads one."""
    graph, nodes = model.graph, list(model.graph.node)
    made = []
    for i in range(chosen.choice((1, 2, 4, 30))):
        op = chosen.choice(sorted(SOURCES))
        names = [
            _operand(chosen, graph, kind, f"odd_{i}_{k}") for k, kind in enumerate(SOURCES[op])
        ]
        if made and chosen.random() < 0.7:
            names[chosen.randrange(len(names))] = chosen.choice(made)
        attributes = {
            "Concat": {"axis": 0},
            "Pad": {"mode": chosen.choice(("constant", "edge", "reflect", "wrap"))},
            "Split": {"num_outputs": chosen.choice((1, 2, 1 << 28))},
        }.get(op, {})
        made.append(f"made_{i}")
        nodes.insert(i, onnx.helper.make_node(op, names, made[-1:], **attributes))
    reader = chosen.choice(nodes[len(made) :])
    if reader.input:
        reader.input[chosen.randrange(len(reader.input))] = chosen.choice(made)
    nodes.append(onnx.helper.make_node("Size", made[-1:], ["made_size"]))
    graph.output.add(name="made_size")
    del graph.node[:]
    graph.node.extend(nodes)


def _operand(chosen: random.Random, graph: Any, kind: str, name: str) -> str:
    """The name of a new initializer, or of a tensor of the graph; none for a blank."""
    if kind == " ":
        return ""
    if kind == "s" and chosen.random() < 0.2:
        return str(chosen.choice([each.name for each in (*graph.input, *graph.initializer)]))
    size = 1 if kind == "i" else chosen.choice((0, 1, 1, 2, 2, 3, 17, 1000))
    values = [chosen.choice((*ODD_INTEGERS, 1 << 20, 1 << 28)) for _ in range(size)]
    if size == 1000:
        values = [chosen.choice((0, 1, 2))] * size
    dims = [] if kind == "i" else [size]
    graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT64, dims, values))
    return name


def move_data_out(chosen: random.Random, model: Any) -> None:
    """Has an initializer's data in a file of its own."""
    tensor = chosen.choice(model.graph.initializer)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    odd = {"location": chosen.choice(LOCATIONS)}
    if chosen.random() < 0.3:
        odd[chosen.choice(("offset", "length"))] = str(chosen.choice((*ODD_INTEGERS, "two", "1e3")))
    if chosen.random() < 0.1:
        tensor.data_type = onnx.TensorProto.STRING
    for key, value in odd.items():
        tensor.external_data.add(key=key, value=value)


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if _is_repeated(field) else (value,):
                yield from _messages(each)


def _is_repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)  # protobuf 6 and newer have it
    return bool(field.label == _REPEATED if found is None else found)


def _change_repeated(chosen: random.Random, message: Any, field: Any, messages: Any) -> None:
    values = getattr(message, field.name)
    kind = chosen.randrange(4)
    if not values or kind == 0:
        if field.message_type is not None:
            _copy_from_alike(chosen, values.add(), messages)
        else:
            with contextlib.suppress(*_NO_VALUE):
                values.append(_other(chosen, field, None, messages))
        return
    place = chosen.randrange(len(values))
    if kind == 1:
        del values[place]
    elif kind == 2 and len(values) > 1:
        items = list(values)
        other = chosen.randrange(len(values))
        items[place], items[other] = items[other], items[place]
        copies = [_copy(each) for each in items]
        del values[:]
        values.extend(copies)
    elif field.message_type is not None:
        _copy_from_alike(chosen, values[place], messages)
    else:
        with contextlib.suppress(*_NO_VALUE):
            values[place] = _other(chosen, field, values[place], messages)


def _copy(value: Any) -> Any:
    if not hasattr(value, "CopyFrom"):
        return value
    copy = type(value)()
    copy.CopyFrom(value)
    return copy


def _copy_from_alike(chosen: random.Random, message: Any, messages: list[Any]) -> None:
    """Gives a message the fields of another one of its type."""
    alike = [each for each in messages if type(each) is type(message)]
    if alike:
        message.CopyFrom(_copy(chosen.choice(alike)))


def _other(chosen: random.Random, field: Any, value: Any, messages: list[Any]) -> Any:
    """Another value for a field of no message."""
    if field.cpp_type == field.CPPTYPE_STRING:
        is_bytes = field.type == field.TYPE_BYTES
        if is_bytes and value:
            return change_bytes(chosen, value)
        names = [
            name for each in messages if isinstance(each, onnx.NodeProto) for name in each.input
        ]
        types = [each.op_type for each in messages if isinstance(each, onnx.NodeProto)]
        text = chosen.choice((*names, *types, "", "Loop", "NonZero", "x" * 300, "\0", "é"))
        return text.encode() if is_bytes else text
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return chosen.choice(ODD_FLOATS)
    if isinstance(value, int) and chosen.random() < 0.4:
        return value + chosen.choice((-1, 1, 2))
    return chosen.choice((*ODD_INTEGERS, chosen.randrange(30)))


def main(run: Callable[[float, int], Outcome] = run) -> int:
    """Prints the failures and the counts; 1 if there are any."""
    arguments = [*sys.argv[1:], *("60", "0")[len(sys.argv) - 1 :]]
    outcome = run(float(arguments[0]), int(arguments[1]))
    for failure in outcome.failures:
        print(failure)
    print(f"{outcome.cases} models, {outcome.loaded} loaded, {len(outcome.failures)} failures")
    print(f"peak of resident memory {_peak():.0f} MiB")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
