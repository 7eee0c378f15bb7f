"""Installing the real clients at pinned versions. Each function returns an error, if there is one."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = Path(os.environ.get("MCP_EXAMPLES") or Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target"), "debug/examples"))


def node(directory: Path) -> str | None:
    """Installs the packages that the lock file in a directory names."""
    if shutil.which("npm") is None:
        return "npm is not installed (on Debian: apt-get install npm)"
    expected = fingerprint(directory / "package.json", directory / "package-lock.json")
    stamp = directory / "node_modules/.installed"
    if is_current(stamp, expected) and (directory / "node_modules/.bin/node").exists():
        return None
    command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
    return step(command, directory) or write_fingerprint(stamp, expected)


def python(number: int) -> str | None:
    """Creates the virtual environment `.venv-NUMBER` with a version of the SDK."""
    requirements = HERE / f"requirements-{number}.txt"
    home = HERE / f".venv-{number}"
    expected = fingerprint(requirements, text=sys.version)
    stamp = home / ".installed"
    if is_current(stamp, expected):
        return None
    return (
        step([sys.executable, "-m", "venv", "--clear", str(home)])
        or step([str(home / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "--requirement", str(requirements)])
        or write_fingerprint(stamp, expected)
    )


def rust() -> str | None:
    """Builds the clients of rmcp, unless `MCP_EXAMPLES` names a directory that contains them."""
    if "MCP_EXAMPLES" in os.environ:
        return None
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    # With the features of the whole workspace, so that nothing else is compiled again.
    return step(["cargo", "build", "--quiet", "--locked", "--workspace", "--example", "rmcp-client", "--example", "rmcp-authorize"])


def step(command: list[str], directory: Path = HERE) -> str | None:
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}" if done.returncode else None


def fingerprint(*files: Path, text: str = "") -> str:
    return hashlib.sha256(b"\0".join([text.encode(), *(file.read_bytes() for file in files)])).hexdigest()


def is_current(stamp: Path, expected: str) -> bool:
    return stamp.exists() and stamp.read_text() == expected


def write_fingerprint(stamp: Path, expected: str) -> None:
    stamp.write_text(expected)
