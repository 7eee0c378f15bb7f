//! The manifest of a bundle: <https://github.com/anthropics/mcpb/blob/main/MANIFEST.md>.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

use cargo_metadata::Package;
use serde::Serialize;
use serde_json::Value;

use super::{args::Args, contents::Contents, setting::Setting};
use crate::{failure::Failure, workspace::Server};

/// The path of the icon in a bundle.
pub(super) const ICON: &str = "icon.png";

/// The version that the official packer writes. No feature of a later version is needed.
const MANIFEST_VERSION: &str = "0.2";

#[derive(Debug, Serialize)]
pub(super) struct Manifest {
    manifest_version: &'static str,
    name: String,
    version: String,
    description: String,
    author: Author,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<Repository>,
    #[serde(skip_serializing_if = "Option::is_none")]
    homepage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documentation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'static str>,
    server: Program,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keywords: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    compatibility: Compatibility,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    user_config: BTreeMap<String, Setting>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Author {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
}

#[derive(Debug, Serialize)]
struct Repository {
    r#type: &'static str,
    url: String,
}

#[derive(Debug, Serialize)]
struct Program {
    r#type: &'static str,
    entry_point: String,
    mcp_config: Config,
}

#[derive(Debug, Serialize)]
struct Config {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Tool {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

#[derive(Debug, Serialize)]
struct Prompt {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    arguments: Vec<String>,
    text: String,
}

#[derive(Debug, Serialize)]
struct Compatibility {
    platforms: [&'static str; 1],
}

impl Manifest {
    /// Creates the manifest of a server, without its tools and prompts.
    ///
    /// # Errors
    ///
    /// Fails if a value that a manifest requires is missing.
    pub(super) fn new(server: &Server, settings: Vec<Setting>, args: &Args) -> Result<Self, Failure> {
        let package = &server.package;
        let description = package.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let description = description.ok_or_else(|| {
            Failure::usage(format_args!("package `{}` has no description, which bundles require", package.name))
                .help(format_args!("add `description = \"…\"` to `{}`", package.manifest_path))
        })?;
        let entry_point = format!("server/{}{}", server.bin, std::env::consts::EXE_SUFFIX);
        let env =
            settings.iter().map(|setting| (setting.variable.clone(), format!("${{user_config.{}}}", setting.key())));
        let config = Config { command: format!("${{__dirname}}/{entry_point}"), args: Vec::new(), env: env.collect() };
        let url = |url: &Option<String>| url.clone().filter(|url| url.starts_with("http"));
        Ok(Self {
            manifest_version: MANIFEST_VERSION,
            name: package.name.to_string(),
            version: package.version.to_string(),
            description: description.to_owned(),
            author: author(package, args.author.as_deref())?,
            repository: url(&package.repository).map(|url| Repository { r#type: "git", url }),
            homepage: url(&package.homepage),
            documentation: url(&package.documentation),
            icon: args.icon.as_ref().map(|_| ICON),
            server: Program { r#type: "binary", entry_point, mcp_config: config },
            tools: Vec::new(),
            prompts: Vec::new(),
            keywords: package.keywords.clone(),
            license: package.license.clone(),
            compatibility: Compatibility { platforms: [platform()?] },
            user_config: settings.into_iter().map(|setting| (setting.key(), setting)).collect(),
        })
    }

    /// Adds the tools and prompts of the server.
    pub(super) fn add_contents(&mut self, contents: Contents) {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.tools = contents
            .tools
            .into_iter()
            .map(|tool| Tool {
                name: tool.name.into_owned(),
                description: text(tool.description.map(|description| description.into_owned())),
            })
            .collect();
        self.prompts = contents
            .prompts
            .into_iter()
            .map(|prompt| {
                let description = text(prompt.description);
                // The manifest requires a text. Requesting it from the server would include data of this machine.
                let text = description.clone().unwrap_or_else(|| prompt.name.clone());
                let arguments = prompt.arguments.unwrap_or_default().into_iter().map(|argument| argument.name);
                Prompt { name: prompt.name, description, arguments: arguments.collect(), text }
            })
            .collect();
    }

    /// Returns the default file name of the bundle.
    pub(super) fn file_name(&self) -> String {
        format!("{}.mcpb", self.name)
    }

    /// Returns the path of the program in the bundle.
    pub(super) fn entry_point(&self) -> String {
        self.server.entry_point.clone()
    }

    /// Returns the variables with defaults, except for those with placeholders that a client would expand.
    pub(super) fn defaults(&self) -> Vec<(String, String)> {
        let settings = self.user_config.values();
        let defaults = settings.filter_map(|setting| Some((setting.variable.clone(), setting.default.clone()?)));
        defaults.filter(|(_, value)| !value.contains("${")).collect()
    }

    /// Formats the manifest, merged with the members that the author overrides or adds.
    pub(super) fn to_json(&self, overrides: &Value) -> String {
        let json = match overrides {
            Value::Null => serde_json::to_string_pretty(self),
            overrides => serde_json::to_value(self).and_then(|mut manifest| {
                merge(&mut manifest, overrides);
                serde_json::to_string_pretty(&manifest)
            }),
        };
        json.expect("a manifest can be serialized") + "\n"
    }
}

/// Replaces values by their overrides, recursively for objects.
fn merge(base: &mut Value, overrides: &Value) {
    match (base, overrides) {
        (Value::Object(base), Value::Object(overrides)) => {
            for (key, value) in overrides {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, overrides) => *base = overrides.clone(),
    }
}

/// Returns the author: from the command line, Cargo.toml or git.
fn author(package: &Package, given: Option<&str>) -> Result<Author, Failure> {
    let from = given.map(str::to_owned).or_else(|| package.authors.first().cloned()).or_else(git_user);
    let author = from.as_deref().map(parse_author).filter(|author| !author.name.is_empty());
    author.ok_or_else(|| {
        Failure::usage(format_args!("package `{}` has no author, which bundles require", package.name))
            .help(format_args!("add `authors = [\"…\"]` to `{}`, or use `--author`", package.manifest_path))
    })
}

/// Parses `Ada Lovelace <ada@example.com>`.
fn parse_author(text: &str) -> Author {
    match text.split_once('<') {
        Some((name, rest)) => {
            let email = rest.trim().trim_end_matches('>').trim();
            let name = if name.trim().is_empty() { email } else { name.trim() };
            Author { name: name.to_owned(), email: email.contains('@').then(|| email.to_owned()) }
        }
        None => Author { name: text.trim().to_owned(), email: None },
    }
}

fn git_user() -> Option<String> {
    let git = Command::new("git").args(["config", "user.name"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    String::from_utf8(git.ok()?.stdout).ok()
}

/// Returns the manifest's name for the current operating system.
fn platform() -> Result<&'static str, Failure> {
    match std::env::consts::OS {
        "linux" => Ok("linux"),
        "macos" => Ok("darwin"),
        "windows" => Ok("win32"),
        other => Err(Failure::usage(format_args!("bundles do not support {other}"))
            .help("create the bundle on the system it is for: Linux, macOS or Windows")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Author, merge, parse_author};

    #[test]
    fn overrides_are_merged_into_the_manifest() {
        let mut manifest =
            json!({"name": "notes", "keywords": ["a"], "user_config": {"db": {"type": "string", "title": "Db"}}});
        let overrides = json!({"display_name": "Notes", "keywords": [], "user_config": {"db": {"type": "file"}}});
        merge(&mut manifest, &overrides);
        let expected = json!({
            "name": "notes", "display_name": "Notes", "keywords": [],
            "user_config": {"db": {"type": "file", "title": "Db"}},
        });
        assert_eq!(manifest, expected);
    }

    #[test]
    fn authors_are_parsed_in_cargo_format() {
        for (text, name, email) in [
            ("Ada Lovelace <ada@example.com>", "Ada Lovelace", Some("ada@example.com")),
            ("Ada Lovelace", "Ada Lovelace", None),
            ("<ada@example.com>", "ada@example.com", Some("ada@example.com")),
            ("Ada <nowhere>", "Ada", None),
        ] {
            assert_eq!(parse_author(text), Author { name: name.to_owned(), email: email.map(str::to_owned) });
        }
    }
}
