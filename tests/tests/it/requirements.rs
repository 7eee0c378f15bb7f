//! `requirements.md`, the table of what the specification demands of a server: every demand names a test that exists.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use mcp_runtime::Revision;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The header of the table whose last column names tests.
const SHOWN: &str = "| id | revisions | page | what a server must (not) do | test |";

/// The header of the table whose last column says why there is no test.
const LEFT: &str = "| id | revisions | page | what a server must (not) do | why no test |";

/// As many rows as each revision has, so that none vanishes unnoticed. A row for several revisions counts for each.
const FLOORS: &[(Revision, usize)] = &[
    (Revision::V2024_11_05, 38),
    (Revision::V2025_03_26, 53),
    (Revision::V2025_06_18, 56),
    (Revision::V2025_11_25, 97),
    (Revision::V2026_07_28, 116),
];

#[derive(Debug)]
struct Row {
    id: String,
    revisions: Vec<Revision>,
    pages: Vec<String>,
    duty: String,
    /// The tests, or the reason why there is none.
    last: String,
    is_shown: bool,
}

#[test]
fn every_requirement_has_its_test() {
    let text = fs::read_to_string(Path::new(FOLDER).join("requirements.md")).unwrap();
    let problems = problems(&text, FLOORS);
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Says everything that is wrong with the tables of a text.
fn problems(text: &str, floors: &[(Revision, usize)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut rows = Vec::new();
    let mut is_shown = None;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| line.starts_with('|')) {
        match line {
            SHOWN => is_shown = Some(true),
            LEFT => is_shown = Some(false),
            _ if line.bytes().all(|byte| b"|- ".contains(&byte)) => {}
            _ => match read(line, is_shown).and_then(|row| check(&row).map(|()| row)) {
                Ok(row) => rows.push(row),
                Err(why) => problems.push(format!("line {number}: {why}")),
            },
        }
    }
    let mut known = BTreeSet::new();
    let mut ids = BTreeSet::new();
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
        let count = rows.iter().filter(|row| row.is_shown && row.revisions.contains(revision)).count();
        if count < *floor {
            problems.push(format!("{revision} has {count} rows with tests, and had {floor}"));
        }
    }
    problems
}

/// Reads a row, without asking whether its tests exist.
fn read(line: &str, is_shown: Option<bool>) -> Result<Row, String> {
    let is_shown = is_shown.ok_or("a row stands before the header of a table")?;
    let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")).ok_or("a row has no end")?;
    let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
    let [id, revisions, pages, duty, last] = cells[..] else {
        return Err(format!("a row has 5 cells, found {}", cells.len()));
    };
    if duty.is_empty() || last.is_empty() {
        return Err("a cell is empty".to_owned());
    }
    Ok(Row {
        id: read_id(id)?,
        revisions: read_revisions(revisions)?,
        pages: pages.split(", ").map(read_page).collect::<Result<_, _>>()?,
        duty: duty.to_owned(),
        last: last.to_owned(),
        is_shown,
    })
}

/// Reads the id of a row, such as `basic-3`.
fn read_id(id: &str) -> Result<String, String> {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_id = id.rsplit_once('-').is_some_and(|(topic, number)| {
        topic.split('-').all(is_word) && number.parse::<u16>().is_ok_and(|it| it.to_string() == number)
    });
    if is_id { Ok(id.to_owned()) } else { Err(format!("invalid id `{id}`, expected one such as basic-3")) }
}

/// Reads one revision, or all from one `to` another.
fn read_revisions(cell: &str) -> Result<Vec<Revision>, String> {
    let one = |name: &str| {
        let found = Revision::ALL.into_iter().find(|revision| revision.as_str() == name);
        found.ok_or_else(|| format!("unknown revision `{name}`"))
    };
    let (first, last) = cell.split_once(" to ").unwrap_or((cell, cell));
    let (first, last) = (one(first)?, one(last)?);
    let revisions: Vec<_> = Revision::ALL.into_iter().filter(|revision| (first..=last).contains(revision)).collect();
    if revisions.is_empty() { Err(format!("`{cell}` is no range of revisions")) } else { Ok(revisions) }
}

/// Reads the name of a page: its path below that of the revision, without an ending.
fn read_page(page: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let mut names = page.split('/');
    match names.next().is_some_and(|first| ["basic", "server", "client"].contains(&first)) {
        true if page.contains('/') && names.all(is_name) => Ok(page.to_owned()),
        _ => Err(format!("`{page}` is no page, expected one such as basic/transports")),
    }
}

/// Looks the tests of a row up, if it has any.
fn check(row: &Row) -> Result<(), String> {
    if !row.is_shown {
        return Ok(());
    }
    for name in row.last.split(", ") {
        let test = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        let test = test.ok_or_else(|| format!("{name} is no test, expected names in `backticks`"))?;
        if !exists(test, &row.revisions) {
            return Err(format!("there is no test `{test}`"));
        }
    }
    Ok(())
}

/// Whether there is a test of this name. A golden case is one in every revision that it is said to be about.
fn exists(test: &str, revisions: &[Revision]) -> bool {
    let folder = Path::new(FOLDER);
    match test.split_once(": ") {
        None => has_function(&folder.join("tests/it"), test),
        Some(("golden", case)) => revisions.iter().all(|revision| {
            let file = PathBuf::from(revision.as_str()).join(format!("{case}.json"));
            ["golden", "golden/conversations"].iter().any(|golden| folder.join(golden).join(&file).is_file())
        }),
        Some(("ui", case)) => folder.join("ui").join(format!("{case}.stderr")).is_file(),
        Some((name @ ("mcp-runtime" | "mcp-macros" | "mcp-uri-template"), test)) => {
            has_function(&folder.join("..").join(name).join("src"), test)
        }
        Some(_) => false,
    }
}

/// Whether the modules below a folder have a test at this path: modules that are files, then modules within the last one.
fn has_function(folder: &Path, path: &str) -> bool {
    let Some((modules, name)) = path.rsplit_once("::") else { return false };
    let modules: Vec<&str> = modules.split("::").collect();
    (1..=modules.len()).any(|files| {
        let (files, inline) = modules.split_at(files);
        let module = folder.join(files.join("/"));
        let sources = [module.with_extension("rs"), module.join("mod.rs")];
        sources.iter().filter_map(|file| fs::read_to_string(file).ok()).any(|source| {
            inline.iter().all(|module| source.contains(&format!("mod {module} {{"))) && is_test(&source, name)
        })
    })
}

/// Whether a source has a function of this name beneath an attribute that makes it a test.
fn is_test(source: &str, name: &str) -> bool {
    let mut is_marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_marked = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            let declared = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|it| it.strip_prefix(name));
            if is_marked && declared.is_some_and(|rest| rest.starts_with('(')) {
                return true;
            }
            is_marked = false;
        }
    }
    false
}

/// What is said of a table with one row, or with what stands in its place.
#[test]
fn tables_are_checked() {
    let good = "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |";
    for (rows, expected) in [
        (good, &[][..]),
        (
            "| a-1 | 2024-11-05 to 2026-07-28 | basic/messages, basic/index | Answer. | `golden: ping`, `golden: batch` |",
            &[],
        ),
        ("| a-1 | 2025-11-25 | server/tools | Ask. | `golden: declined`, `ui: args/fail/header` |", &[]),
        ("| a-1 | 2025-11-25 | server/tools | Ask. | `http::session::requests_are_checked` |", &[]),
        ("| a-1 | 2025-11-25 | server/tools | Ask. | `mcp-runtime: jsonrpc::write::tests::base64_is_padded` |", &[]),
        (
            "| a-1 | 2025-11-25 | server/tools | Ask. | `mcp-runtime: jsonrpc::raw::tests::kinds_are_determined_by_the_first_byte` |",
            &[],
        ),
        ("| a-1 | 2025-03-26 | basic/transports | Answer. |", &["line 3: a row has 5 cells, found 4"]),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` | more |",
            &["line 3: a row has 5 cells, found 6"],
        ),
        ("| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping`", &["line 3: a row has no end"]),
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
            &["line 3: `2025-06-18 to 2025-03-26` is no range of revisions"],
        ),
        (
            "| a-1 | 2025-03-26 | Transports | Answer. | `golden: ping` |",
            &["line 3: `Transports` is no page, expected one such as basic/transports"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/ | Answer. | `golden: ping` |",
            &["line 3: `basic/` is no page, expected one such as basic/transports"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | golden: ping |",
            &["line 3: golden: ping is no test, expected names in `backticks`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: pong` |",
            &["line 3: there is no test `golden: pong`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `other: ping` |",
            &["line 3: there is no test `other: ping`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping`, `http::session::nothing` |",
            &["line 3: there is no test `http::session::nothing`"],
        ),
        // A function that is no test, a test of another module, a module without a function.
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `http::session::ping` |",
            &["line 3: there is no test `http::session::ping`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `http::guard::ids_cannot_be_guessed` |",
            &["line 3: there is no test `http::guard::ids_cannot_be_guessed`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `http::session` |",
            &["line 3: there is no test `http::session`"],
        ),
        (
            "| a-1 | 2025-03-26 | basic/transports | Answer. | `golden: ping` |\n| a-2 | 2025-03-26 to 2025-06-18 | basic/transports | Answer. | `golden: batch` |",
            &["two rows for 2025-03-26, basic/transports: Answer."],
        ),
    ] {
        let text = format!("{SHOWN}\n| --- | --- | --- | --- | --- |\n{rows}\n");
        assert_eq!(problems(&text, &[]), expected, "{rows}");
    }
    let left =
        format!("{SHOWN}\n{good}\n\n{LEFT}\n| a-2 | 2025-03-26 | server/tools | Be kind. | Nobody can tell. |\n");
    assert_eq!(problems(&left, &[(Revision::V2025_03_26, 1)]), [""; 0]);
    let few = problems(&left, &[(Revision::V2025_03_26, 2), (Revision::V2025_06_18, 1)]);
    assert_eq!(few, ["2025-03-26 has 1 rows with tests, and had 2", "2025-06-18 has 0 rows with tests, and had 1"]);
    let twice = format!("{left}| a-3 | 2025-03-26 | basic/transports | Answer. | There is one above. |\n");
    assert_eq!(problems(&twice, &[]), ["two rows for 2025-03-26, basic/transports: Answer."]);
    assert_eq!(problems(good, &[]), ["line 1: a row stands before the header of a table"]);
}

#[test]
fn tests_are_told_from_other_functions() {
    for (source, expected) in [
        ("#[test]\nfn it_works() {", true),
        ("    #[tokio::test(start_paused = true)]\n    // Why.\n    #[ignore]\n    async fn it_works() {", true),
        ("#[test]\nfn it_works(\n    number in 0..9,\n) {", true),
        ("fn it_works() {", false),
        ("// #[test]\nfn it_works() {", false),
        ("#[test]\n// fn it_works() {}\nfn other() {}", false),
        ("#[test]\nfn other() {}\n\nfn it_works() {}", false),
        ("#[test]\nfn it_works_better() {", false),
        ("#[tokio::main]\nasync fn it_works() {", false),
    ] {
        assert_eq!(is_test(source, "it_works"), expected, "{source}");
    }
}
