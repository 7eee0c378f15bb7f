//! `cargo mcp list`: lists the tools, resources and prompts of a server.

use rmcp::model::{Prompt, Resource, ResourceTemplate, ServerPeerInfo, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::{
    arguments::schema::Schema,
    failure::Failure,
    host::HostArgs,
    output::{DIM, HEADING, NAME, WARNING, escape_line, outln},
    session::{NamedServer, Session, SessionArgs, print_raw, with},
};

/// List the tools, resources and prompts of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo mcp list                                  the only server of this workspace
  cargo mcp list notes --tools                    the tools of a package
  cargo mcp list -- npx -y some-server            a command
  cargo mcp list http://127.0.0.1:8080/mcp --json a URL, with JSON output

`--json` prints an object with the members `server`, `tools`, `resources`, `resourceTemplates` and
`prompts`, unchanged from the server.")]
pub(crate) struct Args {
    /// Package of this workspace or URL [default: the only server here]
    server: Option<String>,
    /// Print the complete lists as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    /// List only the tools (may be combined with the options below)
    #[arg(long)]
    tools: bool,
    /// List only the resources and resource templates
    #[arg(long)]
    resources: bool,
    /// List only the prompts
    #[arg(long)]
    prompts: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// The lists of a server. A list that was not requested is `None`.
#[derive(Default)]
struct Lists {
    tools: Option<Vec<Tool>>,
    resources: Option<Vec<Resource>>,
    templates: Option<Vec<ResourceTemplate>>,
    prompts: Option<Vec<Prompt>>,
    /// The errors returned in place of lists.
    errors: Vec<Failure>,
}

impl Lists {
    /// Unwraps a list. Collects an error of the server, so that the other lists are still shown.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost. Prints the errors before that, which may be the cause.
    fn collect<T>(&mut self, list: Result<Vec<T>, Failure>) -> Result<Option<Vec<T>>, Failure> {
        match list {
            Err(failure) if failure.is_server_error() => {
                self.errors.push(failure);
                Ok(None)
            }
            Err(failure) => {
                self.errors.iter().for_each(Failure::print);
                Err(failure)
            }
            Ok(list) => Ok(Some(list)),
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let named = NamedServer { name: args.server.as_deref(), word: None };
    with(&args.session, named, &HostArgs::default(), async |session| {
        let mut lists = lists(session, &args).await?;
        let server = session.server();
        if args.json {
            print_raw(&raw(&server, &lists))?;
        } else {
            print(session, &server, &lists);
        }
        let Some(last) = lists.errors.pop() else { return Ok(()) };
        lists.errors.iter().for_each(Failure::print);
        Err(last)
    })
    .await
}

async fn lists(session: &Session, args: &Args) -> Result<Lists, Failure> {
    let all = !(args.tools || args.resources || args.prompts);
    let has = session.server().capabilities;
    let mut lists = Lists::default();
    if has.tools.is_some() && (all || args.tools) {
        lists.tools = lists.collect(session.tools().await)?;
    }
    if has.resources.is_some() && (all || args.resources) {
        lists.resources = lists.collect(session.resources().await)?;
        lists.templates = lists.collect(session.templates().await)?;
    }
    if has.prompts.is_some() && (all || args.prompts) {
        lists.prompts = lists.collect(session.prompts().await)?;
    }
    Ok(lists)
}

fn raw(server: &ServerPeerInfo, lists: &Lists) -> Value {
    let Lists { tools, resources, templates, prompts, .. } = lists;
    let mut raw = json!({
        "server": server,
        "tools": tools,
        "resources": resources,
        "resourceTemplates": templates,
        "prompts": prompts,
    });
    raw.as_object_mut().into_iter().for_each(|members| members.retain(|_, member| !member.is_null()));
    raw
}

fn print(session: &Session, server: &ServerPeerInfo, lists: &Lists) {
    let identity = server.server_info.as_ref().map(|info| match &info.title {
        Some(title) => format!("{NAME}{title}{NAME:#} ({} {})", info.name, info.version),
        None => format!("{NAME}{}{NAME:#} {}", info.name, info.version),
    });
    let identity = identity.unwrap_or_else(|| session.title());
    outln!("{identity}, MCP {}", server.protocol_version);
    for line in server.instructions.iter().flat_map(|text| text.lines()) {
        outln!("  {line}");
    }
    section("Tools", lists.tools.as_deref(), print_tool);
    section("Resources", lists.resources.as_deref(), print_resource);
    section("Resource templates", lists.templates.as_deref().filter(|list| !list.is_empty()), print_template);
    section("Prompts", lists.prompts.as_deref(), print_prompt);
}

fn section<T>(name: &str, list: Option<&[T]>, each: impl Fn(&T)) {
    let Some(list) = list else { return };
    outln!("\n{HEADING}{name}{HEADING:#}");
    match list {
        [] => outln!("  {DIM}none{DIM:#}"),
        list => list.iter().for_each(each),
    }
}

fn print_tool(tool: &Tool) {
    let mut room = MAX_ARGUMENTS;
    let arguments = arguments(Schema::new(&tool.input_schema), &mut Vec::new(), &mut room);
    let title = tool.title.as_deref().or(tool.annotations.as_ref().and_then(|hints| hints.title.as_deref()));
    let hints = tool.annotations.as_ref().map(hints).unwrap_or_default();
    print_heading(&tool.name, &arguments, title, &hints);
    print_description(tool.description.as_deref());
    print_arguments(&arguments, INDENT);
}

/// Returns the properties of an object and, for objects among them, their fields. `ancestors` are the objects that
/// contain it: a field that repeats one of them is shown without fields.
fn arguments<'a>(object: Schema<'a>, ancestors: &mut Vec<Schema<'a>>, room: &mut usize) -> Vec<Argument<'a>> {
    let required = object.required();
    let mut arguments = Vec::new();
    ancestors.push(object);
    for (name, schema) in object.properties() {
        if *room == 0 {
            arguments.push(Argument { name: "…", ..Argument::default() });
            break;
        }
        *room -= 1;
        let objects =
            schema.objects().into_iter().filter(|object| !ancestors.iter().any(|known| known.is_same(*object)));
        let objects: Vec<_> = objects.collect();
        arguments.push(Argument {
            name,
            optional: !required.contains(&name),
            kind: match schema.default() {
                Some(default) if !default.is_null() => format!("{} (default {default})", schema.describe()),
                _ => schema.describe(),
            },
            description: schema.description().unwrap_or_default(),
            fields: objects.into_iter().map(|object| self::arguments(object, ancestors, room)).collect(),
        });
    }
    ancestors.pop();
    arguments
}

/// Describes the annotations of a tool.
fn hints(hints: &ToolAnnotations) -> Vec<&'static str> {
    let reads = hints.read_only_hint == Some(true);
    let words = [
        reads.then_some("read-only"),
        hints.destructive_hint.filter(|_| !reads).map(|destroys| if destroys { "destructive" } else { "additive" }),
        (!reads && hints.idempotent_hint == Some(true)).then_some("idempotent"),
        hints.open_world_hint.map(|open| if open { "open-world" } else { "closed-world" }),
    ];
    words.into_iter().flatten().collect()
}

/// An argument of a tool or prompt.
#[derive(Default)]
struct Argument<'a> {
    name: &'a str,
    optional: bool,
    kind: String,
    description: &'a str,
    /// The fields of an object, for each form that it can have.
    fields: Vec<Vec<Self>>,
}

/// The maximum number of arguments and fields of a tool that are shown. A small schema can describe a great many.
const MAX_ARGUMENTS: usize = 200;
/// The number of spaces before an argument.
const INDENT: usize = 6;

impl Argument<'_> {
    fn label(&self) -> String {
        format!("{}{}", escape_line(self.name), if self.optional { "?" } else { "" })
    }
}

/// Prints `name(argument, optional?)  Title  [hints]`.
fn print_heading(name: &str, arguments: &[Argument<'_>], title: Option<&str>, hints: &[&str]) {
    let arguments = arguments.iter().map(Argument::label).collect::<Vec<_>>().join(", ");
    let title = title.map(|title| format!("  {}", escape_line(title))).unwrap_or_default();
    let hints = match hints {
        [] => String::new(),
        hints if hints.contains(&"destructive") => format!("  {WARNING}[{}]{WARNING:#}", hints.join(", ")),
        hints => format!("  {DIM}[{}]{DIM:#}", hints.join(", ")),
    };
    outln!("  {NAME}{}{NAME:#}({arguments}){title}{hints}", escape_line(name));
}

/// Prints the first line, and the note of a deprecation.
fn print_description(text: Option<&str>) {
    let mut lines = text.unwrap_or_default().lines().filter(|line| !line.trim().is_empty());
    if let Some(line) = lines.next() {
        outln!("      {line}");
    }
    for line in lines.filter(|line| line.starts_with("Deprecated")) {
        outln!("      {WARNING}{line}{WARNING:#}");
    }
}

fn print_arguments(arguments: &[Argument<'_>], indent: usize) {
    let width = arguments.iter().map(|each| each.label().chars().count()).max().unwrap_or_default();
    for each in arguments {
        let description =
            if each.description.is_empty() { String::new() } else { format!("{DIM}{}{DIM:#}", each.description) };
        let parts = [format!("{:width$}", each.label()), each.kind.clone(), description];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        outln!("{:indent$}{}", "", parts.join("  ").trim_end());
        let inner = indent + 2;
        for (at, fields) in each.fields.iter().enumerate() {
            if at > 0 {
                outln!("{:inner$}or", "");
            }
            print_arguments(fields, inner);
        }
    }
}

fn print_resource(resource: &Resource) {
    let size = resource.size.map(|size| format!("{size} bytes"));
    let kind = [resource.mime_type.clone(), size].into_iter().flatten().collect::<Vec<_>>().join(", ");
    print_uri(&resource.uri, resource.title.as_deref().unwrap_or(&resource.name), &kind);
    print_description(resource.description.as_deref());
}

fn print_template(template: &ResourceTemplate) {
    let kind = template.mime_type.as_deref().unwrap_or_default();
    print_uri(&template.uri_template, template.title.as_deref().unwrap_or(&template.name), kind);
    print_description(template.description.as_deref());
}

fn print_uri(uri: &str, title: &str, kind: &str) {
    let kind = if kind.is_empty() { String::new() } else { format!("  {DIM}[{}]{DIM:#}", escape_line(kind)) };
    outln!("  {NAME}{}{NAME:#}  {}{kind}", escape_line(uri), escape_line(title));
}

fn print_prompt(prompt: &Prompt) {
    let arguments: Vec<Argument<'_>> = prompt
        .arguments
        .iter()
        .flatten()
        .map(|argument| Argument {
            name: &argument.name,
            optional: argument.required != Some(true),
            kind: argument.title.clone().unwrap_or_default(),
            description: argument.description.as_deref().and_then(|text| text.lines().next()).unwrap_or_default(),
            ..Argument::default()
        })
        .collect();
    print_heading(&prompt.name, &arguments, prompt.title.as_deref(), &[]);
    print_description(prompt.description.as_deref());
    print_arguments(&arguments, INDENT);
}
