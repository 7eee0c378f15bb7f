//! Compares pairs of schemas and checks which changes break callers.

mod composition;
mod descriptions;
mod values;

use mcp_runtime_lock::{Difference, Role, compare};
use serde_json::{Value, json};

/// Describes the differences between two schemas. `!` marks those that break callers.
fn differences(role: Role, old: &Value, new: &Value) -> Vec<String> {
    let mut differences: Vec<String> = compare(old, new, role)
        .into_iter()
        .map(|Difference { path, effect, text }| {
            let subject = if path.is_empty() { String::new() } else { format!("{path}: ") };
            format!("{}{subject}{text}", if effect.breaks(role) { "!" } else { "" })
        })
        .collect();
    differences.sort();
    differences
}

fn one(schema: Value) -> Value {
    json!({"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": false})
}
