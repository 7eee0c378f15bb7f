"""Runs the script of the example `protected`, and the commands that it shows.

    demo.py {"user": …, "program": …, "protected": …}
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import browser

TIMEOUT = 120  # seconds to install the authorization server, and for each command
HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "examples/protected/demo.sh"

target = json.loads(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as listener:
    address = f"127.0.0.1:{listener.getsockname()[1]}"

# The script requires a version of Node.js that Debian may not have.
path = f"{HERE / 'node_modules/.bin'}{os.pathsep}{os.environ['PATH']}"
script = subprocess.Popen(
    ["sh", str(SCRIPT), target["protected"]],
    env={**os.environ, "PATH": path, "ADDRESS": address},
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    start_new_session=True,
)
# Ends the wait for a script that does not start.
timer = threading.Timer(TIMEOUT, os.killpg, [script.pid, signal.SIGKILL])
timer.start()
output, commands = [], []
for line in script.stdout:
    output.append(line)
    if line.startswith("  cargo mcp "):
        commands.append(shlex.split(line)[1:])
    if line.startswith("Ctrl-C"):
        break
timer.cancel()
assert len(commands) == 6, "".join(output)

# The shown commands succeed one after the other, and the list contains the note only after it was added.
results = []
with tempfile.TemporaryDirectory() as scratch:
    browser.install(scratch, target["user"])
    for command in commands:
        done = subprocess.run([target["program"], *command], capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        results.append(done.stdout)
assert "Hello" not in results[2] and "Hello" in results[4], results

os.killpg(script.pid, signal.SIGINT)
script.stdout.read()
script.wait(TIMEOUT)
print("demo: " + ", ".join(command[1] for command in commands))
