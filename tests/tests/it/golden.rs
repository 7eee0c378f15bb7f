//! Every method in every revision: the answers as files, so that a change in one is seen and read.
//!
//! `UPDATE_GOLDEN=1 cargo test -p mcp-tests --test it -- golden` writes the files anew. Every message is validated against the
//! revision's official schema as well, where that can be found.

use std::{collections::BTreeSet, fs, path::Path};

use mcp_runtime::{Revision, TestClient};
use mcp_tests::{schemas::Official, server};
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");

#[tokio::test]
async fn answers_are_as_recorded() {
    let cases: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(format!("{FOLDER}/requests.json")).unwrap()).unwrap();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut problems = Vec::new();
    for revision in Revision::ALL {
        let mut official = Official::load(revision);
        // What is asked in the words of a handshake is answered in them, also by a server that speaks without one.
        let mut handshake = Official::load(revision.min(Revision::V2025_11_25));
        let folder = Path::new(FOLDER).join(revision.as_str());
        let mut known = BTreeSet::new();
        for case in &cases {
            let name = case["case"].as_str().unwrap();
            assert!(known.insert(format!("{name}.json")), "two cases are called {name}");
            let lines = play(case, revision).await;
            for line in &lines {
                let official = if case["handshake"] == true { &mut handshake } else { &mut official };
                let found = official.as_mut().map(|official| official.problems(line, case["method"].as_str()));
                problems.extend(found.into_iter().flatten().map(|problem| format!("{revision}/{name}: {problem}")));
            }
            let answers = format!("{:#}\n", Value::Array(lines));
            let file = folder.join(format!("{name}.json"));
            if update {
                fs::create_dir_all(&folder).unwrap();
                fs::write(file, answers).unwrap();
            } else if fs::read_to_string(&file).unwrap_or_default() != answers {
                problems.push(format!("{revision}/{name}: the answer is not the recorded one, it is now\n{answers}"));
            }
        }
        for file in fs::read_dir(&folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if !known.contains(&name) {
                problems.push(format!("{revision}/{name} belongs to no case"));
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Every schema is one of JSON Schema 2020-12, and every structured result keeps to the schema of its tool.
#[tokio::test]
async fn structured_results_fit_their_schemas() {
    let called = [("person", json!({})), ("people", json!({})), ("maybe_person", json!({"found": true}))];
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        let tools = client.tools().await.unwrap();
        for schema in tools.iter().flat_map(|tool| [tool.get("inputSchema"), tool.get("outputSchema")]).flatten() {
            assert!(schema.is_object() && jsonschema::draft202012::meta::is_valid(schema), "{revision}: {schema}");
        }
        for (name, arguments) in &called {
            let schema = tools.iter().find(|tool| tool["name"] == *name).unwrap().get("outputSchema");
            let result = client.call(name, arguments).await.unwrap();
            let fits = schema.map(|schema| jsonschema::is_valid(schema, result.structured().unwrap_or(&Value::Null)));
            assert_eq!(fits, (revision >= Revision::V2025_06_18).then_some(true), "{revision} {name}: {result:?}");
        }
    }
}

/// Plays one case to a new server: either a method with parameters, or lines as they are.
async fn play(case: &Value, revision: Revision) -> Vec<Value> {
    let mut client = match case["silent"] == true {
        true => TestClient::uninitialized(server(), revision),
        false => server().test_client(revision),
    };
    if let Some(method) = case["method"].as_str() {
        client.send_request(method, case["params"].clone());
        return client.settle().await;
    }
    let mut lines = Vec::new();
    for line in case["lines"].as_array().unwrap() {
        let line = line.as_str().unwrap().replace("REVISION", revision.as_str());
        lines.append(&mut client.send_raw(line.as_bytes()));
    }
    lines.append(&mut client.settle().await);
    lines
}
