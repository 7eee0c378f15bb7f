"""Programs from Debian packages."""

import os
import shutil
import subprocess


def program(name: str, package: str) -> str:
    """Returns the path of a program. Installs its package if it is missing."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    found = shutil.which(name, path=path)
    if found:
        return found
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SystemExit(f"{name} is not installed (on Debian: {' '.join(install)})")
    for command in (["apt-get", "update", "--quiet"], install):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"installed {package}", flush=True)
    return shutil.which(name, path=path) or f"/usr/bin/{name}"
