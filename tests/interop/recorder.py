#!/usr/bin/env python3
"""Forward the messages between a client and a server, and record them.

    recorder.py DIRECTORY COMMAND [ARGUMENT]…

Each start writes a file in DIRECTORY with one JSON object per line: `{"from": "client" | "server" | "stderr", "line": …}`, and finally
its exit: `{"exit": 0, "signals": [], "seconds": 0.01}`, with the signals that were sent to it and the time from the end
of its input to its exit. Clients do not observe all of this.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

EXIT_TIMEOUT = 10  # seconds from the end of input until the server is killed


def main() -> None:
    directory, command = sys.argv[1], sys.argv[2:]
    log = open(os.path.join(directory, f"{time.time_ns()}-{os.getpid()}.jsonl"), "a", encoding="utf-8")
    lock = threading.Lock()

    def write(**entry):
        with lock:
            log.write(json.dumps(entry) + "\n")
            log.flush()

    signals: list[str] = []
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def forward(number, _frame):
        signals.append(signal.Signals(number).name)
        server.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)

    input_ended = [time.monotonic()]

    def pump(source, target, name):
        for line in iter(source.readline, b""):
            write(**{"from": name, "line": line.decode("utf-8", "replace").rstrip("\n")})
            if target is not None:
                try:
                    target.write(line)
                    target.flush()
                except OSError:
                    break
        if name == "client":
            input_ended[0] = time.monotonic()
            try:
                target.close()
            except OSError:
                pass
            time.sleep(EXIT_TIMEOUT)
            signals.append("SIGKILL")
            server.kill()

    def start(*arguments):
        thread = threading.Thread(target=pump, args=arguments, daemon=True)
        thread.start()
        return thread

    start(sys.stdin.buffer, server.stdin, "client")
    readers = [
        start(server.stdout, sys.stdout.buffer, "server"),
        start(server.stderr, None, "stderr"),
    ]
    code = server.wait()
    for thread in readers:
        thread.join(2)
    write(exit=code, signals=signals, seconds=round(time.monotonic() - input_ended[0], 3))
    log.close()
    os._exit(code if code >= 0 else 128 - code)  # the thread that reads stdin may still be blocked


if __name__ == "__main__":
    main()
