//! Structured content: tables in a terminal, otherwise JSON.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value};

use crate::output::{escape, outln, print_json};

/// Prints structured content: as tables in a terminal, and otherwise as JSON.
pub(crate) fn print(value: &Value) {
    if std::io::stdout().is_terminal() {
        outln!("{}", render(value, None));
    } else {
        print_json(&serde_json::to_string_pretty(value).unwrap_or_default());
    }
}

/// Renders a value: an array of objects as a table with a row per object, an object as a table with a row per member.
fn render(value: &Value, width: Option<u16>) -> String {
    match value {
        // Older revisions allow only objects, so servers wrap lists.
        Value::Object(object) if object.len() == 1 && object.values().all(Value::is_array) => {
            object.values().map(|list| render(list, width)).collect()
        }
        Value::Object(object) => {
            let mut table = empty(width);
            for (name, value) in object {
                table.add_row([name.clone(), cell(value)]);
            }
            table.to_string()
        }
        Value::Array(rows) if rows.is_empty() => "(empty)".to_owned(),
        Value::Array(rows) => match rows.iter().map(Value::as_object).collect::<Option<Vec<_>>>() {
            Some(objects) => columns(&objects, width),
            None => rows.iter().map(cell).collect::<Vec<_>>().join("\n"),
        },
        other => cell(other),
    }
}

fn columns(objects: &[&Map<String, Value>], width: Option<u16>) -> String {
    let mut names: Vec<&String> = Vec::new();
    for name in objects.iter().flat_map(|object| object.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = empty(width);
    table.set_header(&names);
    for object in objects {
        table.add_row(names.iter().map(|name| object.get(*name).map(cell).unwrap_or_default()));
    }
    table.to_string()
}

fn empty(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    table
}

/// Formats a value for one cell: lists of scalars without brackets, nested values as JSON.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape(text).into_owned(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(cell).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::render;

    #[test]
    fn objects_become_rows() {
        let rows = json!([{"id": 1, "tags": ["a", "b"]}, {"id": 2, "title": "Milk"}]);
        let expected = [
            "┌────┬──────┬───────┐",
            "│ id ┆ tags ┆ title │",
            "╞════╪══════╪═══════╡",
            "│ 1  ┆ a, b ┆       │",
            "│ 2  ┆      ┆ Milk  │",
            "└────┴──────┴───────┘",
        ]
        .join("\n");
        assert_eq!(render(&rows, Some(80)), expected);
        assert_eq!(render(&json!({"result": rows}), Some(80)), expected);
    }

    #[test]
    fn members_become_rows() {
        let object = json!({"notes": 2, "deep": {"a": [1]}, "none": null});
        let expected = [
            "┌───────┬───────────┐",
            "│ notes ┆ 2         │",
            "│ deep  ┆ {\"a\":[1]} │",
            "│ none  ┆           │",
            "└───────┴───────────┘",
        ]
        .join("\n");
        assert_eq!(render(&object, Some(80)), expected);
    }

    #[test]
    fn other_values_become_text() {
        for (value, text) in
            [(json!([]), "(empty)"), (json!([1, "two", null]), "1\ntwo\n"), (json!("text"), "text"), (json!(5), "5")]
        {
            assert_eq!(render(&value, Some(80)), text);
        }
    }
}
