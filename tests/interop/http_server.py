"""An HTTP server: its address, its log and its exit."""

import signal
import subprocess
import threading
import time

TIMEOUT = 15  # seconds to start listening, and to exit


class HttpServer:
    """Context manager that runs a command which logs `listens on http://…`."""

    def __init__(self, command: list[str], environment: dict | None = None):
        self.command, self.environment = command, environment
        self.url = ""
        self.output: list[str] = []

    def __enter__(self) -> "HttpServer":
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
        self.reader = threading.Thread(target=self._read_output, daemon=True)
        self.reader.start()
        deadline = time.monotonic() + TIMEOUT
        while not self.url and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self.url:
            self.process.kill()
            self.reader.join(2)
            raise SystemExit(f"{' '.join(self.command)}: did not start listening\n{''.join(self.output)}")
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def logged_problems(self) -> list[str]:
        """Returns the log lines about problems that no client may cause: panics, warnings and errors.

        Ignores warnings about functions that block their connection, which also appear on a loaded machine.
        """
        expected = ("deprecated since", "function blocked its connection")
        lines = [line.rstrip() for line in self.output if not any(text in line for text in expected)]
        return [line for line in lines if "panicked at" in line or " WARN " in line or " ERROR " in line]

    def stop(self) -> str | None:
        """Terminates the server with SIGTERM. Returns a description of the problem if it does not exit with status 0."""
        if self.process.poll() is not None:
            return f"the server exited without a signal, with {self.process.returncode}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"the server did not exit within {TIMEOUT} s of SIGTERM"
        self.reader.join(2)
        return f"the server exited with {code} after SIGTERM" if code else None

    def _read_output(self) -> None:
        for line in self.process.stdout:
            self.output.append(line)
            if not self.url and " listens on http://" in line:
                self.url = line.split()[-1]
