"""Extracts the normative sentences of the specification from a checkout of its repository."""

import hashlib
import re
import subprocess
from dataclasses import dataclass

KEYWORDS = re.compile(r"\b(MUST NOT|MUST|SHALL NOT|SHALL|REQUIRED|SHOULD NOT|SHOULD|NOT RECOMMENDED|RECOMMENDED)\b")

# Pages without requirements of their own. The schema page is generated from the schema, whose comments are read instead.
EXCLUDED = {"changelog", "schema"}

# Pages outside the folders of the revisions. `{}` is replaced by the revision.
ELSEWHERE = {
    "security": "docs/docs/{}/tutorials/security/security_best_practices.mdx",
    "schema": "schema/{}/schema.ts",
}

# Extensions: the revision from which they apply, and their documents in this repository or in one of their own.
EXTENSIONS = {
    "extensions/tasks": ("2026-07-28", "docs/seps/2663-tasks-extension.mdx", "specification/draft/tasks.md"),
    "extensions/skills": ("2026-07-28", "specification/stable/skills.mdx", "specification/stable/skills.md"),
    "extensions/client-credentials": ("2025-11-25", "specification/draft/oauth-client-credentials.mdx"),
    "extensions/enterprise-authorization": ("2025-11-25", "specification/draft/enterprise-managed-authorization.mdx"),
}


@dataclass(frozen=True)
class Sentence:
    """One sentence."""

    revision: str
    page: str
    text: str

    @property
    def strength(self):
        """`MUST` or `SHOULD`, whichever is stronger; without either, `MAY` for an option, and `RULE` for another sentence."""
        found = set(KEYWORDS.findall(self.text))
        strong = {"MUST", "MUST NOT", "SHALL", "SHALL NOT", "REQUIRED"}
        if found:
            return "MUST" if found & strong else "SHOULD"
        return "MAY" if re.search(r"\b(MAY|OPTIONAL)\b", self.text) else "RULE"

    @property
    def digest(self):
        """Identifies the sentence regardless of markup and white space."""
        return digest(self.text)


def plain(text):
    """Removes markup and normalizes white space."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\[[^\]]*\]", r"\1", text)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"[*_`]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def comments(code):
    """Returns the documentation comments of TypeScript code as text."""
    found = []
    for comment in re.findall(r"/\*\*(.*?)\*/", code, flags=re.S):
        lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment.splitlines()]
        kept = [line for line in lines if not line.startswith(("@", "{@includeCode"))]
        found.append(re.sub(r"\{@\w+ ([^|}]*)(\|[^}]*)?\}", r"\1", "\n".join(kept)))
    # A heading ends the paragraphs and lists of the comment before it.
    return "".join(f"\n\n# Comment\n\n{comment}\n\n# Code\n\n" for comment in found)


def blocks(page):
    """Yields each paragraph, list item and table row, together with the sentences that introduce its list."""
    page = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.S)
    page = re.sub(r"^(\s*)(```|~~~)(.*?)^\s*\2\s*$", lambda fence: comments(fence.group(3)), page, flags=re.S | re.M)
    page = re.sub(r"\{/\*.*?\*/\}", "", page, flags=re.S)
    # The introductions of the lists around the current block: the indentation of each (-1 for a paragraph), and its text.
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
                # A paragraph ends every list under which it is not indented.
                width = len(line) - len(line.lstrip())
                level = width - 1
                introductions = [entry for entry in introductions if width and entry[0] < level]
            lines.append(stripped)


def split(text):
    """Splits a block into sentences."""
    guarded = re.sub(r"\b(e\.g|i\.e|etc|vs|cf)\.", lambda match: match.group(0).replace(".", "\0"), text)
    parts = re.split(r"(?<=[.!?])[*_)\"”]*\s+(?=[A-Z`*\[“\"(])", guarded)
    return [part.replace("\0", ".") for part in parts]


def digest(text):
    """Identifies a sentence regardless of markup and white space."""
    return hashlib.sha256(plain(text).encode()).hexdigest()[:10]


def sentences_of(page, known=frozenset()):
    """Returns each normative sentence of a page once, and those that are known. A list introduced by a keyword makes each
    of its items normative.
    """
    found, repeated = [], set()
    for text, introductions in blocks(page):
        lead = plain(split(introductions[-1])[-1]) if introductions else ""
        for index, sentence in enumerate(map(plain, split(text))):
            if KEYWORDS.search(sentence) or digest(sentence) in known:
                found.append(sentence)
            elif index == 0 and KEYWORDS.search(lead):
                found.append(f"{lead} {sentence}")
                repeated.add(lead)
    # An introduction that an item repeats is omitted.
    return [sentence for sentence in dict.fromkeys(found) if sentence not in repeated]


def git(checkout, *arguments):
    """Runs git in a checkout, or in a bare repository."""
    return subprocess.run(["git", "-C", checkout, *arguments], check=True, capture_output=True, text=True).stdout


class Checkout:
    """The newest commit of a repository, which may be bare."""

    def __init__(self, folder):
        self.folder = folder
        self.paths = set(git(folder, "ls-tree", "-r", "--name-only", "HEAD").splitlines())

    def read(self, path):
        """Returns the contents of a file."""
        return git(self.folder, "show", f"HEAD:{path}")

    def revisions(self):
        """Returns the published revisions, oldest first."""
        found = (re.match(r"docs/specification/(\d{4}-\d\d-\d\d)/", path) for path in self.paths)
        return sorted({match.group(1) for match in found if match})

    def pages(self, revision):
        """Yields the name and the contents of each page of a revision that this repository contains."""
        folder = f"docs/specification/{revision}/"
        for path in sorted(self.paths):
            page = path.removeprefix(folder).removesuffix(".mdx")
            if path.startswith(folder) and path.endswith(".mdx") and page not in EXCLUDED:
                yield page, self.read(path)
        for page, path in ELSEWHERE.items():
            if path.format(revision) in self.paths:
                text = self.read(path.format(revision))
                yield page, comments(text) if path.endswith(".ts") else text
        for page, (first, *paths) in EXTENSIONS.items():
            for path in self.paths.intersection(paths) if revision >= first else []:
                yield page, self.read(path)


def extract(checkouts, revisions, known=frozenset()):
    """Returns the normative sentences of some revisions, and other ones whose digests are known."""
    return [
        Sentence(revision, page, sentence)
        for checkout in checkouts
        for revision in revisions
        for page, text in checkout.pages(revision)
        for sentence in sentences_of(text, known)
    ]
