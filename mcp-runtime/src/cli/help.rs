//! The text of `--help`, and messages about invalid flags.

use std::fmt::Write as _;

use super::{options::flag_name, package::Package};
use crate::handler::{Contract, HandlerError, HandlerErrorKind};

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
         \nUsage: {name} [OPTIONS]\n\nOptions:\n"
    );
    for flag in contract.arguments {
        let schema = &contract.schema["properties"][flag.name];
        let name = flag_name(flag);
        let left = if schema["type"] == "boolean" {
            format!("--{name}")
        } else {
            format!("--{name} <{}>", name.replace('-', "_").to_uppercase())
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
        ("--http <ADDRESS>", "Serve HTTP on this address, such as 127.0.0.1:8080, instead of stdio"),
        ("--allow-host <HOST>", "Allow HTTP requests to this host instead of loopback names; may be repeated"),
        ("--allow-origin <ORIGIN>", "Allow HTTP requests from web pages of this origin; may be repeated"),
        ("--legacy-sse", "Also serve the HTTP transport of protocol revision 2024-11-05"),
    ] {
        line(&mut out, left, right);
    }
    for (left, right) in [
        ("--list", "List the tools, resources, skills and prompts"),
        ("--schema", "Print the tools, resources and prompts with their schemas as JSON"),
        ("--call <TOOL> [JSON]", "Call a tool, and print the request and the response"),
        (
            "--state-key <KEY>",
            "Seal request state with this key; may be repeated, newest key first [env: MCP_STATE_KEY]",
        ),
        ("-h, --help", "Print help"),
        ("-V, --version", "Print version"),
    ] {
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
pub(super) fn invalid_flags(error: HandlerError) -> String {
    match error.into_kind() {
        HandlerErrorKind::Fault(fault) => fault.to_string(),
        HandlerErrorKind::Failed { message, .. } | HandlerErrorKind::Message(message) => message,
        HandlerErrorKind::Masked(reference) => format!("see the log, reference {reference}"),
        HandlerErrorKind::InvalidArguments(violations) => {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }
    }
}
