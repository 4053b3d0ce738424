"""The README and the addresses of a distribution, which a reader sees outside of the repository.

scikit-build-core asks `dynamic_metadata` for `readme` and `urls`. Links into the repository become
addresses where the checkout was cloned from; without such an address, plain text. A distribution of
the sources keeps what it was made with, in PKG-INFO.
"""

import email.parser
import email.policy
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {"Changelog": "CHANGELOG.md", "Documentation": "docs/index.md"}
LINK = re.compile(r"\[([^]]+)\]\((?!https?:|#)([^)\s]+)\)")


def dynamic_metadata(field: str, settings: Mapping[str, Any] | None = None, *_: Any) -> Any:
    """The value of a field of the project's metadata."""
    info = ROOT / "PKG-INFO"
    if info.exists():
        return _from_distribution(field, info.read_text(encoding="utf-8"))
    address = repository(ROOT)
    if field == "urls":
        return urls(address)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return _readme(absolute_links(text, address))


def repository(root: Path) -> str | None:
    """The https address that a checkout was cloned from, if it has one."""
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    web = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", found).removesuffix(".git")
    return re.sub(r"//[^/@]*@", "//", web) if web.startswith("https://") else None


def urls(address: str | None) -> dict[str, str]:
    """The project's addresses by their labels."""
    if address is None:
        return {}
    pages = {label: f"{address}/blob/HEAD/{path}" for label, path in PAGES.items()}
    return {"Repository": address, "Issues": f"{address}/issues", **pages}


def absolute_links(text: str, address: str | None) -> str:
    """Replaces links to files of the repository."""
    if address is None:
        return LINK.sub(r"\1", text)
    return LINK.sub(rf"[\1]({address}/blob/HEAD/\2)", text)


def _readme(text: str) -> dict[str, str]:
    return {"content-type": "text/markdown", "text": text}


def _from_distribution(field: str, info: str) -> Any:
    message = email.parser.Parser(policy=email.policy.compat32).parsestr(info)
    if field == "urls":
        return dict(line.split(", ", 1) for line in message.get_all("Project-URL", []))
    return _readme(str(message.get_payload()))
