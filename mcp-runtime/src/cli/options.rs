//! Reads the command line.

use std::ffi::OsString;

use crate::{
    StateKey,
    handler::{Contract, entry::ArgumentEntry, schema::nearest},
};

/// What the command line asks for.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) mode: Mode,
    /// The values of the author's own flags, from the command line or the environment.
    pub(super) flags: Vec<(&'static str, String)>,
    /// What seals the state of requests, from the command line or the environment.
    pub(super) state_keys: Vec<StateKey>,
    /// How HTTP is served, if it is.
    #[cfg(feature = "http")]
    pub(super) http: crate::HttpOptions,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Serve,
    #[cfg(feature = "http")]
    Http(std::net::SocketAddr),
    List,
    Schema,
    Call {
        name: String,
        arguments: String,
    },
    Help,
    Version,
}

/// The variable that holds the keys which are not on the command line, where everybody can read them.
const STATE_KEY: &str = "MCP_STATE_KEY";

/// The options that every server has.
#[cfg(not(feature = "http"))]
const KNOWN: &[&str] = &["call", "help", "list", "schema", "state-key", "version"];
/// The options that every server with HTTP has.
#[cfg(feature = "http")]
const KNOWN: &[&str] =
    &["allow-host", "allow-origin", "call", "help", "http", "legacy-sse", "list", "schema", "state-key", "version"];

#[cfg(not(feature = "http"))]
const ONE_OF: &str = "`--list`, `--schema` and `--call`";
#[cfg(feature = "http")]
const ONE_OF: &str = "`--http`, `--list`, `--schema` and `--call`";

impl Options {
    /// Reads a command line, and the environment for what it leaves out.
    ///
    /// # Errors
    ///
    /// One sentence that says what cannot be understood, and what was meant perhaps.
    pub(super) fn parse(words: impl Iterator<Item = OsString>, contract: &Contract) -> Result<Self, String> {
        let mut options = Self {
            mode: Mode::Serve,
            flags: Vec::new(),
            state_keys: Vec::new(),
            #[cfg(feature = "http")]
            http: crate::HttpOptions::default(),
        };
        let words = words.map(text).collect::<Result<Vec<_>, _>>()?;
        let mut words = Words { words: words.into_iter().peekable(), inline: None };
        while let Some(word) = words.option() {
            match word.as_str() {
                "-h" | "--help" => options.mode = Mode::Help,
                "-V" | "--version" => options.mode = Mode::Version,
                "--list" => options.set_mode(Mode::List)?,
                "--schema" => options.set_mode(Mode::Schema)?,
                "--call" => {
                    let name = words.value("--call", "the name of a tool")?;
                    let arguments = words
                        .words
                        .next_if(|word| word.trim_start().starts_with('{'))
                        .unwrap_or_else(|| "{}".to_owned());
                    options.set_mode(Mode::Call { name, arguments })?;
                }
                "--state-key" => {
                    let key = words.value("--state-key", "a key")?;
                    options.state_keys.push(key.parse().map_err(|why| format!("`--state-key`: {why}"))?);
                }
                #[cfg(feature = "http")]
                "--http" | "--allow-host" | "--allow-origin" | "--legacy-sse" => options.http(&word, &mut words)?,
                #[cfg(not(feature = "http"))]
                "--http" => {
                    return Err("this server has no HTTP: its author can turn on the feature `http` of `mcp-runtime`"
                        .to_owned());
                }
                _ => options.flag(&word, &mut words, contract)?,
            }
            words.none_left(&word)?;
        }
        options.add_environment(contract);
        if options.state_keys.is_empty()
            && let Ok(keys) = std::env::var(STATE_KEY)
        {
            options.state_keys = read_keys(&keys)?;
        }
        Ok(options)
    }

    #[cfg(feature = "http")]
    fn http(&mut self, word: &str, words: &mut Words) -> Result<(), String> {
        if word == "--http" {
            let address = words.value(word, "an address, such as 127.0.0.1:8080")?;
            let parsed = address.parse().map_err(|_| {
                format!(
                    "`{address}` is no address to listen on, expected an IP address and a port, such as 127.0.0.1:8080"
                )
            })?;
            return self.set_mode(Mode::Http(parsed));
        }
        let http = std::mem::take(&mut self.http);
        self.http = match word {
            "--allow-host" => http.allow_host(words.value(word, "a host, such as mcp.example.com")?),
            "--allow-origin" => http.allow_origin(words.value(word, "an origin, such as https://app.example.com")?),
            _ => http.legacy_sse(true),
        };
        Ok(())
    }

    fn set_mode(&mut self, mode: Mode) -> Result<(), String> {
        match self.mode {
            Mode::Serve => self.mode = mode,
            // Whoever asks for help gets it, whatever else stands there.
            Mode::Help | Mode::Version => {}
            _ => return Err(format!("only one of {ONE_OF} can be given")),
        }
        Ok(())
    }

    /// Reads one of the author's flags: `--name value`, `--name=value`, or `--name` alone for a boolean.
    fn flag(&mut self, word: &str, words: &mut Words, contract: &Contract) -> Result<(), String> {
        let Some(name) = word.strip_prefix("--") else {
            return Err(format!("unexpected argument `{word}`"));
        };
        let Some(flag) = contract.arguments.iter().find(|flag| flag_name(flag) == name || flag.name == name) else {
            return Err(unknown(name, contract));
        };
        if self.flags.iter().any(|(known, _)| *known == flag.name) {
            return Err(format!("`--{name}` is given twice"));
        }
        let is_switch = contract.schema["properties"][flag.name]["type"] == "boolean";
        let value = match is_switch {
            true => words.inline.take().unwrap_or_else(|| "true".to_owned()),
            false => words.value(word, "a value")?,
        };
        self.flags.push((flag.name, value));
        Ok(())
    }

    fn add_environment(&mut self, contract: &Contract) {
        for flag in contract.arguments {
            let given = self.flags.iter().any(|(name, _)| *name == flag.name);
            let value = flag.env.filter(|_| !given).and_then(|name| std::env::var(name).ok());
            if let Some(value) = value {
                self.flags.push((flag.name, value));
            }
        }
    }
}

impl Mode {
    /// Says whether clients are served, and not only something shown to a person.
    #[cfg(feature = "log")]
    pub(super) fn serves(&self) -> bool {
        !matches!(self, Self::List | Self::Schema | Self::Call { .. } | Self::Help | Self::Version)
    }

    /// One thread for one client, every core for many.
    pub(super) fn runtime(&self) -> tokio::runtime::Builder {
        match self {
            #[cfg(feature = "http")]
            Self::Http(_) => tokio::runtime::Builder::new_multi_thread(),
            _ => tokio::runtime::Builder::new_current_thread(),
        }
    }
}

/// Reads keys with commas between them.
fn read_keys(text: &str) -> Result<Vec<StateKey>, String> {
    let keys = text.split(',').filter(|key| !key.trim().is_empty());
    keys.map(|key| key.parse().map_err(|why| format!("`{STATE_KEY}`: {why}"))).collect()
}

struct Words {
    words: std::iter::Peekable<std::vec::IntoIter<String>>,
    /// The value of an option that is written as `--name=value`.
    inline: Option<String>,
}

impl Words {
    /// The next option, without its value.
    fn option(&mut self) -> Option<String> {
        let word = self.words.next()?;
        match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                self.inline = Some(value.to_owned());
                Some(name.to_owned())
            }
            _ => Some(word),
        }
    }

    fn value(&mut self, option: &str, what: &str) -> Result<String, String> {
        self.inline.take().or_else(|| self.words.next()).ok_or_else(|| format!("`{option}` needs {what}"))
    }

    /// Refuses a value that an option did not take.
    fn none_left(&mut self, option: &str) -> Result<(), String> {
        match self.inline.take() {
            Some(value) => Err(format!("`{option}` takes no value, and there is `{value}`")),
            None => Ok(()),
        }
    }
}

/// The name of a flag as it is typed.
pub(super) fn flag_name(flag: &ArgumentEntry) -> String {
    flag.name.replace('_', "-")
}

fn unknown(name: &str, contract: &Contract) -> String {
    let mut names: Vec<String> = contract.arguments.iter().map(flag_name).collect();
    names.extend(KNOWN.iter().map(|&name| name.to_owned()));
    names.sort_unstable();
    let list: Vec<_> = names.iter().map(|name| format!("`--{name}`")).collect();
    let list = list.join(", ");
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("unknown option `--{name}`, expected one of {list}\n\ndid you mean `--{near}`?"),
        None => format!("unknown option `--{name}`, expected one of {list}"),
    }
}

fn text(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|word| format!("`{}` is not UTF-8", word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        let contract = crate::registry::contract(&[]).unwrap();
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
            (&["-h"], Mode::Help),
            (&["--list", "--help"], Mode::Help),
            (&["--help", "--list"], Mode::Help),
            (&["-V"], Mode::Version),
        ] {
            assert_eq!(parse(words).unwrap().mode, mode, "{words:?}");
        }
    }

    #[test]
    fn keys_are_read_in_their_order() {
        let (first, second) = ("ab".repeat(32), "cd".repeat(32));
        let keys = parse(&["--state-key", &first, &format!("--state-key={second}")]).unwrap().state_keys;
        assert_eq!(keys, [first.parse().unwrap(), second.parse().unwrap()]);
        assert_eq!(read_keys(&format!("{first}, {second},")).unwrap(), keys);
        assert!(read_keys("no key").unwrap_err().starts_with("`MCP_STATE_KEY`: a state key is 32 bytes"));
    }

    #[test]
    fn mistakes_are_told() {
        for (words, why) in [
            (&["--call"][..], "`--call` needs the name of a tool"),
            (&["extra"], "unexpected argument `extra`"),
            (&["a=b"], "unexpected argument `a=b`"),
            (&["--list=all"], "`--list` takes no value, and there is `all`"),
            (
                &["--state-key", "short"],
                "`--state-key`: a state key is 32 bytes, as 64 hexadecimal digits or as base64: `openssl rand -hex 32` makes one",
            ),
            (&["--list", "--schema"], &format!("only one of {ONE_OF} can be given")),
        ] {
            assert_eq!(parse(words).unwrap_err(), why, "{words:?}");
        }
        let unknown = parse(&["--lsit"]).unwrap_err();
        assert!(unknown.starts_with("unknown option `--lsit`, expected one of `--"), "{unknown}");
        assert!(unknown.ends_with("\n\ndid you mean `--list`?"), "{unknown}");
    }
}
