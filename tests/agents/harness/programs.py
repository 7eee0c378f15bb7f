"""The example servers, each over stdio and over HTTP."""

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "interop"))
from http_server import HttpServer

NAMES = ("notes", "everything", "ask")
# Runs a command whose stderr goes to a file, since frameworks hide it, print it or close it.
STDERR_TO_FILE = 'file=$1; shift; exec "$@" 2>>"$file"'


@dataclass
class Target:
    """A server over one transport."""

    server: str
    transport: str
    command: list[str]
    stderr: Path
    http: HttpServer | None = None
    stopped: list[str] = field(default_factory=list)

    def plan(self) -> dict:
        """Returns what a client reads. The command is for middlemen over HTTP too, which start the server themselves."""
        plan = {"server": self.server, "transport": self.transport}
        if self.http:
            return plan | {"url": self.http.url}
        return plan | {"command": ["sh", "-c", STDERR_TO_FILE, "sh", str(self.stderr), *self.command]}

    def problems(self) -> list[dict]:
        """Returns the checks about the server itself: nothing on stderr over stdio, no warnings over HTTP."""
        if self.http:
            found = self.http.logged_problems() + self.stopped
        else:
            lines = self.stderr.read_text().splitlines() if self.stderr.exists() else []
            found = [line for line in lines if "deprecated since" not in line]  # what the client offers to the server
        line = {"server": self.server, "transport": self.transport, "check": "stderr"}
        return [line | {"outcome": "fail" if found else "ok", "detail": "\n".join(found[:5])}]


def find(directory: Path) -> dict[str, Path]:
    missing = [name for name in NAMES if not (directory / name).exists()]
    if missing:
        sys.exit(f"{directory}: programs not found: {', '.join(missing)}")
    return {name: directory / name for name in NAMES}


@contextlib.contextmanager
def started(servers: dict[str, Path], scratch: Path):
    """Yields one target per server and transport. Servers over HTTP run until the end of the block, then exit on SIGTERM."""
    with contextlib.ExitStack() as stack:
        targets = []
        for name, program in servers.items():
            for transport in ("stdio", "http"):
                database = ["--db", str(scratch / f"{transport}.db")] if name == "notes" else []
                target = Target(name, transport, [str(program), *database], scratch / f"{name}.stderr")
                if transport == "http":
                    target.http = stack.enter_context(HttpServer([*target.command, "--http", "127.0.0.1:0"]))
                targets.append(target)
        yield targets
        for target in targets:
            if target.http and (problem := target.http.stop()):
                target.stopped.append(problem)
