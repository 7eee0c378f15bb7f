//! `cargo mcp read`: reads a resource.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use mcp_runtime_lock::covers;
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult,
    ResourceContents, ServerResult,
};

use crate::{
    content::{Files, decode_base64, unwritable, write_new},
    failure::{Failure, name_list, nearest},
    host::HostArgs,
    output::{errln, outln},
    session::{NamedServer, RequestOptions, Round, Rounds, Session, SessionArgs, print_raw, rejection, with},
};

/// Read a resource
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "cargo mcp read [OPTIONS] [SERVER] URI [-- COMMAND...]",
    after_help = "\
Examples:
  cargo mcp read notes notes://all
  cargo mcp read test://static-binary --output pixel.png -- target/debug/everything
  cargo mcp read test://static-binary -- target/debug/everything > pixel.png

Text is printed unchanged. Binary content is written to a file if stdout is a terminal, and to
stdout otherwise."
)]
pub(crate) struct Args {
    /// Optional server (package of this workspace or URL) and the URI of the resource
    #[arg(value_name = "SERVER|URI", required = true)]
    words: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    /// Write the content to a new file, or to new files in a directory
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    let server = server(&args.session, &mut args.words);
    let [uri] = &*args.words else {
        let failure = Failure::usage("expected one URI: `cargo mcp read [SERVER] URI`");
        return Err(failure.help("`cargo mcp list --resources` lists the resources"));
    };
    let named = NamedServer { name: server.as_deref(), word: Some(uri) };
    with(&args.session, named, &args.host, async |session| {
        let result = read(session, uri).await?;
        session.host().finish();
        if args.json {
            return print_raw(&result);
        }
        match args.output.as_deref() {
            Some(path) => write(&result, path, uri),
            None => result.contents.iter().try_for_each(|contents| print(contents, uri)),
        }
    })
    .await
}

/// Removes the server from the words. A single word is always the URI, even if it is a URL.
fn server(session: &SessionArgs, words: &mut Vec<String>) -> Option<String> {
    if words.len() == 1 { None } else { session.target.take_server(words) }
}

pub(super) async fn read(session: &Session, uri: &str) -> Result<ReadResourceResult, Failure> {
    let what = format!("`{uri}`");
    session.set_log_level().await;
    let request = |round: Round| {
        let mut params = ReadResourceRequestParams::new(uri);
        (params.input_responses, params.request_state) = (round.responses, round.state);
        ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
    };
    match Rounds::default().request(session, &what, RequestOptions::default(), request).await? {
        Ok(ServerResult::ReadResourceResult(result)) => Ok(result),
        Ok(_) => Err(Failure::connection(format_args!("{what}: the server returned a result of the wrong type"))),
        Err(error) => Err(read_failure(session, uri, error).await?),
    }
}

/// Converts an error, with similar URIs as suggestions.
async fn read_failure(session: &Session, uri: &str, error: ErrorData) -> Result<Failure, Failure> {
    let unknown = [ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND];
    if !unknown.contains(&error.code) {
        return Ok(rejection(session, &format!("`{uri}`"), error));
    }
    // `error.data` only repeats the URI.
    let failure = Failure::response(&format!("`{uri}`"), error);
    let resources = session.resources().await?;
    let templates = session.templates().await?;
    // The URI is no misspelled form of a template that it matches.
    if let Some(template) = templates.iter().find(|template| covers(&template.uri_template, uri)) {
        return Ok(failure.help(format_args!(
            "the URI matches the template `{}`; check the values of its variables",
            template.uri_template
        )));
    }
    let uris = resources.iter().map(|resource| &*resource.uri);
    let uris: Vec<&str> = uris.chain(templates.iter().map(|template| &*template.uri_template)).collect();
    Ok(match nearest(uri, uris.iter().copied()) {
        Some(near) => failure.help(format_args!("did you mean `{near}`?")),
        None if uris.is_empty() => failure.help("there are no resources"),
        None => {
            let more = if uris.len() > MAX_SUGGESTIONS { ", …; `cargo mcp list --resources` lists all" } else { "" };
            failure.help(format_args!(
                "available resources: {}{more}",
                name_list(&uris[..uris.len().min(MAX_SUGGESTIONS)])
            ))
        }
    })
}

/// The maximum number of URIs to suggest.
const MAX_SUGGESTIONS: usize = 10;

fn print(contents: &ResourceContents, uri: &str) -> Result<(), Failure> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => {
            if !std::io::stdout().is_terminal() {
                return out(text.as_bytes());
            }
            outln!("{}", text.strip_suffix('\n').unwrap_or(text));
            Ok(())
        }
        ResourceContents::BlobResourceContents { blob, mime_type, .. } => {
            let bytes = decode_base64(blob)?;
            if !std::io::stdout().is_terminal() {
                return out(&bytes);
            }
            let path = Files::new(None, uri).write(&bytes, mime_type.as_deref().unwrap_or_default())?;
            errln!("saved {}", path.display());
            Ok(())
        }
        _ => Err(Failure::tool("unsupported kind of resource; `--json` shows it")),
    }
}

fn out(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(bytes) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::usage(format_args!("cannot write to stdout: {error}"))),
    }
}

fn write(result: &ReadResourceResult, path: &Path, uri: &str) -> Result<(), Failure> {
    let is_directory = path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/');
    for contents in &result.contents {
        let (bytes, mime) = match contents {
            ResourceContents::TextResourceContents { text, mime_type, .. } => (text.as_bytes().to_vec(), mime_type),
            ResourceContents::BlobResourceContents { blob, mime_type, .. } => (decode_base64(blob)?, mime_type),
            _ => continue,
        };
        let path = if is_directory || result.contents.len() > 1 {
            Files::new(Some(path), uri).write(&bytes, mime.as_deref().unwrap_or("text/plain"))?
        } else {
            write_new(path, &bytes).map_err(|error| unwritable(path, &error))?;
            path.to_owned()
        };
        errln!("saved {}", path.display());
    }
    Ok(())
}
