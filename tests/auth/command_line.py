"""Checks `cargo mcp login`, calls that use and extend the stored tokens, and `cargo mcp logout`.

    command_line.py {"url": …, "user": …, "program": …}
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import browser

target = json.loads(sys.argv[1])
url = target["url"]


def run(*words: str, status: int = 0) -> str:
    done = subprocess.run([target["program"], "mcp", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as scratch:
    browser.install(scratch, target["user"])
    refused = run("call", url, "list_notes", status=3)
    assert "log in with `cargo mcp login" in refused, refused
    seen = run("login", url)
    assert "notes:read" in seen and "notes:write" not in seen, seen
    tokens = Path(os.environ["XDG_CONFIG_HOME"], "cargo-mcp/tokens.json")
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    run("call", url, "list_notes")
    run("check", url)
    added = run("call", url, "add_note", "text=from the command line")
    assert "notes:write" in added, added
    notes = run("call", url, "list_notes")
    assert "from the command line" in notes, notes
    run("logout", url)
    run("call", url, "list_notes", status=3)
    print("cargo mcp: logged in, called, stepped up, logged out")
