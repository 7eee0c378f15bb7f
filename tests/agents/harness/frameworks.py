"""The frameworks: how each is installed and run."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import programs
import table

AGENTS = Path(__file__).resolve().parent.parent


@dataclass
class Framework:
    """A row of python/frameworks.json or js/frameworks.json."""

    name: str
    language: str
    client: str
    requirements: str
    subset: bool = False
    limit: int = 300
    shapes: bool = True

    @property
    def home(self) -> Path:
        return AGENTS / self.language

    @property
    def environment(self) -> Path:
        """The virtual environment of a Python framework, or the package of a JavaScript framework."""
        if self.language == "python":
            return self.home / f".venv-{self.name}"
        return self.home / self.requirements

    def install(self) -> None:
        """Installs the framework, unless its pinned versions are installed."""
        start = time.monotonic()
        stamp, expected = self.stamp(), self.fingerprint()
        if stamp.exists() and stamp.read_text() == expected:
            return
        if self.language == "python":
            step([sys.executable, "-m", "venv", "--clear", str(self.environment)])
            pip = [str(self.environment / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
            step([*pip, "--requirement", str(self.home / self.requirements)])
        else:
            # Installs the locked versions. Unlike `npm ci`, accepts locks without the optional packages of other platforms.
            step(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], self.environment)
        stamp.write_text(expected)
        print(f"installed {self.name} ({time.monotonic() - start:.1f} s)", flush=True)

    def stamp(self) -> Path:
        """The file that tells which pinned versions are installed."""
        return self.environment / (".installed" if self.language == "python" else "node_modules/.installed")

    def fingerprint(self) -> str:
        pins = [self.environment / "package.json", self.environment / "package-lock.json"]
        if self.language == "python":
            pins = [self.home / self.requirements]
        return hashlib.sha256(b"\0".join([sys.version.encode(), *(file.read_bytes() for file in pins)])).hexdigest()

    def command(self) -> list[str]:
        interpreter = "bin/python" if self.language == "python" else "node_modules/.bin/node"  # a pinned package too
        return [str(self.environment / interpreter), str(self.home / self.client)]

    def run(self, servers: dict[str, Path], verbose: bool) -> list[dict]:
        """Runs all checks. Returns the lines of the client, and those about the servers that it used."""
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="agents-") as scratch:
            with programs.started(servers, Path(scratch)) as targets:
                shapes = table.commands() if self.shapes else []
                plan = Path(scratch, "plan.json")
                plan.write_text(json.dumps({"servers": [target.plan() for target in targets], "shapes": shapes}))
                code, out, err = bounded([*self.command(), str(plan)], self.limit, scratch)
            if verbose and err:
                print(err, file=sys.stderr)
            lines = [line for line in map(parse, out.splitlines()) if line]
            version = lines[0]["version"] if lines else "?"
            about = {"framework": self.name, "version": version, "kind": "behaviour"}
            for target in targets:
                lines += [about | line for line in target.problems()]
            if code != 0 or not lines:
                reason = f"did not finish within {self.limit} s" if code is None else f"exited with {code}"
                detail = f"{reason}\n{err[-3000:]}"
                lines.append(about | {"server": "-", "transport": "-", "check": "program", "outcome": "fail", "detail": detail})
        print(f"ran {self.name} {version} ({time.monotonic() - start:.1f} s)", flush=True)
        return lines


def choose(names: list[str], subset: bool) -> list[Framework]:
    """Returns the frameworks with these names, or all, or those of the subset."""
    found = []
    for language in ("python", "js"):
        file = AGENTS / language / "frameworks.json"
        if file.exists():
            found += [Framework(language=language, **row) for row in json.loads(file.read_text())]
    unknown = set(names) - {framework.name for framework in found}
    if unknown:
        sys.exit(f"unknown frameworks: {', '.join(sorted(unknown))}; known: {', '.join(f.name for f in found)}")
    return [f for f in found if (f.name in names if names else f.subset or not subset)]


def parse(line: str) -> dict | None:
    """Reads a line of a client. Frameworks may print other lines."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "framework" in value else None


def bounded(command: list[str], limit: int, home: str) -> tuple[int | None, str, str]:
    environment = {**os.environ, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "127.0.0.1", "NO_COLOR": "1"}
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err


def step(command: list[str], directory: Path = AGENTS) -> None:
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
