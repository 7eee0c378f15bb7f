//! `requirements.md` lists what the specification requires and recommends of a server: every named test exists, and
//! every normative sentence that binds a server has a row.

mod coverage;
mod lookup;
mod table;

use std::{collections::BTreeSet, fs, path::Path};

use mcp_runtime::Revision;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The minimum number of rows with tests in each revision, so that no row disappears unnoticed. A row counts for each
/// of its revisions.
const FLOORS: [(Revision, usize); Revision::ALL.len()] = [
    (Revision::V2024_11_05, 92),
    (Revision::V2025_03_26, 133),
    (Revision::V2025_06_18, 139),
    (Revision::V2025_11_25, 218),
    (Revision::V2026_07_28, 272),
];

/// The minimum number of sentences, so that none disappears unnoticed. `specification/report` compares them with the
/// specification.
const SENTENCES: usize = 1327;

#[test]
fn every_requirement_has_its_test() {
    let read = |file: &str| fs::read_to_string(Path::new(FOLDER).join(file)).unwrap();
    let (text, coverage) = (read("requirements.md"), read("specification/coverage.tsv"));
    let mut problems = problems(&text, &FLOORS);
    problems.extend(coverage::problems(&table::rows(&text).0, &coverage));
    let sentences = coverage.lines().skip(1).count();
    if sentences < SENTENCES {
        problems.push(format!("the coverage has {sentences} sentences, expected at least {SENTENCES}"));
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Describes everything that is wrong with the tables of a text.
fn problems(text: &str, floors: &[(Revision, usize)]) -> Vec<String> {
    let (rows, mut problems) = table::rows(text);
    let (mut known, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for row in &rows {
        if !ids.insert(&row.id) {
            problems.push(format!("duplicate id `{}`", row.id));
        }
        for (revision, page) in row.revisions.iter().flat_map(|it| row.pages.iter().map(move |page| (it, page))) {
            if !known.insert((revision, page, &row.duty)) {
                problems.push(format!("two rows for {revision}, {page}: {}", row.duty));
            }
        }
    }
    for (revision, floor) in floors {
        let count = rows.iter().filter(|row| row.kind.is_tested && row.revisions.contains(revision)).count();
        if count < *floor {
            problems.push(format!("{revision} has {count} rows with tests, expected at least {floor}"));
        }
    }
    problems
}

/// Checks tables whose rows are valid, invalid or malformed.
#[test]
fn tables_are_checked() {
    let [(tested, _), (untested, _), ..] = table::HEADERS;
    let good = "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |";
    for (rows, expected) in [
        (good, &[][..]),
        (
            "| a-1 | 2024-11-05 to 2026-07-28 | basic/messages, basic/index | Answer. | `golden: ping`, `golden: batch` |",
            &[],
        ),
        ("| a-1 | 2025-11-25 | server/tools | Ask. | `golden: declined`, `ui: args/fail/header` |", &[]),
        ("| a-1 | 2025-11-25 | server/tools | Ask. | `http::session::requests::requests_are_checked` |", &[]),
        ("| a-1 | 2025-11-25 | server/tools | Ask. | `mcp-runtime: jsonrpc::write::tests::base64_is_padded` |", &[]),
        (
            "| a-1 | 2025-11-25 | server/tools | Ask. | `mcp-schema: json::tests::kinds_are_determined_by_the_first_byte` |",
            &[],
        ),
        ("| a-1 | 2025-03-26 | basic/transports | Answer. |", &["line 3: expected 5 cells, found 4"]),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` | more |",
            &["line 3: expected 5 cells, found 6"],
        ),
        ("| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping`", &["line 3: the row is not closed"]),
        ("| a-1 | 2025-03-26 | basic/transports | Answer. |  |", &["line 3: a cell is empty"]),
        (
            "| basic | 2025-03-26 | basic/transports | Answer. | `golden: ping` |",
            &["line 3: invalid id `basic`, expected one such as basic-3"],
        ),
        (
            "| a-01 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |",
            &["line 3: invalid id `a-01`, expected one such as basic-3"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |\n| a-1 | 2025-06-18 | basic/transports | Answer. | `golden: ping` |",
            &["duplicate id `a-1`"],
        ),
        (
            "| a-1 | 2025-03-27 | basic/transports | Answer. | `golden: ping` |",
            &["line 3: unknown revision `2025-03-27`"],
        ),
        (
            "| a-1 | 2025-06-18 to 2025-03-26 | basic/transports | Answer. | `golden: ping` |",
            &["line 3: empty range of revisions `2025-06-18 to 2025-03-26`"],
        ),
        (
            "| a-1 | 2025-03-26 | Transports | Answer. | `golden: ping` |",
            &["line 3: invalid page `Transports`, expected one such as basic/transports"],
        ),
        ("| a-1 | 2025-03-26 | security | Answer. | `golden: ping` |", &[]),
        ("| a-1 | 2026-07-28 | extensions/tasks, schema | Answer. | `golden: ping` |", &[]),
        (
            "| a-1 | 2025-03-26 | transports | Answer. | `golden: ping` |",
            &["line 3: invalid page `transports`, expected one such as basic/transports"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/ | Answer. | `golden: ping` |",
            &["line 3: invalid page `basic/`, expected one such as basic/transports"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | golden: ping |",
            &["line 3: invalid test golden: ping, expected names in `backticks`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: pong` |",
            &["line 3: test `golden: pong` not found"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `other: ping` |",
            &["line 3: test `other: ping` not found"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping`, `http::session::nothing` |",
            &["line 3: test `http::session::nothing` not found"],
        ),
        // A function that is not a test, a test of another module, a module without a function.
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `http::session::ping` |",
            &["line 3: test `http::session::ping` not found"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `http::guard::ids_cannot_be_guessed` |",
            &["line 3: test `http::guard::ids_cannot_be_guessed` not found"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `http::session` |",
            &["line 3: test `http::session` not found"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |\n| a-2 | 2025-03-26 to 2025-06-18 | basic/transports | Answer. | `golden: batch` |",
            &["two rows for 2025-03-26, basic/transports: Answer."],
        ),
    ] {
        let text = format!("{tested}\n| --- | --- | --- | --- | --- |\n{rows}\n");
        assert_eq!(problems(&text, &[]), expected, "{rows}");
    }
    let left = format!(
        "{tested}\n{good}\n\n{untested}\n| a-2 | 2025-03-26 | server/tools | Be kind. | Kindness is not testable. |\n"
    );
    assert_eq!(problems(&left, &[(Revision::V2025_03_26, 1)]), [""; 0]);
    let few = problems(&left, &[(Revision::V2025_03_26, 2), (Revision::V2025_06_18, 1)]);
    assert_eq!(
        few,
        [
            "2025-03-26 has 1 rows with tests, expected at least 2",
            "2025-06-18 has 0 rows with tests, expected at least 1"
        ]
    );
    let twice = format!("{left}| a-3 | 2025-03-26 | basic/transports | Answer. | The same row. |\n");
    assert_eq!(problems(&twice, &[]), ["two rows for 2025-03-26, basic/transports: Answer."]);
    assert_eq!(problems(good, &[]), ["line 1: the row precedes the header of its table"]);
}
