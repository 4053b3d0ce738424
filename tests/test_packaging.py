"""The distributions: their README and addresses, and that the sources' one is whole."""

import importlib
import importlib.util
import re
import subprocess
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest
from scikit_build_core import build

ROOT = Path(__file__).parent.parent
FOLDERS = ["src", "tests", "docs", "conformance", "tools", "findings"]
ADDRESS = "https://example.com/dmlax"
LINK = r"\]\(([^)\s]+)\)"


@pytest.fixture(scope="module")
def provider():
    path = ROOT / "tools/packaging/repository.py"
    specification = importlib.util.spec_from_file_location("repository", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_links_of_the_readme_lead_into_the_repository(provider):
    readme = (ROOT / "README.md").read_text()
    links = re.findall(LINK, provider.absolute_links(readme, ADDRESS))
    assert len(links) == len(re.findall(LINK, readme)) > 10
    assert all(link.startswith("https://") for link in links)
    inside = [link for link in links if link.startswith(ADDRESS)]
    for link in inside:
        assert (ROOT / link.removeprefix(f"{ADDRESS}/blob/HEAD/")).exists()


def test_without_an_address_a_link_is_its_text(provider):
    text = "See [the design](docs/design.md) and [JAX](https://docs.jax.dev)."
    assert provider.absolute_links(text, None) == "See the design and [JAX](https://docs.jax.dev)."


@pytest.mark.parametrize(
    "origin", ["git@example.com:dmlax.git", "https://user:key@example.com/dmlax.git"]
)
def test_the_address_is_the_origins(provider, origin, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert provider.repository(tmp_path) is None
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", origin], check=True)
    assert provider.repository(tmp_path) == ADDRESS


def test_urls_name_files_that_exist(provider):
    found = provider.urls(ADDRESS)
    assert {"Repository", "Issues", "Changelog", "Documentation"} <= found.keys()
    for path in provider.PAGES.values():
        assert (ROOT / path).exists()
    assert provider.urls(None) == {}


def test_commands_are_functions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"].keys() == {"dmlax", "dmlax-onnx"}
    for target in project["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_a_distribution_of_the_sources_keeps_its_metadata(provider, tmp_path, monkeypatch):
    (tmp_path / "PKG-INFO").write_text(
        "Metadata-Version: 2.4\nName: dmlax\nProject-URL: Repository, https://a.b/c\n\n# dmlax\n"
    )
    monkeypatch.setattr(provider, "ROOT", tmp_path)
    assert provider.dynamic_metadata("urls") == {"Repository": "https://a.b/c"}
    assert provider.dynamic_metadata("readme")["text"] == "# dmlax\n"


def test_a_distribution_of_the_sources_has_what_its_tests_need(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as archive:
        top = archive.getnames()[0].split("/")[0]
        names = {name.removeprefix(f"{top}/") for name in archive.getnames()}
        info = Parser().parsestr(archive.extractfile(f"{top}/PKG-INFO").read().decode())
    needed = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not re.search(r"/\.|__pycache__|\.egg-info", str(path))
    }
    assert needed | {"pyproject.toml", "noxfile.py", "CMakeLists.txt", "README.md"} <= names
    assert info["Description-Content-Type"] == "text/markdown"
    assert "](docs/" not in info.get_payload()
    assert {"compare", "cuda", "cuda13", "onnx", "plot"} == set(info.get_all("Provides-Extra"))
