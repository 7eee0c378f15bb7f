//! Parses the tables of `requirements.md`.

use mcp_runtime::Revision;

use super::lookup::exists;

/// The headers of the tables, each with the kind of its rows.
pub(super) const HEADERS: [(&str, Kind); 5] = [
    ("| id | revisions | page | what a server must (not) do | test |", Kind { is_must: true, is_tested: true }),
    ("| id | revisions | page | what a server must (not) do | why no test |", Kind { is_must: true, is_tested: false }),
    ("| id | revisions | page | what a server should (not) do | test |", Kind { is_must: false, is_tested: true }),
    (
        "| id | revisions | page | what a server should (not) do | why no test |",
        Kind { is_must: false, is_tested: false },
    ),
    (
        "| id | revisions | page | what a server may do, or a rule without a keyword | test |",
        Kind { is_must: false, is_tested: true },
    ),
];

/// The properties that all rows of a table share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    pub(super) is_must: bool,
    /// Whether the last column names tests instead of the reason why there are none.
    pub(super) is_tested: bool,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) revisions: Vec<Revision>,
    pub(super) pages: Vec<String>,
    pub(super) duty: String,
    pub(super) kind: Kind,
}

/// Parses every row, and describes each invalid one.
pub(super) fn rows(text: &str) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut problems, mut kind) = (Vec::new(), Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| line.starts_with('|')) {
        if let Some((_, found)) = HEADERS.iter().find(|(header, _)| *header == line) {
            kind = Some(*found);
        } else if !line.bytes().all(|byte| b"|- ".contains(&byte)) {
            match parse_row(line, kind) {
                Ok(row) => rows.push(row),
                Err(problem) => problems.push(format!("line {number}: {problem}")),
            }
        }
    }
    (rows, problems)
}

fn parse_row(line: &str, kind: Option<Kind>) -> Result<Row, String> {
    let kind = kind.ok_or("the row precedes the header of its table")?;
    let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")).ok_or("the row is not closed")?;
    let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
    let [id, revisions, pages, duty, last] = cells[..] else {
        return Err(format!("expected 5 cells, found {}", cells.len()));
    };
    if duty.is_empty() || last.is_empty() {
        return Err("a cell is empty".to_owned());
    }
    let revisions = parse_revisions(revisions)?;
    if kind.is_tested {
        check_tests(last, &revisions)?;
    }
    let pages = pages.split(", ").map(parse_page).collect::<Result<_, _>>()?;
    Ok(Row { id: parse_id(id)?, revisions, pages, duty: duty.to_owned(), kind })
}

/// Parses an id such as `basic-3`.
fn parse_id(id: &str) -> Result<String, String> {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_id = id.rsplit_once('-').is_some_and(|(topic, number)| {
        topic.split('-').all(is_word) && number.parse::<u16>().is_ok_and(|it| it.to_string() == number)
    });
    if is_id { Ok(id.to_owned()) } else { Err(format!("invalid id `{id}`, expected one such as basic-3")) }
}

pub(super) fn parse_revision(name: &str) -> Result<Revision, String> {
    let found = Revision::ALL.into_iter().find(|revision| revision.as_str() == name);
    found.ok_or_else(|| format!("unknown revision `{name}`"))
}

/// Parses one revision, or a range such as `2025-03-26 to 2025-11-25`.
fn parse_revisions(cell: &str) -> Result<Vec<Revision>, String> {
    let (first, last) = cell.split_once(" to ").unwrap_or((cell, cell));
    let (first, last) = (parse_revision(first)?, parse_revision(last)?);
    let revisions: Vec<_> = Revision::ALL.into_iter().filter(|revision| (first..=last).contains(revision)).collect();
    if revisions.is_empty() { Err(format!("empty range of revisions `{cell}`")) } else { Ok(revisions) }
}

/// Parses the name of a page: its path below that of the revision, without an extension.
fn parse_page(page: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let mut names = page.split('/');
    let is_page = match names.next() {
        Some("basic" | "server" | "client" | "extensions") => page.contains('/') && names.all(is_name),
        _ => ["index", "deprecated", "schema", "security"].contains(&page),
    };
    if is_page {
        Ok(page.to_owned())
    } else {
        Err(format!("invalid page `{page}`, expected one such as basic/transports"))
    }
}

fn check_tests(cell: &str, revisions: &[Revision]) -> Result<(), String> {
    for name in cell.split(", ") {
        let test = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        let test = test.ok_or_else(|| format!("invalid test {name}, expected names in `backticks`"))?;
        if !exists(test, revisions) {
            return Err(format!("test `{test}` not found"));
        }
    }
    Ok(())
}
