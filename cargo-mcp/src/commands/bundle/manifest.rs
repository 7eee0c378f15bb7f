//! The manifest of a bundle, with the tools and prompts of its server: <https://github.com/anthropics/mcpb/blob/main/MANIFEST.md>.

use std::{
    collections::BTreeMap,
    fmt,
    process::{Command, Stdio},
    time::Duration,
};

use cargo_metadata::Package;
use rmcp::model::{Prompt, Tool};
use serde_json::{Value, json};

use super::args::{Args, Setting};
use crate::{
    client::{connect, request_failure},
    failure::Failure,
    output::counted,
    target::Target,
    workspace::Server,
};

/// The path of the icon in a bundle.
pub(super) const ICON: &str = "icon.png";

/// The version that the official packer writes. No feature of a later version is needed.
const MANIFEST_VERSION: &str = "0.2";

/// The manifest of a server, and what the bundle needs to know of it.
pub(super) struct Manifest {
    json: Value,
    /// The path of the program in the bundle.
    pub(super) entry_point: String,
    settings: Vec<Setting>,
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
        let reference = |setting: &Setting| format!("${{user_config.{}}}", setting.key());
        let env: BTreeMap<_, _> = settings.iter().map(|setting| (&setting.variable, reference(setting))).collect();
        let user_config: BTreeMap<_, _> = settings.iter().map(|setting| (setting.key(), setting)).collect();
        let url = |url: &Option<String>| url.clone().filter(|it| it.starts_with("http:") || it.starts_with("https:"));
        let json = json!({
            "manifest_version": MANIFEST_VERSION,
            "name": package.name,
            "version": package.version,
            "description": description,
            "author": author(package, args.author.as_deref())?,
            "repository": url(&package.repository).map(|url| json!({"type": "git", "url": url})),
            "homepage": url(&package.homepage),
            "documentation": url(&package.documentation),
            "icon": args.icon.as_ref().map(|_| ICON),
            "server": {
                "type": "binary",
                "entry_point": entry_point,
                "mcp_config": {
                    "command": format!("${{__dirname}}/{entry_point}"),
                    "args": [],
                    "env": env,
                },
            },
            "tools": [],
            "prompts": [],
            "keywords": Some(&package.keywords).filter(|keywords| !keywords.is_empty()),
            "license": package.license,
            "compatibility": {"platforms": [platform()?]},
            "user_config": Some(user_config).filter(|settings| !settings.is_empty()),
        });
        Ok(Self { json, entry_point, settings })
    }

    /// Adds the tools and prompts of the server.
    pub(super) fn add_contents(&mut self, contents: Contents) {
        let tool =
            |tool: Tool| json!({"name": tool.name, "description": tool.description.filter(|text| !text.is_empty())});
        self.json["tools"] = contents.tools.into_iter().map(tool).collect();
        let prompt = |prompt: Prompt| {
            let description = prompt.description.filter(|text| !text.is_empty());
            // The manifest requires a text. Requesting it from the server would include data of this machine.
            let text = description.as_ref().unwrap_or(&prompt.name);
            let arguments = prompt.arguments.iter().flatten().map(|argument| &argument.name);
            json!({"name": prompt.name, "description": description, "arguments": arguments.collect::<Vec<_>>(), "text": text})
        };
        self.json["prompts"] = contents.prompts.into_iter().map(prompt).collect();
    }

    /// Returns the variables with defaults, except for variables with placeholders that a client would expand.
    pub(super) fn defaults(&self) -> Vec<(String, String)> {
        let defaults =
            self.settings.iter().filter_map(|setting| Some((setting.variable.clone(), setting.default.clone()?)));
        defaults.filter(|(_, value)| !value.contains("${")).collect()
    }

    /// Formats the manifest, merged with the members that the author overrides or adds.
    pub(super) fn into_json(mut self, overrides: &Value) -> String {
        remove_nulls(&mut self.json);
        if !overrides.is_null() {
            merge(&mut self.json, overrides);
        }
        format!("{:#}\n", self.json)
    }
}

/// Removes the members without a value.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// How long to wait for the server to exit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The tools and prompts of a server.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
}

impl Contents {
    /// Starts a server and requests its lists.
    ///
    /// # Errors
    ///
    /// Fails if the server does not start or does not respond in time.
    pub(super) async fn ask(target: &Target, timeout: Duration) -> Result<Self, Failure> {
        let mut server = connect(target, timeout).await.map_err(|failure| {
            failure.help("a bundle lists the tools of its server; set the environment variables that it needs to start")
        })?;
        let lists = async {
            let has = server.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
            let mut contents = Self::default();
            if has.tools.is_some() {
                contents.tools = server.list_all_tools().await.map_err(|error| request_failure("tools/list", error))?;
            }
            if has.prompts.is_some() {
                contents.prompts =
                    server.list_all_prompts().await.map_err(|error| request_failure("prompts/list", error))?;
            }
            Ok(contents)
        };
        let contents = tokio::time::timeout(timeout, lists).await.unwrap_or_else(|_| {
            Err(Failure::connection(format_args!(
                "{target} did not list its tools and prompts within {} s",
                timeout.as_secs()
            ))
            .help("`--connect-timeout` extends the limit"))
        });
        let _ = server.close_with_timeout(SHUTDOWN_TIMEOUT).await;
        contents
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", counted(self.tools.len(), "tool"), counted(self.prompts.len(), "prompt"))
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
fn author(package: &Package, given: Option<&str>) -> Result<Value, Failure> {
    let from = given.map(str::to_owned).or_else(|| package.authors.first().cloned()).or_else(git_user);
    let author = from.as_deref().map(parse_author).filter(|author| author["name"] != "");
    author.ok_or_else(|| {
        Failure::usage(format_args!("package `{}` has no author, which bundles require", package.name))
            .help(format_args!("add `authors = [\"…\"]` to `{}`, or use `--author`", package.manifest_path))
    })
}

/// Parses `Ada Lovelace <ada@example.com>`.
fn parse_author(text: &str) -> Value {
    match text.split_once('<') {
        Some((name, rest)) => {
            let email = rest.trim().trim_end_matches('>').trim();
            let name = if name.trim().is_empty() { email } else { name.trim() };
            json!({"name": name, "email": Some(email).filter(|email| email.contains('@'))})
        }
        None => json!({"name": text.trim()}),
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

    use super::{Args, Manifest, Server, Setting, merge, parse_author, remove_nulls};
    use crate::workspace::BuildArgs;

    /// Cargo accepts any text, but the manifest of a bundle accepts only URLs.
    #[test]
    fn only_web_pages_are_linked() {
        for (text, is_page) in [
            ("https://example.com/notes", true),
            ("http://example.com/notes", true),
            ("git@example.com:notes.git", false),
            ("ssh://git@example.com/notes", false),
            ("example.com/notes", false),
            ("http.example.com/notes", false),
        ] {
            let package = json!({
                "name": "notes", "version": "0.1.0", "id": "notes", "description": "Notes.", "authors": ["Ada"],
                "dependencies": [], "targets": [], "features": {}, "manifest_path": "/notes/Cargo.toml",
                "repository": text, "homepage": text, "documentation": text,
            });
            let package = serde_json::from_value(package).expect("a package");
            let args = Args {
                package: None,
                output: None,
                env: Vec::new(),
                default: Vec::new(),
                secret: Vec::new(),
                icon: None,
                author: None,
                connect_timeout: 1,
                build: BuildArgs::default(),
            };
            let server = Server { package, bin: "notes".to_owned() };
            let json = Manifest::new(&server, Vec::new(), &args).expect("the package is complete").json;
            let expected = json!(is_page.then_some(text));
            for found in [&json["repository"]["url"], &json["homepage"], &json["documentation"]] {
                assert_eq!(*found, expected, "{text}: {json}");
            }
        }
    }

    /// A client would replace a placeholder. The server could take it for a path, for example.
    #[test]
    fn defaults_with_placeholders_are_not_passed_to_the_server() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let names = ["DIR", "MODE", "KEY"].map(|name| pair(name, "Whatever."));
        let defaults = [pair("DIR", "${HOME}/notes"), pair("MODE", "$fast")];
        let settings = Setting::all(&names, &defaults, &[]).expect("the settings are valid");
        let manifest = Manifest { json: json!(null), entry_point: String::new(), settings };
        assert_eq!(manifest.defaults(), [pair("MODE", "$fast")]);
    }

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
            let (mut author, mut expected) = (parse_author(text), json!({"name": name, "email": email}));
            remove_nulls(&mut author);
            remove_nulls(&mut expected);
            assert_eq!(author, expected);
        }
    }
}
