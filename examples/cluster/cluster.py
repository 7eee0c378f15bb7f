#!/usr/bin/env python3
"""Start Redis with a random password, three replicas of a server, and nginx in front of them, which distributes requests without
stickiness, except for those of the transport of 2024-11-05.

    examples/cluster/cluster.py [--http ADDRESS] [PROGRAM [ARGUMENT…]]

PROGRAM is a server with the backend `mcp-runtime-redis`, by default this example, which is built first. Requires `redis-server` and `nginx`.
Everything listens on the loopback interface only, and ends with SIGTERM or Ctrl-C. Logs are written to stderr.
"""

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPLICAS = 3

NGINX = """
daemon off;
{user}
worker_processes 1;
pid {scratch}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {scratch}/body;
    proxy_temp_path {scratch}/proxy;
    fastcgi_temp_path {scratch}/fastcgi;
    uwsgi_temp_path {scratch}/uwsgi;
    scgi_temp_path {scratch}/scgi;
    upstream replicas {{
        # Round robin. A replica that refuses connections is left out for a second.
        {replicas}
        keepalive 32;
    }}
    upstream sticky {{
        # The messages of a session of 2024-11-05 must reach the replica with its stream.
        hash $remote_addr consistent;
        {replicas}
    }}
    server {{
        listen {address};
        client_max_body_size 4m;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        location / {{
            proxy_pass http://replicas;
        }}
        location ~ ^/(sse|message)$ {{
            proxy_pass http://sticky;
        }}
    }}
}}
"""


class Process:
    """A process whose log lines are written to stderr behind its name."""

    def __init__(self, name, command, **environment):
        self.name, self.command, self.environment = name, command, environment
        self.start()

    def start(self):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(self.command, text=True, env={**os.environ, **self.environment}, **pipes)
        threading.Thread(target=self._forward, args=(self.process,), daemon=True).start()

    def _forward(self, process):
        for line in process.stdout:
            sys.stderr.write(f"{self.name} {line.replace(' listens on ', ' is at ')}")

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self):
        """Terminates the process. Returns its exit status."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def pause(self, seconds):
        """Stops the process without closing its connections, and continues it."""
        self.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Cluster:
    """Context manager that runs Redis, replicas of a server, and nginx."""

    def __init__(self, program, address="127.0.0.1:0", replicas=REPLICAS):
        self.program, self.count = program, replicas
        host, port = address.rsplit(":", 1)
        self.address = f"{host}:{port if port != '0' else free_port()}"
        self.url = f"http://{self.address}/mcp"
        self.processes = []

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="cluster-")
        self.redis_port = free_port()
        # Every user of the machine can connect to the port, but only this one can read the file and the environment of a process.
        password = secrets.token_urlsafe(24)
        self.backend = f"redis://default:{password}@127.0.0.1:{self.redis_port}"
        config = Path(self.scratch.name, "redis.conf")
        config.write_text(f"requirepass {password}\n")
        # Nothing that was acknowledged is lost when Redis is killed.
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        command = [tool("redis-server"), str(config), "--port", str(self.redis_port), "--dir", self.scratch.name]
        command += ["--logfile", "redis.log", *options]
        self.redis = self._run("redis", command, self.redis_port)
        self.replicas = []
        ports = [free_port() for _ in range(self.count)]
        for number, port in enumerate(ports, 1):
            command = [*self.program, "--http", f"127.0.0.1:{port}", "--legacy-sse"]
            self.replicas.append(self._run(f"replica-{number}", command, port, MCP_BACKEND=self.backend))
        servers = (f"server 127.0.0.1:{port} max_fails=1 fail_timeout=1s;" for port in ports)
        config = Path(self.scratch.name, "nginx.conf")
        user = "user root;" if os.geteuid() == 0 else ""
        config.write_text(
            NGINX.format(scratch=self.scratch.name, user=user, address=self.address, replicas="\n        ".join(servers))
        )
        command = [tool("nginx"), "-p", self.scratch.name, "-e", "stderr", "-c", str(config)]
        self.nginx = self._run("nginx", command, int(self.address.rsplit(":", 1)[1]))
        return self

    def _run(self, name, command, port, **environment):
        process = Process(name, command, **environment)
        process.port = port
        self.processes.append(process)
        self.wait(process)
        return process

    def wait(self, process):
        """Waits until a process listens."""
        if not self._listens(process):
            self.__exit__()
            raise SystemExit(f"{process.name} did not start listening: {' '.join(process.command)}")

    @staticmethod
    def _listens(process):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and process.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", process.port), 1).close()
                return True
            except OSError:
                time.sleep(0.02)
        return False

    def restart(self, process):
        """Starts a process again, as often as it takes until it listens: a replica exits if it cannot reach Redis."""
        for _ in range(20):
            process.start()
            if self._listens(process):
                return
            process.kill()
            time.sleep(0.5)
        raise RuntimeError(f"{process.name} does not start again")

    def stop(self):
        """Terminates everything. Returns whether all replicas have exited with status 0."""
        self.nginx.stop()
        codes = [replica.stop() for replica in self.replicas]
        return not any(codes)

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stop()
        self.scratch.cleanup()


def free_port():
    """Returns a free port, below those that systems assign to connections, so nothing takes it before the program listens."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def tool(name):
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if not found:
        raise SystemExit(f"{name} is not installed (on Debian: apt-get install {name})")
    return found


def build():
    """Builds the package of this folder. Returns its executable."""
    command = ["cargo", "build", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=Path(__file__).resolve().parent, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        raise SystemExit(built.returncode)
    artifacts = (json.loads(line) for line in built.stdout.splitlines())
    return [artifact["executable"] for artifact in artifacts if artifact.get("executable")][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", default="127.0.0.1:8080", metavar="ADDRESS")
    # The options of a program follow it.
    parser.add_argument("program", nargs="*")
    arguments, more = parser.parse_known_args()
    program = [*arguments.program, *more] or [build()]
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Cluster(program, arguments.http) as cluster:
        print(f"the cluster listens on {cluster.url}", file=sys.stderr, flush=True)
        while not ended.wait(0.1):
            pass
        return 0 if cluster.stop() else 1


if __name__ == "__main__":
    sys.exit(main())
