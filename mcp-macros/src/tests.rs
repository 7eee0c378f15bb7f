//! The tables of options in the documentation of the macros.

use crate::syntax::{OptionTable, option_tables};

/// Returns the tables in the documentation of a macro.
fn documented_tables(function: &str) -> Vec<OptionTable> {
    let source = include_str!("lib.rs");
    let (before, _) = source.split_once(&format!("\npub fn {function}(")).expect("the macro exists");
    let lines = before.lines().rev().skip_while(|line| line.starts_with("#["));
    let docs: Vec<_> = lines.map_while(|line| line.strip_prefix("///")).map(str::trim).collect();
    let mut tables: Vec<OptionTable> = Vec::new();
    for line in docs.into_iter().rev() {
        if let Some(heading) = line.strip_prefix("# ") {
            tables.push((heading.to_owned(), Vec::new()));
        } else if let (Some(row), Some((_, options))) = (line.strip_prefix("| `"), tables.last_mut()) {
            options.push(row.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect());
        }
    }
    tables.retain(|(_, options)| !options.is_empty());
    tables
}

#[test]
fn every_option_is_in_the_table_of_its_macro() {
    for (function, accepted) in option_tables() {
        assert_eq!(documented_tables(function), accepted, "the documentation of `{function}`");
    }
}
