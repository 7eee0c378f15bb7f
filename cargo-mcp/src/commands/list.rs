//! `cargo mcp list`: what a server offers.

use rmcp::model::{Prompt, Resource, ResourceTemplate, ServerPeerInfo, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::{
    failure::Failure,
    host::HostArgs,
    schema::Schema,
    session::{Server, Session, SessionArgs, print_raw, with},
    stdout::outln,
    style::{CARE, DIM, HEADING, NAME},
};

/// Show the tools, resources and prompts of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp list                                  the only server of this workspace
  cargo mcp list notes --tools                    a package, its tools alone
  cargo mcp list -- npx -y some-server            a command
  cargo mcp list http://127.0.0.1:8080/mcp --json a URL, for a script

With `--json`, stdout is an object: `server`, and `tools`, `resources`, `resourceTemplates` and
`prompts` as the server lists them.")]
pub(crate) struct Args {
    /// A package of this workspace, or a URL; without it the only server here
    server: Option<String>,
    /// Print the whole lists as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    /// Only the tools (may be combined with the two below)
    #[arg(long)]
    tools: bool,
    /// Only the resources and resource templates
    #[arg(long)]
    resources: bool,
    /// Only the prompts
    #[arg(long)]
    prompts: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// What a server offers; none where it was not asked.
#[derive(Default)]
struct Offers {
    tools: Option<Vec<Tool>>,
    resources: Option<Vec<Resource>>,
    templates: Option<Vec<ResourceTemplate>>,
    prompts: Option<Vec<Prompt>>,
    /// Why a list that the server says it has is not there.
    refused: Vec<Failure>,
}

impl Offers {
    /// Takes a list; where the server refuses it, the others are shown all the same.
    ///
    /// # Errors
    ///
    /// The server is no longer there; what it refused before, which may be why, is printed.
    fn take<T>(&mut self, list: Result<Vec<T>, Failure>) -> Result<Option<Vec<T>>, Failure> {
        match list {
            Err(failure) if failure.is_refusal() => {
                self.refused.push(failure);
                Ok(None)
            }
            Err(failure) => {
                self.refused.iter().for_each(Failure::print);
                Err(failure)
            }
            Ok(list) => Ok(Some(list)),
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let named = Server { name: args.server.as_deref(), word: None };
    with(&args.session, named, &HostArgs::default(), async |session| {
        let mut offers = offers(session, &args).await?;
        let server = session.server();
        match args.json {
            true => print_raw(&raw(&server, &offers))?,
            false => print(session, &server, &offers),
        }
        let Some(last) = offers.refused.pop() else { return Ok(()) };
        offers.refused.iter().for_each(Failure::print);
        Err(last)
    })
    .await
}

async fn offers(session: &Session, args: &Args) -> Result<Offers, Failure> {
    let all = !(args.tools || args.resources || args.prompts);
    let has = session.server().capabilities;
    let mut offers = Offers::default();
    if has.tools.is_some() && (all || args.tools) {
        offers.tools = offers.take(session.tools().await)?;
    }
    if has.resources.is_some() && (all || args.resources) {
        offers.resources = offers.take(session.resources().await)?;
        offers.templates = offers.take(session.templates().await)?;
    }
    if has.prompts.is_some() && (all || args.prompts) {
        offers.prompts = offers.take(session.prompts().await)?;
    }
    Ok(offers)
}

fn raw(server: &ServerPeerInfo, offers: &Offers) -> Value {
    let mut raw = Map::from_iter([("server".to_owned(), json!(server))]);
    let mut add = |name: &str, list: Option<Value>| list.map(|list| raw.insert(name.to_owned(), list));
    add("tools", offers.tools.as_ref().map(|list| json!(list)));
    add("resources", offers.resources.as_ref().map(|list| json!(list)));
    add("resourceTemplates", offers.templates.as_ref().map(|list| json!(list)));
    add("prompts", offers.prompts.as_ref().map(|list| json!(list)));
    Value::Object(raw)
}

fn print(session: &Session, server: &ServerPeerInfo, offers: &Offers) {
    let identity = server.server_info.as_ref().map(|info| match &info.title {
        Some(title) => format!("{NAME}{title}{NAME:#} ({} {})", info.name, info.version),
        None => format!("{NAME}{}{NAME:#} {}", info.name, info.version),
    });
    let identity = identity.unwrap_or_else(|| session.title());
    outln!("{identity}, MCP {}", server.protocol_version);
    for line in server.instructions.iter().flat_map(|text| text.lines()) {
        outln!("  {line}");
    }
    if let Some(tools) = &offers.tools {
        part("Tools", tools, tool);
    }
    if let Some(resources) = &offers.resources {
        part("Resources", resources, resource);
    }
    if let Some(templates) = offers.templates.as_deref().filter(|list| !list.is_empty()) {
        part("Resource templates", templates, template);
    }
    if let Some(prompts) = &offers.prompts {
        part("Prompts", prompts, prompt);
    }
}

fn part<T>(name: &str, list: &[T], each: impl Fn(&T)) {
    outln!("\n{HEADING}{name}{HEADING:#}");
    match list {
        [] => outln!("  {DIM}none{DIM:#}"),
        list => list.iter().for_each(each),
    }
}

fn tool(tool: &Tool) {
    let schema = Schema::new(&tool.input_schema);
    let required = schema.required();
    let properties = schema.properties();
    let arguments: Vec<Argument<'_>> = properties
        .iter()
        .map(|(name, schema)| Argument {
            name,
            optional: !required.contains(name),
            is: match schema.default() {
                Some(default) if !default.is_null() => format!("{} (default {default})", schema.in_words()),
                _ => schema.in_words(),
            },
            says: schema.description().unwrap_or_default(),
        })
        .collect();
    let title = tool.title.as_deref().or(tool.annotations.as_ref().and_then(|hints| hints.title.as_deref()));
    let hints = tool.annotations.as_ref().map(hints).unwrap_or_default();
    head(&tool.name, Some(&arguments), title, &hints);
    described(tool.description.as_deref());
    listed(&arguments);
}

/// What the annotations say, if they say anything.
fn hints(hints: &ToolAnnotations) -> Vec<&'static str> {
    let reads = hints.read_only_hint == Some(true);
    let mut said = vec![
        reads.then_some("read-only"),
        hints.destructive_hint.filter(|_| !reads).map(|destroys| if destroys { "destructive" } else { "additive" }),
        (!reads && hints.idempotent_hint == Some(true)).then_some("idempotent"),
    ];
    said.push(hints.open_world_hint.map(|open| if open { "open-world" } else { "closed-world" }));
    said.into_iter().flatten().collect()
}

/// An argument of a tool or prompt.
struct Argument<'a> {
    name: &'a str,
    optional: bool,
    is: String,
    says: &'a str,
}

/// `name(argument, optional?)  Title  [hints]`.
fn head(name: &str, arguments: Option<&[Argument<'_>]>, title: Option<&str>, hints: &[&str]) {
    let arguments = arguments.map(|arguments| {
        let names = arguments.iter().map(|each| format!("{}{}", each.name, if each.optional { "?" } else { "" }));
        format!("({})", names.collect::<Vec<_>>().join(", "))
    });
    let title = title.map(|title| format!("  {title}")).unwrap_or_default();
    let hints = match hints {
        [] => String::new(),
        hints if hints.contains(&"destructive") => format!("  {CARE}[{}]{CARE:#}", hints.join(", ")),
        hints => format!("  {DIM}[{}]{DIM:#}", hints.join(", ")),
    };
    outln!("  {NAME}{name}{NAME:#}{}{title}{hints}", arguments.unwrap_or_default());
}

fn described(text: Option<&str>) {
    if let Some(line) = text.and_then(|text| text.lines().find(|line| !line.trim().is_empty())) {
        outln!("      {line}");
    }
}

fn listed(arguments: &[Argument<'_>]) {
    let name = |each: &Argument<'_>| format!("{}{}", each.name, if each.optional { "?" } else { "" });
    let width = arguments.iter().map(|each| name(each).chars().count()).max().unwrap_or_default();
    for each in arguments {
        let says = if each.says.is_empty() { String::new() } else { format!("{DIM}{}{DIM:#}", each.says) };
        let parts = [format!("{:width$}", name(each)), each.is.clone(), says];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        outln!("      {}", parts.join("  ").trim_end());
    }
}

fn resource(resource: &Resource) {
    let size = resource.size.map(|size| format!("{size} bytes"));
    let kind = [resource.mime_type.clone(), size].into_iter().flatten().collect::<Vec<_>>().join(", ");
    located(&resource.uri, resource.title.as_deref().unwrap_or(&resource.name), &kind);
    described(resource.description.as_deref());
}

fn template(template: &ResourceTemplate) {
    let kind = template.mime_type.as_deref().unwrap_or_default();
    located(&template.uri_template, template.title.as_deref().unwrap_or(&template.name), kind);
    described(template.description.as_deref());
}

fn located(uri: &str, title: &str, kind: &str) {
    let kind = if kind.is_empty() { String::new() } else { format!("  {DIM}[{kind}]{DIM:#}") };
    outln!("  {NAME}{uri}{NAME:#}  {title}{kind}");
}

fn prompt(prompt: &Prompt) {
    let arguments: Vec<Argument<'_>> = prompt
        .arguments
        .iter()
        .flatten()
        .map(|argument| Argument {
            name: &argument.name,
            optional: argument.required != Some(true),
            is: argument.title.clone().unwrap_or_default(),
            says: argument.description.as_deref().and_then(|text| text.lines().next()).unwrap_or_default(),
        })
        .collect();
    head(&prompt.name, Some(&arguments), prompt.title.as_deref(), &[]);
    described(prompt.description.as_deref());
    listed(&arguments);
}
