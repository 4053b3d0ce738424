"""The command `python -m benchmarks`."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import (
    cases,
    chains,
    convolution,
    directml,
    element_wise,
    family,
    layers,
    memory,
    models,
    networks,
    nonzero,
    overhead,
    report,
    sweep,
    tpu,
)

_KINDS = (
    "convolution",
    "layers",
    "fully_connected",
    "chains",
    "sweep",
    "models",
    "nonzero",
    "element_wise",
    "family",
    "memory",
    "directml",
    "overhead",
)
_WIDTH = 200  # where the output is no terminal


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen benchmarks, print their tables and write the JSON if asked."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if Console().is_terminal else _WIDTH)
    facts = (f"{name} {value}" for name, value in report.environment().items())
    console.print(", ".join(facts), soft_wrap=True)
    reports = []
    for kind in _KINDS if options.what == "all" else (options.what,):
        for found in tpu.run() if kind == "tpu" else filter(None, [_run(kind, options)]):
            found.show(console)
            reports.append(found)
    if not reports:
        raise SystemExit(f"nothing is named like {options.layers!r}")
    if options.json:
        report.write(options.json, reports)


def _run(kind: str, options: argparse.Namespace) -> report.Report | None:
    """One benchmark, or `None` if no layer or array has such a name."""
    if kind == "directml":
        return directml.run(options.repeats)
    if kind == "element_wise":
        return element_wise.run(options.repeats)
    if kind == "family":
        return family.run(options.repeats, re.compile(options.layers).search)
    if kind == "fully_connected":
        return layers.run_fully_connected(options.repeats)
    if kind == "chains":
        return chains.run(options.layers, options.batch, options.repeats)
    if kind == "sweep":
        return sweep.run(options.layers, options.repeats)
    if kind == "models":
        names = [name for name in networks.NETWORKS if re.search(options.layers, name)]
        return models.run(names, options.batch, options.repeats, options.form) if names else None
    if kind == "nonzero":
        arrays = cases.arrays(options.layers, nonzero.most())
        return nonzero.run(arrays, options.repeats) if arrays else None
    chosen = cases.layers(options.layers)
    if not chosen:
        return None
    if kind == "layers":
        return layers.run(chosen, options.batch, options.repeats)
    if kind == "overhead":
        return overhead.run(options.repeats, chosen)
    if kind == "memory":
        return memory.run(chosen, max(options.batch))
    return convolution.run(
        chosen, options.batch, options.repeats, options.implementation, options.layout
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default="all", choices=(*_KINDS, "tpu", "all"))
    parser.add_argument("--layers", default="", metavar="REGEX", help="only names that match")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8], help="batch sizes")
    parser.add_argument("--repeats", type=int, default=20, help="turns (default 20)")
    parser.add_argument("--implementation", default="auto", help="of the convolutions")
    parser.add_argument("--layout", default="NCHW", choices=cases.LAYOUTS, help="of convolution")
    parser.add_argument("--form", default="qoperator", choices=networks.FORMS, help="of the models")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here too")
    return parser


if __name__ == "__main__":
    main()
