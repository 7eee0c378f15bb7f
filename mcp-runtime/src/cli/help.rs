//! The text of `--help`, and messages about invalid flags.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    flags::{Flag, FlagKind, GivenFlags},
    options::OPTIONS,
    show::Package,
};
use crate::handler::{Contract, HandlerError, HandlerErrorKind, schema::Violation};

/// The width of the column of option names.
const COLUMN: usize = 26;

/// Returns the text of `--help`.
pub(super) fn help(package: &Package, contract: &Contract) -> String {
    let Package { name, version, description, .. } = package;
    let mut out = if description.is_empty() {
        format!("{name} {version}\n")
    } else {
        format!("{name} {version}: {description}\n")
    };
    let _ = write!(
        out,
        "\nA Model Context Protocol (MCP) server. MCP clients start it and communicate with it over stdin and stdout.\n\
         \n{}\n\nOptions:\n",
        usage(package, contract)
    );
    for flag in Flag::all(contract) {
        line(&mut out, &flag.usage(), &describe(&flag));
    }
    #[cfg(feature = "http")]
    for (left, right) in super::http::OPTIONS {
        line(&mut out, left, right);
    }
    for (left, right) in OPTIONS {
        line(&mut out, left, right);
    }
    out.push_str("\nEnvironment:\n");
    line(
        &mut out,
        "RUST_LOG",
        "Log filter, such as `debug` or `info,my_crate=debug` (default: `warn`); the log is written to stderr",
    );
    #[cfg(feature = "http")]
    line(
        &mut out,
        "MCP_ADDRESS_FILE",
        "File to which `--http` writes the URL of the endpoint once the server is ready",
    );
    out
}

/// Returns the line that shows how the program is called: with its name, and the flags that are required.
pub(super) fn usage(package: &Package, contract: &Contract) -> String {
    let mut usage = format!("Usage: {} [OPTIONS]", program(package));
    for flag in Flag::all(contract).filter(|flag| flag.is_required) {
        let _ = write!(usage, " {}", flag.usage());
    }
    usage
}

/// Returns the name of the program, under which it was started.
pub(super) fn program(package: &Package) -> String {
    let path = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| package.name.to_owned())
}

/// Returns the description of a flag, with what clap adds to one.
fn describe(flag: &Flag<'_>) -> String {
    let description = flag.entry.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = description.strip_suffix('.').unwrap_or(&description).to_owned();
    if flag.kind == FlagKind::List {
        text.push_str(if text.is_empty() { "May be repeated" } else { "; may be repeated" });
    }
    if let Some(variable) = flag.entry.env {
        let _ = write!(text, " [env: {variable}]");
    }
    // The default of a switch goes without saying.
    let default = flag.schema.get("default").filter(|default| flag.kind != FlagKind::Switch || **default != false);
    if let Some(default) = default {
        let default = default.as_array().map_or_else(|| plain(default), |items| plain_list(items, " "));
        let _ = write!(text, " [default: {default}]");
    }
    if let Some(values) = flag.schema["enum"].as_array() {
        let _ = write!(text, " [possible values: {}]", plain_list(values, ", "));
    }
    text.trim_start().to_owned()
}

/// Returns a value as it is written on the command line.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn plain_list(values: &[Value], separator: &str) -> String {
    values.iter().map(plain).collect::<Vec<_>>().join(separator)
}

/// Adds a line with two columns.
fn line(out: &mut String, left: &str, right: &str) {
    let indent = if left.starts_with("--") { "      " } else { "  " };
    let left = format!("{indent}{left}");
    let width = COLUMN + 6;
    let _ = if left.len() < width {
        writeln!(out, "{left:width$}{right}")
    } else {
        writeln!(out, "{left}\n{:width$}{right}", "")
    };
}

/// Returns the message for invalid values of the author's flags.
pub(super) fn invalid_flags(contract: &Contract, given: &GivenFlags, error: HandlerError) -> String {
    match error.into_kind() {
        HandlerErrorKind::Fault(fault) => fault.to_string(),
        HandlerErrorKind::Failed { message, .. } | HandlerErrorKind::Message(message) => message,
        HandlerErrorKind::Masked(reference) => format!("see the log, reference {reference}"),
        HandlerErrorKind::InvalidArguments(violations) => {
            let lines: Vec<String> =
                violations.into_iter().map(|violation| of_flag(contract, given, violation)).collect();
            lines.join("\n")
        }
    }
}

/// Words a violation with the name that the flag has on the command line, or with the environment variable.
fn of_flag(contract: &Contract, given: &GivenFlags, mut violation: Violation) -> String {
    let end = violation.path.find(['[', '.']).unwrap_or(violation.path.len());
    let (name, rest) = violation.path.split_at(end);
    if let Some(flag) = Flag::find(contract, name) {
        violation.path = format!("{}{rest}", flag.source(given));
    }
    violation.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_begins_with_the_package() {
        for (description, expected) in [("", "x 1.0.0\n\nA Model"), ("Counts.", "x 1.0.0: Counts.\n\nA Model")] {
            let package = Package { name: "x", version: "1.0.0", description, homepage: "", libraries: &[] };
            let help = help(&package, &Contract::of_flags(&[]));
            assert!(help.starts_with(expected), "{help}");
        }
    }

    #[test]
    fn lines_have_two_columns() {
        let (fits, is_too_long) = (format!("--{}", "x".repeat(23)), format!("--{}", "x".repeat(24)));
        for (left, expected) in [
            ("--list", format!("      --list{}text\n", " ".repeat(20))),
            ("-h, --help", format!("  -h, --help{}text\n", " ".repeat(20))),
            (&fits, format!("      {fits} text\n")),
            (&is_too_long, format!("      {is_too_long}\n{}text\n", " ".repeat(32))),
        ] {
            let mut out = String::new();
            line(&mut out, left, "text");
            assert_eq!(out, expected);
        }
    }
}
