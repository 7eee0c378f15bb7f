//! `cargo mcp app`: shows the page of a tool (MCP Apps) in a minimal host.

mod csp;
mod listen;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rmcp::model::{CallToolResult, Tool};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use url::Url;

use self::listen::{Listeners, Message};
use super::{call, read};
use crate::{
    authorization::open,
    failure::{Failure, find, name_list},
    host::HostArgs,
    output::{errln, escape_line, outln},
    pages,
    session::{NamedServer, Session, SessionArgs, with},
    signals::interrupt,
    temporary::private_directory_in,
};

/// The maximum number of requests that are handled at the same time. Further ones wait.
const MAX_REQUESTS: usize = 16;

/// Show the page of a tool in the browser
///
/// Calls the tool, and serves a minimal host for MCP Apps on the loopback interface, which embeds the page that the tool
/// names. It shows the messages between page and host, answers the page, and passes its tool calls on to the server.
/// The page is isolated: it has the content security policy that it declares, no permissions, and no storage. Most browsers
/// cannot block WebRTC and DNS prefetching, through which a page can still send data. Reloading the page reads it again
/// from the server. Ctrl-C ends the command.
///
/// The variable `BROWSER` names the program that opens the host. It gets a private file that redirects to the URL, since other
/// users can read the arguments of programs.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp app [OPTIONS] [SERVER] TOOL [KEY=VALUE]... [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp app list_notes
  cargo mcp app notes search_notes query=milk
  cargo mcp app http://127.0.0.1:8080/mcp list_notes"
)]
pub(crate) struct Args {
    /// Optional server (package of this workspace or URL), tool and arguments
    #[arg(value_name = "SERVER|TOOL|KEY=VALUE")]
    words: Vec<String>,
    /// Arguments as a JSON object, or `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON", visible_alias = "args")]
    json: Option<String>,
    /// Print the URL of the host, but do not open it
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let json = args.json.as_deref().map(call::object).transpose()?;
    let server = args.session.target.take_server(&mut args.words);
    let name = if args.words.is_empty() { None } else { Some(args.words.remove(0)) };
    let named = NamedServer { name: server.as_deref(), word: name.as_deref() };
    args.host.shows_pages = true;
    with(&args.session, named, &args.host, async |session| {
        let tools = session.tools().await?;
        let tool = find(&tools, name.as_deref(), |tool| &tool.name, "tool")?;
        let uri = pages::uri(&meta(tool)).ok_or_else(|| without_page(tool, &tools))?.to_owned();
        let arguments = call::tool_arguments(tool, &args.words, json)?;
        let result = call::call(session, tool, arguments.clone(), false).await?;
        let view = View { session, tool, uri, arguments, result };
        // Fails before a browser is opened.
        view.page().await?;
        view.serve(args.no_open).await
    })
    .await
}

/// Returns the `_meta` of a tool.
fn meta(tool: &Tool) -> Value {
    serde_json::to_value(&tool.meta).unwrap_or_default()
}

fn without_page(tool: &Tool, tools: &[Tool]) -> Failure {
    let failure = Failure::usage(format_args!("`{}` has no page: its `_meta.ui.resourceUri` is missing", tool.name));
    let others = tools.iter().filter(|tool| pages::uri(&meta(tool)).is_some());
    match &*others.map(|tool| &*tool.name).collect::<Vec<_>>() {
        [] => failure.help("no tool of this server has a page"),
        names => failure.help(format_args!("tools with a page: {}", name_list(names))),
    }
}

/// Opens a URL through a file that only the user can read. Other users can read the arguments of the browser.
fn open_privately(url: &str) -> Result<TempDir, Failure> {
    let unwritable = |error: std::io::Error| Failure::usage(format_args!("cannot write a temporary file: {error}"));
    let directory = private_directory_in(&std::env::temp_dir(), "cargo-mcp-app-").map_err(unwritable)?;
    let path = directory.path().join("open.html");
    let html =
        format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">Open</a>\n");
    std::fs::write(&path, html).map_err(unwritable)?;
    match Url::from_file_path(&path) {
        Ok(file) => open(file.as_str()),
        Err(()) => open(&path.to_string_lossy()),
    }
    Ok(directory)
}

/// A tool with its page and its result.
struct View<'a> {
    session: &'a Session,
    tool: &'a Tool,
    uri: String,
    arguments: Map<String, Value>,
    result: CallToolResult,
}

/// A page as the server returns it.
struct Page {
    html: String,
    /// `_meta.ui` of its contents.
    meta: Value,
}

impl View<'_> {
    /// Serves the host until Ctrl-C.
    async fn serve(&self, no_open: bool) -> Result<(), Failure> {
        let (listeners, mut requests) = Listeners::listen(MAX_REQUESTS)
            .await
            .map_err(|error| Failure::connection(format_args!("cannot listen on 127.0.0.1: {error}")))?;
        outln!("{}", listeners.url);
        // The directory is deleted when the command ends.
        let _redirect = if no_open { None } else { Some(open_privately(&listeners.url)?) };
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(request) = requests.recv(), if running.len() < MAX_REQUESTS => {
                    running.push(async {
                        let response = match request.message {
                            None => self.describe(&listeners).await,
                            Some(message) => self.forward(message).await,
                        };
                        let _ = request.answer.send(response.unwrap_or_else(|failure| match failure.server_error() {
                            Some(error) => json!({ "error": error }),
                            None => json!({"error": {"code": -32000, "message": failure.message()}}),
                        }));
                    });
                }
                Some(()) = running.next() => {}
                () = interrupt() => return Ok(()),
            }
        }
    }

    /// Reads the page. Returns what the host needs to show it.
    async fn describe(&self, listeners: &Listeners) -> Result<Value, Failure> {
        let Page { html, meta } = self.page().await?;
        for domain in listeners.set_policy(&meta["csp"]) {
            errln!("`{}` is not an origin, and is not part of the policy", escape_line(&domain));
        }
        Ok(json!({"result": {
            "server": self.session.title(),
            "tool": self.tool,
            "uri": self.uri,
            "arguments": self.arguments,
            "result": self.result,
            "html": html,
            "csp": meta["csp"],
            "prefersBorder": meta["prefersBorder"],
        }}))
    }

    async fn page(&self) -> Result<Page, Failure> {
        let uri = &self.uri;
        let result = read::read(self.session, uri).await?;
        let contents = serde_json::to_value(result.contents.first()).unwrap_or_default();
        let html = pages::html(&contents).map_err(|why| Failure::tool(format_args!("`{uri}` {why}")))?;
        Ok(Page { html, meta: contents["_meta"]["ui"].clone() })
    }

    /// Passes a request of the page on to the server.
    async fn forward(&self, Message { method, params }: Message) -> Result<Value, Failure> {
        let text = |member: &str| params[member].as_str().map(str::to_owned);
        let result = match &*method {
            "tools/call" => {
                let name = text("name").unwrap_or_default();
                let tools = self.session.tools().await?;
                let tool = find(&tools, Some(&name), |tool| &tool.name, "tool")?;
                if !pages::may_call(&meta(tool)) {
                    return Err(Failure::tool(format_args!("`{name}` is not visible to pages")));
                }
                let arguments = params["arguments"].as_object().cloned().unwrap_or_default();
                serde_json::to_value(call::call(self.session, tool, arguments, false).await?)
            }
            "resources/read" => serde_json::to_value(read::read(self.session, &text("uri").unwrap_or_default()).await?),
            _ => return Err(Failure::tool(format_args!("`{method}` is not passed on"))),
        };
        let result = result.map_err(|error| Failure::tool(error.to_string()))?;
        Ok(json!({ "result": result }))
    }
}
