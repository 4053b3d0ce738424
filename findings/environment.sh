# Sourced by every script: a virtual environment in a temporary folder, which is deleted at the end.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export PYTHONPATH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)" PYTHONDONTWRITEBYTECODE=1 # one_model.py

install() { # NAME==VERSION ...
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
  export PATH="$folder/venv/bin:$PATH"
}
