//! The official [JSON Schema Test Suite](https://github.com/json-schema-org/JSON-Schema-Test-Suite), draft 2020-12.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::Checker;

const FORMAT: &str = "the format is an annotation";
const ID: &str = "references resolve within the whole schema, and only its root may have an `$id`";
const REGEX: &str = "regular expressions have the syntax of `regex-lite`, without Unicode classes";
const REMOTE: &str = "other documents are never loaded";
const UNEVALUATED: &str = "`unevaluatedItems` and `unevaluatedProperties` are rejected";

/// The problem of a test whose invalid value is accepted.
const WRONGLY_ACCEPTED: &str = "wrongly accepted";

/// Deviations from the suite: file, group, number of failing tests, and reason. An empty group covers the whole file.
///
/// The numbers are exact: a deviation that no longer fails must be removed.
const DEVIATIONS: &[(&str, &str, usize, &str)] = &[
    ("anchor", "Location-independent identifier with absolute URI", 2, ID),
    ("anchor", "Location-independent identifier with base URI change in subschema", 2, ID),
    ("anchor", "same $anchor with different base uri", 2, ID),
    ("defs", "", 2, REMOTE),
    ("dynamicRef", "", 44, "`$dynamicRef` is not supported"),
    ("format", "", 9, "formats are enforced, as the specification allows"),
    ("not", "collect annotations inside a 'not', even if collection is disabled", 2, UNEVALUATED),
    ("optional/cross-draft", "", 1, REMOTE),
    ("optional/dependencies-compatibility", "", 36, "`dependencies` is rejected"),
    ("optional/dynamicRef", "", 2, "`$dynamicRef` is not supported"),
    ("optional/ecmascript-regex", "", 26, REGEX),
    ("optional/format-assertion", "", 4, "other values of `$schema` are rejected"),
    ("optional/format/duration", "", 25, FORMAT),
    ("optional/format/ecmascript-regex", "", 6, FORMAT),
    ("optional/format/email", "", 3, "quoted local parts are rejected"),
    ("optional/format/hostname", "", 23, "Punycode is not decoded"),
    ("optional/format/idn-email", "", 2, FORMAT),
    ("optional/format/idn-hostname", "", 54, FORMAT),
    ("optional/format/iri", "", 6, FORMAT),
    ("optional/format/iri-reference", "", 2, FORMAT),
    ("optional/format/json-pointer", "", 12, FORMAT),
    ("optional/format/regex", "", 1, FORMAT),
    ("optional/format/relative-json-pointer", "", 12, FORMAT),
    ("optional/format/uri", "", 4, "the authority of a URI is not parsed"),
    ("optional/format/uri-reference", "", 11, FORMAT),
    ("optional/format/uri-template", "", 13, FORMAT),
    ("optional/id", "", 3, ID),
    ("optional/unknownKeyword", "", 3, ID),
    ("pattern", "pattern with Unicode property escape requires unicode mode", 3, REGEX),
    ("patternProperties", "patternProperties with Unicode property escape", 2, REGEX),
    ("ref", "remote ref, containing refs itself", 2, REMOTE),
    ("ref", "ref creates new scope when adjacent to keywords", 1, UNEVALUATED),
    ("ref", "Recursive references between schemas", 2, ID),
    ("ref", "refs with relative uris and defs", 3, ID),
    ("ref", "relative refs with absolute uris and defs", 3, ID),
    ("ref", "$id must be resolved against nearest parent, not just immediate parent", 2, ID),
    ("ref", "order of evaluation: $id and $ref", 2, ID),
    ("ref", "order of evaluation: $id and $anchor and $ref", 2, ID),
    ("ref", "order of evaluation: $id and $ref on nested schema", 2, ID),
    ("ref", "simple URN base URI with $ref via the URN", 2, ID),
    ("ref", "URN base URI with URN and JSON pointer ref", 2, ID),
    ("ref", "URN base URI with URN and anchor ref", 2, ID),
    ("ref", "URN ref with nested pointer ref", 2, ID),
    ("ref", "ref to if", 2, ID),
    ("ref", "ref to then", 2, ID),
    ("ref", "ref to else", 2, ID),
    ("ref", "ref with absolute-path-reference", 2, ID),
    ("refRemote", "", 31, REMOTE),
    ("unevaluatedItems", "", 69, UNEVALUATED),
    ("unevaluatedProperties", "", 127, UNEVALUATED),
    ("vocabulary", "", 5, "other values of `$schema` are rejected"),
];

#[test]
fn the_official_suite_passes_except_for_listed_deviations() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json-schema-test-suite/draft2020-12");
    let mut files = json_files(&directory);
    files.extend(json_files(&directory.join("optional")));
    files.extend(json_files(&directory.join("optional/format")));
    assert!(files.len() > 40, "the suite is missing");
    let mut counts = vec![0; DEVIATIONS.len()];
    let mut failures = Vec::new();
    for path in files {
        let file = path.strip_prefix(&directory).unwrap().with_extension("").display().to_string();
        let groups: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (group, test, problem) in groups.as_array().unwrap().iter().flat_map(failing_tests) {
            // A value of the required part may be refused, but nothing is accepted by mistake.
            assert!(file.starts_with("optional") || problem != WRONGLY_ACCEPTED, "{file}, {group}, {test}");
            let covers = |(name, of, ..): &(&str, &str, usize, &str)| *name == file && (of.is_empty() || *of == group);
            match DEVIATIONS.iter().position(covers) {
                Some(index) => counts[index] += 1,
                None => failures.push(format!("{file}, {group}, {test}: {problem}")),
            }
        }
    }
    assert!(failures.is_empty(), "unexpected failures:\n{}", failures.join("\n"));
    let wrong: Vec<_> = counts.into_iter().zip(DEVIATIONS).filter(|(count, deviation)| *count != deviation.2).collect();
    assert!(wrong.is_empty(), "other numbers of failing tests than listed: {wrong:#?}");
}

fn json_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    files
}

/// Returns the tests of a group that fail: group, test, and problem.
fn failing_tests(group: &Value) -> Vec<(String, String, String)> {
    let name = |value: &Value| value["description"].as_str().unwrap().to_owned();
    let checker = Checker::compile(&group["schema"]);
    let failure = |test: &Value| {
        let problem = match &checker {
            Err(error) => error.to_string(),
            Ok(checker) => {
                let accepted = checker.accepts(&test["data"].to_string());
                if test["valid"] == accepted {
                    return None;
                }
                (if accepted { WRONGLY_ACCEPTED } else { "wrongly rejected" }).to_owned()
            }
        };
        Some((name(group), name(test), problem))
    };
    group["tests"].as_array().unwrap().iter().filter_map(failure).collect()
}
