//! The official [JSON Schema Test Suite](https://github.com/json-schema-org/JSON-Schema-Test-Suite), draft 2020-12.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::Checker;

const FORMAT: &str = "the format is an annotation";
const DYNAMIC: &str = "a `$dynamicRef` with several possible targets is rejected";
const REGEX: &str = "regular expressions have the syntax of `regex-lite`, without Unicode classes";
const REMOTE: &str = "other documents are never loaded";

/// The problem of a test whose invalid value is accepted.
const WRONGLY_ACCEPTED: &str = "wrongly accepted";

/// Deviations from the suite: file, group, number of failing tests, and reason. An empty group covers the whole file.
///
/// The numbers are exact: a deviation that no longer fails must be removed.
const DEVIATIONS: &[(&str, &str, usize, &str)] = &[
    ("defs", "", 2, REMOTE),
    ("dynamicRef", "strict-tree schema, guards against misspelled properties", 2, REMOTE),
    ("dynamicRef", "tests for implementation dynamic anchor and reference link", 3, REMOTE),
    ("dynamicRef", "$ref and $dynamicAnchor are independent of order - $defs first", 3, REMOTE),
    ("dynamicRef", "$ref and $dynamicAnchor are independent of order - $ref first", 3, REMOTE),
    ("dynamicRef", "$ref to $dynamicRef finds detached $dynamicAnchor", 2, REMOTE),
    ("dynamicRef", "", 17, DYNAMIC),
    ("format", "", 9, "formats are enforced, as the specification allows"),
    ("optional/cross-draft", "", 1, REMOTE),
    ("optional/dependencies-compatibility", "", 36, "`dependencies` is rejected"),
    ("optional/dynamicRef", "", 2, DYNAMIC),
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
    ("pattern", "pattern with Unicode property escape requires unicode mode", 3, REGEX),
    ("patternProperties", "patternProperties with Unicode property escape", 2, REGEX),
    ("ref", "remote ref, containing refs itself", 2, REMOTE),
    ("refRemote", "", 31, REMOTE),
    ("unevaluatedItems", "unevaluatedItems with $dynamicRef", 2, DYNAMIC),
    ("unevaluatedProperties", "unevaluatedProperties with $dynamicRef", 2, DYNAMIC),
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
