"""A server over HTTP: where it listens, what it says, how it ends."""

import signal
import subprocess
import threading
import time

PATIENCE = 15  # seconds until it listens, and until it has ended


class HttpServer:
    """Runs a command that says on stderr that it `listens on http://…`, for a `with`."""

    def __init__(self, command: list[str]):
        self.command = command
        self.url = ""
        self.said: list[str] = []

    def __enter__(self) -> "HttpServer":
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()
        deadline = time.monotonic() + PATIENCE
        while not self.url and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self.url:
            self.process.kill()
            self.reader.join(2)
            raise SystemExit(f"{' '.join(self.command)}: it does not listen\n{''.join(self.said)}")
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def complaints(self) -> list[str]:
        """The lines that no client may cause."""
        return [line.rstrip() for line in self.said if "panicked at" in line or " WARN " in line or " ERROR " in line]

    def stop(self) -> str | None:
        """Tells it to end with SIGTERM, and says what is wrong with the way it does."""
        if self.process.poll() is not None:
            return f"the server ended by itself, with {self.process.returncode}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"the server did not end within {PATIENCE} s of SIGTERM"
        self.reader.join(2)
        return f"the server ended with {code} after SIGTERM" if code else None

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.said.append(line)
            if not self.url and " listens on http://" in line:
                self.url = line.split()[-1]
