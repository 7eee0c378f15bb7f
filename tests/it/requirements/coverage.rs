//! Checks `specification/coverage.tsv`, which assigns each normative sentence to its rows, or to another party that it
//! binds.

use std::collections::BTreeSet;

use mcp_runtime::Revision;

use super::table::{Row, parse_revision};

/// The pages whose sentences `specification/report` does not extract.
const UNEXTRACTED: [&str; 2] = ["extensions/apps", "extensions/overview"];

const HEADER: &str = "digest\tstrength\trevisions\tpages\tbinds";

/// The assignments of sentences without rows.
const OTHERS: [&str; 7] =
    ["client", "host", "identity-provider", "intermediary", "permission", "specification-author", "user"];

/// Describes every contradiction between the rows and the sentences.
pub(super) fn problems(rows: &[Row], coverage: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut digests, mut covered) = (BTreeSet::new(), BTreeSet::new());
    let mut lines = (1..).zip(coverage.lines());
    if lines.next().is_none_or(|(_, header)| header != HEADER) {
        problems.push("the header of the coverage is missing".to_owned());
    }
    for (number, line) in lines {
        let found = check_sentence(rows, line, &mut digests, &mut covered);
        problems.extend(found.err().map(|problem| format!("coverage, line {number}: {problem}")));
    }
    let is_extracted = |row: &&Row| !row.pages.iter().all(|page| UNEXTRACTED.contains(&page.as_str()));
    let uncovered = rows.iter().filter(is_extracted).filter(|row| !covered.contains(row.id.as_str()));
    problems.extend(uncovered.map(|row| format!("no sentence requires the row `{}`", row.id)));
    problems
}

/// Checks that the rows of a sentence exist, are as strong as the sentence, and apply to all its revisions.
fn check_sentence<'a>(
    rows: &[Row],
    line: &'a str,
    digests: &mut BTreeSet<&'a str>,
    covered: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [digest, strength @ ("MUST" | "SHOULD" | "MAY" | "RULE"), revisions, _, binds] = cells[..] else {
        return Err("expected a digest, a strength, revisions, pages, and rows or parties".to_owned());
    };
    if digest.len() != 10 || !digests.insert(digest) {
        return Err(format!("invalid or duplicate digest `{digest}`"));
    }
    let mut required = Vec::new();
    for name in binds.split(',') {
        if let Some(row) = rows.iter().find(|row| row.id == name) {
            required.push(row);
            covered.insert(name);
        } else if !OTHERS.contains(&name) {
            return Err(format!("unknown row `{name}`"));
        }
    }
    if required.len() < binds.split(',').count() {
        return Ok(());
    }
    if strength == "MUST" && !required.iter().any(|row| row.kind.is_must) {
        return Err(format!("a MUST has only recommendations: {binds}"));
    }
    for revision in revisions.split(' ').map(parse_revision) {
        let revision: Revision = revision?;
        if !required.iter().any(|row| row.revisions.contains(&revision)) {
            return Err(format!("no row of {binds} applies to {revision}"));
        }
    }
    Ok(())
}

#[test]
fn contradictions_are_found() {
    let table = concat!(
        "| id | revisions | page | what a server must (not) do | test |\n",
        "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |\n",
        "| id | revisions | page | what a server should (not) do | why no test |\n",
        "| a-2 | 2025-03-26 to 2025-06-18 | basic/transports | Be kind. | Kindness is not testable. |\n",
    );
    let rest = "bbbbbbbbbb\tSHOULD\t2025-03-26\tindex\ta-1,a-2";
    for (line, expected) in [
        ("aaaaaaaaaa\tMUST\t2025-03-26\tindex\ta-1", &[][..]),
        ("aaaaaaaaaa\tMUST\t2025-03-26 2025-06-18\tindex\ta-1,a-2", &[]),
        ("aaaaaaaaaa\tMUST\t2025-03-26 2026-07-28\tindex\tclient", &[]),
        ("aaaaaaaaaa\tMUST\t2025-03-26 2026-07-28\tindex\ta-1,client", &[]),
        ("aaaaaaaaaa\tMAY\t2025-03-26\tindex\ta-2", &[]),
        (
            "aaaaaaaaaa\tMUST\t2025-03-26\ta-1",
            &["coverage, line 2: expected a digest, a strength, revisions, pages, and rows or parties"],
        ),
        (
            "aaaaaaaaaa\tCOULD\t2025-03-26\tindex\ta-1",
            &["coverage, line 2: expected a digest, a strength, revisions, pages, and rows or parties"],
        ),
        (
            "bbbbbbbbbb\tMUST\t2025-03-26\tindex\ta-1",
            &["coverage, line 3: invalid or duplicate digest `bbbbbbbbbb`", "no sentence requires the row `a-2`"],
        ),
        ("aaaaaaaaaa\tMUST\t2025-03-26\tindex\ta-3", &["coverage, line 2: unknown row `a-3`"]),
        ("aaaaaaaaaa\tMUST\t2025-03-26\tindex\tserver", &["coverage, line 2: unknown row `server`"]),
        ("aaaaaaaaaa\tMUST\t2025-03-26\tindex\ta-2", &["coverage, line 2: a MUST has only recommendations: a-2"]),
        ("aaaaaaaaaa\tSHOULD\t2025-06-18\tindex\ta-1", &["coverage, line 2: no row of a-1 applies to 2025-06-18"]),
        ("aaaaaaaaaa\tSHOULD\t2025\tindex\ta-1", &["coverage, line 2: unknown revision `2025`"]),
    ] {
        let (rows, invalid) = super::table::rows(table);
        assert_eq!(invalid, [""; 0]);
        assert_eq!(problems(&rows, &format!("{HEADER}\n{line}\n{rest}\n")), expected, "{line}");
    }
    let (rows, _) = super::table::rows(table);
    let empty = [
        "the header of the coverage is missing",
        "no sentence requires the row `a-1`",
        "no sentence requires the row `a-2`",
    ];
    assert_eq!(problems(&rows, ""), empty);
}
