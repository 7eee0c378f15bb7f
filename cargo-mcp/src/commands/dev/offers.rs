//! What a server offers, and what a new build changed in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write as _},
};

use serde_json::Value;

/// What a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

/// What clients are told of: templates are resources to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Tools,
    Resources,
    Prompts,
}

impl List {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of the result that holds the items, and the member that names an item.
    fn members(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools", "name"),
            Self::Resources => ("resources", "uri"),
            Self::Templates => ("resourceTemplates", "uriTemplate"),
            Self::Prompts => ("prompts", "name"),
        }
    }

    fn item(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "template",
            Self::Prompts => "prompt",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Tools => Kind::Tools,
            Self::Resources | Self::Templates => Kind::Resources,
            Self::Prompts => Kind::Prompts,
        }
    }
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// The name of its capability.
    pub(super) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// The notification that says that its lists changed.
    pub(super) fn changed(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
        }
    }

    /// What a request that listens asks for it by.
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Resources => "resourcesListChanged",
            Self::Prompts => "promptsListChanged",
        }
    }
}

/// Every item of a server's lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Offers {
    items: BTreeMap<(List, String), Value>,
}

impl Offers {
    /// Adds a page of a list; gives the cursor of the next one.
    pub(super) fn add(&mut self, list: List, result: &str) -> Option<String> {
        let mut result: Value = serde_json::from_str(result).ok()?;
        let (items, name) = list.members();
        if let Some(Value::Array(items)) = result.get_mut(items).map(Value::take) {
            for item in items {
                let name = item[name].as_str().unwrap_or_default().to_owned();
                self.items.insert((list, name), item);
            }
        }
        result["nextCursor"].as_str().map(str::to_owned)
    }

    /// What came, went and changed since another build.
    pub(super) fn since(&self, before: &Self) -> Changes {
        let mut changes = Changes::default();
        let names: BTreeSet<_> = self.items.keys().chain(before.items.keys()).collect();
        for key @ (list, name) in names {
            let change = match (before.items.get(key), self.items.get(key)) {
                (None, _) => format!("+ {} {name}", list.item()),
                (_, None) => format!("- {} {name}", list.item()),
                (Some(old), Some(new)) if old != new => {
                    format!("~ {} {name} ({})", list.item(), differences(old, new).join(", "))
                }
                _ => continue,
            };
            changes.lines.push(change);
            changes.kinds.insert(list.kind());
        }
        changes
    }
}

/// The words for the members that two spellings of one item differ in.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    let members = |item: &Value| item.as_object().map(|item| item.keys().cloned().collect::<BTreeSet<_>>());
    let names = members(old).unwrap_or_default().into_iter().chain(members(new).unwrap_or_default());
    let differs = names.collect::<BTreeSet<_>>().into_iter().filter(|name| old.get(name) != new.get(name));
    differs
        .map(|name| match name.as_str() {
            "inputSchema" => "schema".to_owned(),
            "outputSchema" => "result's schema".to_owned(),
            _ => name,
        })
        .collect()
}

impl Display for Offers {
    /// `3 tools, 1 resource`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for list in List::ALL {
            let count = self.items.keys().filter(|(of, _)| *of == list).count();
            if count > 0 {
                let comma = if text.is_empty() { "" } else { ", " };
                let plural = if count == 1 { "" } else { "s" };
                write!(text, "{comma}{count} {}{plural}", list.item())?;
            }
        }
        f.write_str(if text.is_empty() { "nothing is offered" } else { &text })
    }
}

/// The difference between two builds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    lines: Vec<String>,
    pub(super) kinds: BTreeSet<Kind>,
}

impl Display for Changes {
    /// `+ tool add_note, - tool remove_note`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.lines {
            [] => f.write_str("the same lists"),
            lines => f.write_str(&lines.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offers(tools: Value, templates: Value) -> Offers {
        let mut offers = Offers::default();
        assert_eq!(offers.add(List::Tools, &json!({"tools": tools}).to_string()), None);
        assert_eq!(offers.add(List::Templates, &json!({"resourceTemplates": templates}).to_string()), None);
        offers
    }

    #[test]
    fn builds_are_compared() {
        let before = offers(
            json!([{"name": "a", "description": "A"}, {"name": "b", "inputSchema": {}}, {"name": "c"}]),
            json!([{"uriTemplate": "x://{y}"}]),
        );
        let same = before.clone();
        let tools = json!([{"name": "a", "description": "B"}, {"name": "b", "inputSchema": {"x": 1}, "title": "B"}, {"name": "d"}]);
        let after = offers(tools, json!([]));
        for (before, after, text, kinds) in [
            (&before, &same, "the same lists", &[][..]),
            (
                &before,
                &after,
                "~ tool a (description), ~ tool b (schema, title), - tool c, + tool d, - template x://{y}",
                &[Kind::Tools, Kind::Resources],
            ),
        ] {
            let changes = after.since(before);
            assert_eq!(changes.to_string(), text);
            assert!(changes.kinds.iter().eq(kinds), "{changes:?}");
        }
    }

    #[test]
    fn offers_are_counted() {
        for (tools, templates, text) in [
            (json!([]), json!([]), "nothing is offered"),
            (json!([{"name": "a"}]), json!([]), "1 tool"),
            (json!([{"name": "a"}, {"name": "b"}]), json!([{"uriTemplate": "x"}]), "2 tools, 1 template"),
        ] {
            assert_eq!(offers(tools, templates).to_string(), text);
        }
    }

    #[test]
    fn pages_lead_on() {
        let mut offers = Offers::default();
        let next = offers.add(List::Prompts, r#"{"prompts":[{"name":"p"}],"nextCursor":"more"}"#);
        assert_eq!(next.as_deref(), Some("more"));
        assert_eq!(offers.to_string(), "1 prompt");
    }
}
