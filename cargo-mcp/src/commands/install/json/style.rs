//! The formatting of a JSON file, which insertions adopt.

use jsonc_parser::{ast::Object, common::Ranged};
use serde::Serialize;
use serde_json::Value;

use super::trivia::{indentation, own_line};
use crate::commands::install::position::newline;

/// The formatting of a file.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) newline: &'static str,
    /// One level of indentation.
    pub(super) unit: String,
    /// Whether everything is on one line.
    pub(super) compact: bool,
    /// Whether colons and commas are followed by a space.
    pub(super) spaced: bool,
}

impl Style {
    /// Detects the style of a file from its root object.
    pub(super) fn of(text: &str, root: &Object<'_>) -> Self {
        let first = root.properties.first();
        let outer = indentation(text, root.range.start);
        let unit = first.and_then(|first| own_line(text, first.range.start)?.strip_prefix(&*outer));
        let colon = first.map(|first| &text[first.name.range().end..first.value.range().start]);
        let compact = first.is_some() && !root.text(text).contains('\n');
        Self {
            newline: newline(text),
            unit: unit.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned(),
            compact,
            spaced: !compact || colon.is_none_or(|colon| colon.ends_with(' ')),
        }
    }

    /// Formats a property whose first line is indented by `indent` already.
    pub(super) fn property(&self, name: &str, value: &impl Serialize, indent: &str) -> String {
        let colon = if self.spaced { ": " } else { ":" };
        format!("{}{colon}{}", quoted(name), self.print(value, indent))
    }

    /// Formats a value whose first line is indented by `indent` already.
    pub(super) fn print(&self, value: &impl Serialize, indent: &str) -> String {
        let mut bytes = Vec::new();
        let printed = if self.compact {
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, OneLine { spaced: self.spaced }))
        } else {
            let pretty = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, pretty))
        };
        // Only strings, lists of strings and maps of strings are printed, which cannot fail.
        debug_assert!(printed.is_ok(), "{printed:?}");
        String::from_utf8_lossy(&bytes).replace('\n', &format!("{}{indent}", self.newline))
    }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// Formats JSON on one line.
struct OneLine {
    spaced: bool,
}

impl OneLine {
    fn space(&self) -> &'static [u8] {
        if self.spaced { b" " } else { b"" }
    }
}

impl serde_json::ser::Formatter for OneLine {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",").and_then(|()| writer.write_all(self.space())) }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",").and_then(|()| writer.write_all(self.space())) }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b":").and_then(|()| writer.write_all(self.space()))
    }
}
