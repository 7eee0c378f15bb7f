//! The options of the command line: parsing them, the text of `--help`, and messages about invalid flags.

use std::{ffi::OsString, fmt::Write as _};

use serde_json::Value;

#[cfg(feature = "http")]
use super::http::{self, HttpArguments};
use super::{
    flags::{Flag, FlagKind, GivenFlags, Words},
    show::Package,
};
use crate::{
    engine::StateKey,
    handler::{
        Contract, HandlerError, HandlerErrorKind,
        schema::{Violation, nearest},
    },
};

/// The options of a command line.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) mode: Mode,
    /// The values of the author's flags on the command line, by the name of the parameter.
    pub(super) flags: Vec<(String, String)>,
    /// The keys that seal the state of requests, from the command line or the environment.
    pub(super) state_keys: Vec<StateKey>,
    /// The URL of the backend, from the command line or the environment.
    pub(super) backend: Option<String>,
    /// Whether the log is JSON, from the command line or the environment.
    pub(super) logs_json: bool,
    #[cfg(feature = "http")]
    pub(super) http: HttpArguments,
}

/// The action of the program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Serve,
    #[cfg(feature = "http")]
    Http(crate::transport::http::HttpAddress),
    List,
    Schema,
    Call {
        name: String,
        arguments: String,
    },
    Help,
    Version,
}

/// The environment variable for state keys. Unlike the command line, it is not visible to other users.
const STATE_KEY: &str = "MCP_STATE_KEY";

/// The environment variable for the format of the log.
const LOG_FORMAT: &str = "MCP_LOG_FORMAT";

/// The environment variable for the URL of the backend. Unlike the command line, it is not visible to other users.
const BACKEND: &str = "MCP_BACKEND";

/// The options of every server, as `--help` describes them. `#[server]` reserves their names.
pub(super) const OPTIONS: &[(&str, &str)] = &[
    ("--list", "List the tools, resources, skills and prompts"),
    ("--schema", "Print the tools, resources and prompts with their schemas as JSON"),
    ("--call <TOOL> [JSON]", "Call a tool, and print the request and the response"),
    (
        "--backend <URL>",
        "Share sessions and tasks with other processes, such as through redis://127.0.0.1:6379 [env: MCP_BACKEND]",
    ),
    ("--state-key <KEY>", "Seal request state with this key; may be repeated, newest key first [env: MCP_STATE_KEY]"),
    ("--log-format <FORMAT>", "Format of the log on stderr: text or json [env: MCP_LOG_FORMAT] [default: text]"),
    ("-h, --help", "Print help"),
    ("-V, --version", "Print version"),
];

#[cfg(not(feature = "http"))]
const ONE_OF: &str = "`--list`, `--schema` and `--call`";
#[cfg(feature = "http")]
const ONE_OF: &str = "`--http`, `--list`, `--schema` and `--call`";

impl Options {
    /// Parses a command line.
    ///
    /// # Errors
    ///
    /// Returns an error for the first invalid option, with a suggestion for a misspelled name.
    pub(super) fn parse(words: impl Iterator<Item = OsString>, contract: &Contract) -> Result<Self, String> {
        let mut options = Self::default();
        let mut logs_json = None;
        let words = words.map(into_utf8).collect::<Result<Vec<_>, _>>()?;
        let mut words = Words::new(words);
        while let Some(word) = words.option() {
            match word.as_str() {
                "-h" | "--help" => options.mode = Mode::Help,
                "-V" | "--version" => options.mode = Mode::Version,
                "--list" => options.set_mode(Mode::List)?,
                "--schema" => options.set_mode(Mode::Schema)?,
                "--call" => {
                    let name = words.value("--call", "the name of a tool")?;
                    let arguments = words.json().unwrap_or_else(|| "{}".to_owned());
                    options.set_mode(Mode::Call { name, arguments })?;
                }
                "--state-key" => {
                    let key = words.value("--state-key", "a key")?;
                    options.state_keys.push(parse_key("--state-key", &key)?);
                }
                "--backend" => {
                    options.backend = Some(words.value("--backend", "a URL, such as redis://127.0.0.1:6379")?);
                }
                "--log-format" => logs_json = Some(is_json(&word, &words.value(&word, "`text` or `json`")?)?),
                #[cfg(feature = "http")]
                _ if word.strip_prefix("--").is_some_and(|name| names_of(http::OPTIONS).any(|known| known == name)) => {
                    if let Some(address) = options.http.parse(&word, &mut words)? {
                        options.set_mode(Mode::Http(address))?;
                    }
                }
                #[cfg(all(feature = "http", not(feature = "tls")))]
                "--tls-cert" | "--tls-key" => {
                    return Err(
                        "this server does not support TLS\nhelp: enable the feature `tls` of `mcp-runtime`".to_owned()
                    );
                }
                #[cfg(not(feature = "http"))]
                "--http" => {
                    return Err("this server does not support HTTP\nhelp: enable the feature `http` of `mcp-runtime`"
                        .to_owned());
                }
                _ => options.flag(&word, &mut words, contract)?,
            }
            words.finish(&word)?;
        }
        #[cfg(feature = "http")]
        if options.mode == Mode::Serve {
            options.http.check_unused()?;
        }
        #[cfg(feature = "tls")]
        if let Mode::Http(address) = &options.mode {
            options.http.check_tls(address)?;
        }
        if options.state_keys.is_empty()
            && let Ok(keys) = std::env::var(STATE_KEY)
        {
            options.state_keys = parse_keys(&keys)?;
        }
        let logs_json = match (logs_json, std::env::var(LOG_FORMAT)) {
            (Some(given), _) => given,
            (None, Ok(format)) if !format.is_empty() => is_json(LOG_FORMAT, &format)?,
            _ => false,
        };
        options.logs_json = logs_json && cfg!(feature = "log");
        options.backend = options.backend.or_else(|| std::env::var(BACKEND).ok()).filter(|url| !url.is_empty());
        Ok(options)
    }

    fn set_mode(&mut self, mode: Mode) -> Result<(), String> {
        match self.mode {
            Mode::Serve => self.mode = mode,
            // `--help` and `--version` take precedence.
            Mode::Help | Mode::Version => {}
            _ => return Err(format!("conflicting options, expected at most one of {ONE_OF}")),
        }
        Ok(())
    }

    /// Parses one of the author's flags: `--name value`, `--name=value`, or `--name` alone for a switch.
    fn flag(&mut self, word: &str, words: &mut Words, contract: &Contract) -> Result<(), String> {
        let Some(name) = word.strip_prefix("--") else {
            return Err(if word.len() > 1 && word.starts_with('-') {
                unknown_option(word, contract)
            } else {
                unexpected_argument(word, contract)
            });
        };
        let Some(flag) = Flag::find(contract, name) else { return Err(unknown_option(word, contract)) };
        let is_repeated = self.flags.iter().any(|(known, _)| *known == flag.entry.name);
        if is_repeated && flag.kind != FlagKind::List {
            return Err(format!("the option `{}` cannot be used multiple times", flag.usage()));
        }
        let value = if flag.kind == FlagKind::Switch {
            words.inline().unwrap_or_else(|| "true".to_owned())
        } else {
            words.value(word, "a value")?
        };
        self.flags.push((flag.entry.name.to_string(), value));
        Ok(())
    }
}

impl Mode {
    /// Returns whether the state of the server is used. Its lists are read without it.
    pub(super) fn uses_backend(&self) -> bool {
        !matches!(self, Self::List | Self::Schema | Self::Help | Self::Version)
    }

    /// Returns the runtime for this mode: a single thread for a single client, or all cores for many clients.
    pub(super) fn runtime(&self) -> tokio::runtime::Builder {
        match self {
            #[cfg(feature = "http")]
            Self::Http(_) => tokio::runtime::Builder::new_multi_thread(),
            _ => tokio::runtime::Builder::new_current_thread(),
        }
    }
}

/// Parses keys separated by commas.
fn parse_keys(text: &str) -> Result<Vec<StateKey>, String> {
    let keys = text.split(',').filter(|key| !key.trim().is_empty());
    keys.map(|key| parse_key(STATE_KEY, key)).collect()
}

fn parse_key(source: &str, key: &str) -> Result<StateKey, String> {
    key.parse().map_err(|error| format!("`{source}`: {error}"))
}

/// Parses the format of the log.
fn is_json(source: &str, format: &str) -> Result<bool, String> {
    match format {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err(format!("`{source}`: unknown format `{format}`, expected `text` or `json`")),
    }
}

/// Returns the names of options, without dashes.
fn names_of(options: &[(&'static str, &str)]) -> impl Iterator<Item = &'static str> {
    options.iter().filter_map(|(usage, _)| usage.split_once("--")?.1.split(' ').next())
}

/// Returns the names of all options, sorted.
fn option_names(contract: &Contract) -> Vec<String> {
    let mut names: Vec<String> = Flag::all(contract).map(|flag| flag.name()).collect();
    names.extend(names_of(OPTIONS).map(str::to_owned));
    #[cfg(feature = "http")]
    names.extend(names_of(http::OPTIONS).map(str::to_owned));
    names.sort_unstable();
    names
}

fn unexpected_argument(word: &str, contract: &Contract) -> String {
    let mut message = format!("unexpected argument `{word}`");
    if option_names(contract).iter().any(|name| name == word) {
        message.push_str(&format!("\nhelp: did you mean `--{word}`?"));
    }
    message
}

fn unknown_option(option: &str, contract: &Contract) -> String {
    let names = option_names(contract);
    let list: Vec<_> = names.iter().map(|name| format!("`--{name}`")).collect();
    let list = list.join(", ");
    let mut message = format!("unknown option `{option}`, expected one of {list}");
    if let Some(near) = nearest(option.trim_start_matches('-'), names.iter().map(String::as_str)) {
        message.push_str(&format!("\nhelp: did you mean `--{near}`?"));
    }
    message
}

fn into_utf8(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|word| format!("`{}` is not valid UTF-8", word.to_string_lossy()))
}

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
    for (left, right) in http::OPTIONS {
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
    for flag in Flag::all(contract).filter(Flag::is_required) {
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

    fn parse(words: &[&str]) -> Result<Options, String> {
        let contract = Contract::of_flags(&[]);
        Options::parse(words.iter().map(OsString::from), &contract)
    }

    #[test]
    fn modes_are_recognised() {
        let call = |arguments: &str| Mode::Call { name: "add".to_owned(), arguments: arguments.to_owned() };
        for (words, mode) in [
            (&[][..], Mode::Serve),
            (&["--list"], Mode::List),
            (&["--schema"], Mode::Schema),
            (&["--call", "add"], call("{}")),
            (&["--call=add", r#"{"a":1}"#], call(r#"{"a":1}"#)),
            (&["--call", "add", r#"{"a":1}"#], call(r#"{"a":1}"#)),
            (&["--call", "add", r#" {"a":1}"#], call(r#" {"a":1}"#)),
            (&["-h"], Mode::Help),
            (&["--list", "--help"], Mode::Help),
            (&["--help", "--list"], Mode::Help),
            (&["-V"], Mode::Version),
        ] {
            assert_eq!(parse(words).unwrap().mode, mode, "{words:?}");
        }
    }

    #[test]
    fn the_macro_reserves_the_names_of_options() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp-macros/src/model/server.rs");
        let reserved = std::fs::read_to_string(path).unwrap();
        for name in option_names(&Contract::of_flags(&[])) {
            assert!(reserved.contains(&format!("    \"{name}\",\n")), "`OPTIONS` of `mcp-macros` lacks `{name}`");
        }
    }

    #[test]
    fn state_keys_keep_their_order() {
        let (first, second) = ("ab".repeat(32), "cd".repeat(32));
        let keys = parse(&["--state-key", &first, &format!("--state-key={second}")]).unwrap().state_keys;
        assert_eq!(keys, [first.parse().unwrap(), second.parse().unwrap()]);
        assert_eq!(parse_keys(&format!("{first}, , {second}, ")).unwrap(), keys);
        assert!(parse_keys("no key").unwrap_err().starts_with("`MCP_STATE_KEY`: invalid key, expected 32 bytes"));
    }

    #[test]
    fn invalid_options_are_rejected() {
        let known = option_names(&Contract::of_flags(&[]));
        assert!(known.is_sorted(), "{known:?}");
        let known = known.join("`, `--");
        let short_option = |option| format!("unknown option `{option}`, expected one of `--{known}`");
        for (words, why) in [
            (&["--call"][..], "missing value for `--call`, expected the name of a tool"),
            (&["extra"], "unexpected argument `extra`"),
            (&["-"], "unexpected argument `-`"),
            (&["-x"], &short_option("-x")),
            (&["a=b"], "unexpected argument `a=b`"),
            (&["list"], "unexpected argument `list`\nhelp: did you mean `--list`?"),
            (&["--list=all"], "unexpected value `all` for `--list`"),
            (&["--log-format"], "missing value for `--log-format`, expected `text` or `json`"),
            (&["--log-format=xml"], "`--log-format`: unknown format `xml`, expected `text` or `json`"),
            (&["--log-format="], "`--log-format`: unknown format ``, expected `text` or `json`"),
            (
                &["--state-key", "short"],
                "`--state-key`: invalid key, expected 32 bytes as 64 hexadecimal digits or as base64\n\
                 help: generate one with `openssl rand -hex 32`",
            ),
            (&["--list", "--schema"], &format!("conflicting options, expected at most one of {ONE_OF}")),
        ] {
            assert_eq!(parse(words).unwrap_err(), why, "{words:?}");
        }
        #[cfg(feature = "http")]
        for option in [
            "--allow-host=mcp.example.com",
            "--allow-origin=https://app.example.com",
            "--drain-delay=2.5",
            "--legacy-sse",
            "--socket-mode=660",
            "--token-file=token",
            "--trusted-proxies=10.0.0.0/8,unix",
        ] {
            let message = parse(&[option]).unwrap_err();
            let name = option.split('=').next().unwrap();
            assert!(message.starts_with(&format!("`{name}` requires `--http`\nhelp: ")), "{message}");
            assert!(parse(&["--http=127.0.0.1:0", option]).is_ok() && parse(&[option, "--http=127.0.0.1:0"]).is_ok());
        }
        #[cfg(feature = "http")]
        {
            let message = parse(&["http"]).unwrap_err();
            assert_eq!(message, "unexpected argument `http`\nhelp: did you mean `--http`?");
        }
        #[cfg(feature = "http")]
        for (mode, is_valid) in [("0", true), ("777", true), ("1000", false), ("668", false)] {
            let parsed = parse(&["--http=unix:x.sock", "--socket-mode", mode]);
            assert_eq!(parsed.is_ok(), is_valid, "{mode}");
        }
        #[cfg(feature = "http")]
        for seconds in ["-1", "soon", "1e99", "NaN"] {
            let message = parse(&["--http=127.0.0.1:0", "--drain-delay", seconds]).unwrap_err();
            assert!(message.starts_with("`--drain-delay`: invalid number of seconds"), "{message}");
        }
        #[cfg(feature = "http")]
        {
            let message = parse(&["--http=127.0.0.1:0", "--trusted-proxies=10.0.0.0/8,proxy"]).unwrap_err();
            assert!(message.starts_with("`--trusted-proxies`: the trusted proxy `proxy` is invalid"), "{message}");
        }
        #[cfg(feature = "tls")]
        for (options, expected) in [
            (
                &["--http=127.0.0.1:0", "--tls-cert=c"][..],
                "`--tls-cert` requires `--tls-key`\nhelp: add `--tls-key <PATH>`",
            ),
            (&["--tls-cert=c"], "`--tls-cert` requires `--http`\nhelp: "),
            (
                &["--tls-key=k", "--http=127.0.0.1:0"],
                "`--tls-key` requires `--tls-cert`\nhelp: add `--tls-cert <PATH>`",
            ),
            (&["--http=unix:x.sock", "--tls-cert=c", "--tls-key=k"], "`--tls-cert` requires a TCP address"),
        ] {
            let message = parse(options).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
        let unknown = parse(&["--lsit"]).unwrap_err();
        assert!(unknown.starts_with("unknown option `--lsit`, expected one of `--"), "{unknown}");
        assert!(unknown.ends_with("\nhelp: did you mean `--list`?"), "{unknown}");
    }

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
