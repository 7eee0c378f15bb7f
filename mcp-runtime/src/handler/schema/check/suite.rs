//! The official [JSON Schema Test Suite](https://github.com/json-schema-org/JSON-Schema-Test-Suite), draft 2020-12.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use super::Checker;

/// Deviations from the suite: file, group, test, and reason. An empty group or test stands for all of them.
///
/// A listed deviation that covers no failing test fails the test, so the list is exact.
const DEVIATIONS: &[(&str, &str, &str, &str)] = &[];

#[test]
fn official_suite() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json-schema-test-suite/draft2020-12");
    let mut files = json_files(&directory);
    files.extend(json_files(&directory.join("optional")));
    files.extend(json_files(&directory.join("optional/format")));
    assert!(files.len() > 40, "the suite is missing");
    let mut used = BTreeSet::new();
    let mut failures = Vec::new();
    for path in files {
        let file = path.strip_prefix(&directory).unwrap().with_extension("").display().to_string();
        let groups: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (group, test, problem) in groups.as_array().unwrap().iter().flat_map(failing_tests) {
            let covers = |&(of, in_group, case, _): &(&str, &str, &str, &str)| {
                of == file && (in_group.is_empty() || in_group == group) && (case.is_empty() || case == test)
            };
            match DEVIATIONS.iter().position(|deviation| covers(deviation)) {
                Some(index) => _ = used.insert(index),
                None => failures.push(format!("(\"{file}\", \"{group}\", \"{test}\", \"{problem}\")")),
            }
        }
    }
    assert!(failures.is_empty(), "unexpected failures:\n{}", failures.join("\n"));
    for (index, deviation) in DEVIATIONS.iter().enumerate() {
        assert!(used.contains(&index), "no test fails any more: {deviation:?}");
    }
}

fn json_files(directory: &Path) -> Vec<std::path::PathBuf> {
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
                if accepted { "accepted".to_owned() } else { "rejected".to_owned() }
            }
        };
        Some((name(group), name(test), problem))
    };
    group["tests"].as_array().unwrap().iter().filter_map(failure).collect()
}
