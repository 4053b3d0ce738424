"""Times dmlax against other libraries: a subcommand for every benchmark."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

import dmlax
from dmlax._cpu.allocator import VARIABLE
from tools.benchmarks import report, stored

BENCHMARKS = {  # modules, except those of `OPERATORS`
    "layers": "CPU: convolutions and fully connected layers against ONNX Runtime",
    "models": "CPU: whole quantized models against ONNX Runtime",
    "family": "CPU: products, sums, pools, lookups, dynamic quantization against ONNX Runtime",
    "few_rows": "CPU: products of 1 to 8 rows against ONNX Runtime and reading the weights",
    "element_wise": "CPU: QuantizeLinear and DequantizeLinear against ONNX Runtime",
    "nonzero": "CPU: nonzero_coordinates against jnp.nonzero, NumPy and PyTorch",
    "decoding": "CPU: steps and prompts of a decoder in 4 and 8 bits against ONNX Runtime",
    "overhead": "CPU: what dmlax adds to a small call, and compile times",
    "peaks": "CPU: the machine's peaks of int8 products and copied bytes",
    "families": "CPU: bits of a classifier of every torchvision family against ONNX Runtime's",
    "gpu_operators": "GPU: operators against copies of as many bytes and PyTorch",
    "gpu_models": "GPU: whole quantized models against PyTorch",
    "gpu_sharding": "GPU: models split over several GPUs",
}
_ON_AND_OFF = {  # timed with freed memory kept, and once more without
    *("layers", "models", "family", "few_rows", "element_wise", "nonzero", "overhead"),
}
OPERATORS = ("family", "few_rows", "element_wise")  # works of the module `operators`
_WIDTH = 200  # the width if the output is no terminal
_HELP_WIDTH = 110


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a benchmark, print its tables, and write them to a file if asked."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = vars(_parse(arguments))
    name, path = options.pop("benchmark"), options.pop("json")
    if not name.startswith("gpu_") and jax.default_backend() != "cpu":
        raise SystemExit(f"{name}: it runs on a CPU; set JAX_PLATFORMS=cpu")
    off: Mapping[str, Any] = {}
    if name in _ON_AND_OFF and VARIABLE not in os.environ:
        off = _measure_off(arguments)
        os.environ[VARIABLE] = "1"  # in the processes that measure peaks of memory, too
        dmlax.keep_freed_memory()
    if name in OPERATORS:
        options["benchmark"] = name
    produced = _module(name).run(**options)
    if produced is None:  # it printed lines for a table to come
        return
    reports = _show(produced, off)
    if not reports:
        raise SystemExit(f"nothing is named like {options['only']!r}")
    if path:
        report.write(path, reports)


def _module(name: str) -> Any:
    return import_module(f"tools.benchmarks.{'operators' if name in OPERATORS else name}")


def _measure_off(arguments: Sequence[str]) -> dict[str, Any]:
    """The reports by name, as another process measures them with the allocator as it is."""
    print(f"first with {VARIABLE}=0", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "off.json")
        command = [sys.executable, "-m", "tools.benchmarks", *arguments, "--json", str(file)]
        environment = os.environ | {VARIABLE: "0"}
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise SystemExit(done.returncode)
        return stored.read(file)


def _show(produced: Iterable[report.Report], off: Mapping[str, Any]) -> list[report.Report]:
    """Print every report as soon as it is there, the machine first."""
    console = Console(width=None if Console().is_terminal else _WIDTH)
    reports: list[report.Report] = []
    for one in produced:
        if off:
            one.add_beside(off[one.name]["rows"], "off")
        if not reports:
            facts = (f"{name} {value}" for name, value in one.machine().items())
            console.print(", ".join(facts), soft_wrap=True)
        one.show(console)
        reports.append(one)
    return reports


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    style = partial(argparse.HelpFormatter, max_help_position=26, width=_HELP_WIDTH)
    parser = argparse.ArgumentParser(
        "python -m tools.benchmarks", description=__doc__, formatter_class=style
    )
    commands = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    for name, line in BENCHMARKS.items():
        command = commands.add_parser(name, help=line, description=line, formatter_class=style)
        if name in arguments:  # only the chosen module is imported
            for flag, settings in _module(name).OPTIONS:
                command.add_argument(flag, **settings)
            command.add_argument("--json", type=Path, metavar="FILE", help="write the tables here")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
