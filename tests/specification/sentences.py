"""Extracts the normative sentences of the specification from a checkout of its repository."""

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEYWORDS = re.compile(r"\b(MUST NOT|MUST|SHALL NOT|SHALL|REQUIRED|SHOULD NOT|SHOULD|NOT RECOMMENDED|RECOMMENDED)\b")

# Pages that contain no requirements: histories, overviews, and the page that explains the keywords.
EXCLUDED = {"changelog", "index", "deprecated", "schema"}

# Pages outside the revision folders, and the revisions that they apply to.
EXTENSION_PAGES = {
    "docs/seps/2663-tasks-extension.mdx": ("2026-07-28", "extensions/tasks"),
}


@dataclass(frozen=True)
class Sentence:
    """One sentence that contains a keyword of RFC 2119."""

    revision: str
    page: str
    text: str

    @property
    def strength(self):
        """`MUST` or `SHOULD`, whichever is stronger."""
        found = set(KEYWORDS.findall(self.text))
        strong = {"MUST", "MUST NOT", "SHALL", "SHALL NOT", "REQUIRED"}
        return "MUST" if found & strong else "SHOULD"

    @property
    def digest(self):
        """Identifies the sentence regardless of markup and white space."""
        return hashlib.sha256(plain(self.text).encode()).hexdigest()[:10]


def plain(text):
    """Removes markup and normalizes white space."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\[[^\]]*\]", r"\1", text)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"[*_`]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def blocks(page):
    """Yields each paragraph, list item and table row, together with the sentences that introduce its list."""
    page = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.S)
    page = re.sub(r"^(\s*)(```|~~~).*?^\s*\2\s*$", "", page, flags=re.S | re.M)
    page = re.sub(r"\{/\*.*?\*/\}", "", page, flags=re.S)
    # What introduces the lists around the current block: the indentation of each introduction (-1 for a paragraph), and its text.
    introductions = []
    lines, level = [], -1

    def finish():
        nonlocal lines
        text, lines = " ".join(lines), []
        block = (text, [introduction for _, introduction in introductions])
        if text.endswith(":"):
            introductions.append((level, text))
        return block

    for line in [*page.splitlines(), ""]:
        stripped = line.strip().lstrip("> ")
        item = re.match(r"(\s*)(?:[-*]|\d+\.)\s+(.*)", line)
        starts_block = not stripped or item or stripped[0] in "|#"
        if lines and starts_block:
            yield finish()
        if item:
            level = len(item.group(1))
            introductions = [entry for entry in introductions if entry[0] < level]
            lines = [item.group(2)]
        elif stripped.startswith("#"):
            introductions, level = [], -1
        elif stripped.startswith("|"):
            if not re.fullmatch(r"[|:\s-]+", stripped):
                yield stripped.strip("|"), []
        elif stripped:
            if not lines:
                # A paragraph ends the lists that it is not indented under.
                width = len(line) - len(line.lstrip())
                level = width - 1
                introductions = [entry for entry in introductions if width and entry[0] < level]
            lines.append(stripped)


def split(text):
    """Splits a block into sentences."""
    guarded = re.sub(r"\b(e\.g|i\.e|etc|vs|cf)\.", lambda match: match.group(0).replace(".", "\0"), text)
    parts = re.split(r"(?<=[.!?])[*_)\"”]*\s+(?=[A-Z`*\[“\"(])", guarded)
    return [part.replace("\0", ".") for part in parts]


def sentences_of(page):
    """Yields each normative sentence of a page. A list introduced by a keyword makes each of its items normative."""
    seen = set()
    for text, introductions in blocks(page):
        lead = split(introductions[-1])[-1] if introductions else ""
        for index, sentence in enumerate(split(text)):
            if KEYWORDS.search(sentence):
                full = sentence
            elif index == 0 and KEYWORDS.search(lead):
                full = f"{lead} {sentence}"
            else:
                continue
            full = plain(full)
            if full.endswith(":") or full in seen:
                continue
            seen.add(full)
            yield full


def git(checkout, *arguments):
    """Runs git in a checkout, or in a bare repository."""
    return subprocess.run(["git", "-C", checkout, *arguments], check=True, capture_output=True, text=True).stdout


def extract(checkout, revisions, commit="HEAD"):
    """Returns the normative sentences of some revisions, page by page."""
    found = []
    for revision in revisions:
        folder = f"docs/specification/{revision}/"
        for path in git(checkout, "ls-tree", "-r", "--name-only", commit, folder).splitlines():
            page = path.removeprefix(folder).removesuffix(".mdx")
            if not path.endswith(".mdx") or page in EXCLUDED or page.startswith("architecture/"):
                continue
            text = git(checkout, "show", f"{commit}:{path}")
            found.extend(Sentence(revision, page, sentence) for sentence in sentences_of(text))
    for path, (revision, page) in EXTENSION_PAGES.items():
        if revision in revisions:
            text = git(checkout, "show", f"{commit}:{path}")
            found.extend(Sentence(revision, page, sentence) for sentence in sentences_of(text))
    return found
