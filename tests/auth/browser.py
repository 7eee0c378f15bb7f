"""The browser of a user of `cargo mcp login`."""

import os
import sys
from pathlib import Path

# The page that the program shows is its own, so the redirection is passed on to it.
SCRIPT = """#!{python}
import sys, urllib.request
redirected = urllib.request.urlopen({user!r}, sys.argv[1].encode(), timeout=60).read().decode()
urllib.request.urlopen(redirected, timeout=60).read()
"""


def install(directory: str, user: str) -> None:
    """Writes a program that opens pages as the user does, and names it in the variable `BROWSER`."""
    browser = Path(directory, "browser")
    browser.write_text(SCRIPT.format(python=sys.executable, user=user))
    browser.chmod(0o755)
    os.environ["BROWSER"] = str(browser)
