//! Writes `--help`, and what is wrong with a command line.

use std::fmt::Write as _;

use super::{Package, options::flag_name};
use crate::handler::{Contract, HandlerError, HandlerErrorKind};

/// How wide the column of option names is.
const COLUMN: usize = 26;

pub(super) fn help(package: &Package, contract: &Contract) -> String {
    let Package { name, version, description, .. } = package;
    let mut out = match description.is_empty() {
        true => format!("{name} {version}\n"),
        false => format!("{name} {version}: {description}\n"),
    };
    let _ = write!(
        out,
        "\nA Model Context Protocol (MCP) server on stdin and stdout. MCP clients start it themselves.\n\
         \nUsage: {name} [OPTIONS]\n\nOptions:\n"
    );
    for flag in contract.arguments {
        let schema = &contract.schema["properties"][flag.name];
        let name = flag_name(flag);
        let left = match schema["type"] == "boolean" {
            true => format!("--{name}"),
            false => format!("--{name} <{}>", name.to_uppercase()),
        };
        let mut right = flag.description.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(default) = schema.get("default") {
            let _ =
                write!(right, " [default: {}]", default.as_str().map_or_else(|| default.to_string(), str::to_owned));
        }
        if let Some(variable) = flag.env {
            let _ = write!(right, " [env: {variable}]");
        }
        line(&mut out, &left, right.trim_start());
    }
    #[cfg(feature = "http")]
    for (left, right) in [
        ("--http <ADDRESS>", "Serve HTTP instead, such as on 127.0.0.1:8080"),
        ("--allow-host <HOST>", "Allow this `Host` over HTTP, in place of loopback names; may be repeated"),
        ("--allow-origin <ORIGIN>", "Allow pages of this `Origin` over HTTP; may be repeated"),
        ("--legacy-sse", "Offer the HTTP transport of 2024-11-05 as well"),
    ] {
        line(&mut out, left, right);
    }
    for (left, right) in [
        ("--list", "Show what the server offers"),
        ("--schema", "Show the same as JSON, with schemas"),
        ("--call <TOOL> [JSON]", "Call a tool here and now, and show the messages"),
        (
            "--state-key <KEY>",
            "Seal the state of requests with this key; may be repeated, old ones last [env: MCP_STATE_KEY]",
        ),
        ("-h, --help", "Show this"),
        ("-V, --version", "Show the version"),
    ] {
        line(&mut out, left, right);
    }
    out.push_str("\nRUST_LOG says what is logged to stderr, as in `RUST_LOG=debug`.\n");
    out
}

fn line(out: &mut String, left: &str, right: &str) {
    let indent = if left.starts_with("--") { "      " } else { "  " };
    let left = format!("{indent}{left}");
    let _ = match left.len() < COLUMN + 6 {
        true => writeln!(out, "{left:width$}{right}", width = COLUMN + 6),
        false => writeln!(out, "{left}\n{:width$}{right}", "", width = COLUMN + 6),
    };
}

/// Says what is wrong with the values of the author's flags.
pub(super) fn refusal(refusal: HandlerError, package: &Package) -> String {
    let mut out = match refusal.into_kind() {
        HandlerErrorKind::Fault(fault) => fault.to_string(),
        HandlerErrorKind::Failed { message: why, .. } => why,
        HandlerErrorKind::InvalidArguments(violations) => {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }
    };
    let _ = write!(out, "\n\nsee `{} --help`", package.name);
    out
}
