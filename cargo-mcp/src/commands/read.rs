//! `cargo mcp read`: reads a resource.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult,
    ResourceContents, ServerResult,
};

use crate::{
    content::{Files, decoded, unwritable, write_new},
    failure::Failure,
    host::HostArgs,
    near::listed,
    near::nearest,
    session::{RequestOptions, Round, Rounds, Server, Session, SessionArgs, print_raw, with},
    stdout::outln,
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

Text goes to stdout as it is. Bytes go to stdout where a program reads them, and to a file where
a terminal would show them."
)]
pub(crate) struct Args {
    /// The server (a package of this workspace, or a URL; may be left out) and the resource's URI
    #[arg(value_name = "SERVER|URI", required = true)]
    words: Vec<String>,
    /// Print the whole result as JSON
    #[arg(long, visible_alias = "raw")]
    json: bool,
    /// Write what is read to a file, or to fresh files in a directory
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
        return Err(failure.help("`cargo mcp list --resources` shows what there is"));
    };
    let named = Server { name: server.as_deref(), word: Some(uri) };
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

/// The server's name, unless the only word is the URI: a URL may be either.
fn server(session: &SessionArgs, words: &mut Vec<String>) -> Option<String> {
    match words.len() {
        1 => None,
        _ => session.target.take_server(words),
    }
}

async fn read(session: &Session, uri: &str) -> Result<ReadResourceResult, Failure> {
    let what = format!("`{uri}`");
    session.set_log_level().await;
    let request = |round: Round| {
        let mut params = ReadResourceRequestParams::new(uri);
        (params.input_responses, params.request_state) = (round.responses, round.state);
        ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
    };
    match Rounds::default().request(session, &what, RequestOptions::default(), request).await? {
        Ok(ServerResult::ReadResourceResult(result)) => Ok(result),
        Ok(_) => Err(Failure::connection(format_args!("{what}: the server's answer is no resource"))),
        Err(error) => Err(unread(session, uri, error).await?),
    }
}

/// Why a resource was not read, with URIs that may have been meant.
async fn unread(session: &Session, uri: &str, error: ErrorData) -> Result<Failure, Failure> {
    let unknown = [ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND];
    if !unknown.contains(&error.code) {
        return Ok(session.refused(&format!("`{uri}`"), error));
    }
    // What error data: to it is the URI once more.
    let failure = Failure::tool(format_args!("`{uri}`: {} (code {})", error.message, error.code.0));
    let resources = session.resources().await?;
    let templates = session.templates().await?;
    let uris = resources.iter().map(|resource| &*resource.uri);
    let uris: Vec<&str> = uris.chain(templates.iter().map(|template| &*template.uri_template)).collect();
    Ok(match nearest(uri, uris.iter().copied()) {
        Some(near) => failure.help(format_args!("did you mean `{near}`?")),
        None if uris.is_empty() => failure.help("the server has no resources"),
        None => {
            let more = if uris.len() > MANY { ", …; `cargo mcp list --resources` shows all" } else { "" };
            failure.help(format_args!("there are {}{more}", listed(&uris[..uris.len().min(MANY)])))
        }
    })
}

/// How many URIs are told before they are too many.
const MANY: usize = 10;

fn print(contents: &ResourceContents, uri: &str) -> Result<(), Failure> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => {
            out(text.as_bytes())?;
            if !text.ends_with('\n') && std::io::stdout().is_terminal() {
                outln!();
            }
            Ok(())
        }
        ResourceContents::BlobResourceContents { blob, mime_type, .. } => {
            let bytes = decoded(blob)?;
            if !std::io::stdout().is_terminal() {
                return out(&bytes);
            }
            let path = Files::new(None, uri).write(&bytes, mime_type.as_deref().unwrap_or_default())?;
            anstream::eprintln!("saved {}", path.display());
            Ok(())
        }
        _ => Err(Failure::tool("the resource is of a kind that this client does not know; `--json` shows it")),
    }
}

fn out(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(bytes) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::usage(format_args!("stdout cannot be written: {error}"))),
    }
}

fn write(result: &ReadResourceResult, path: &Path, uri: &str) -> Result<(), Failure> {
    let is_directory = path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/');
    for contents in &result.contents {
        let (bytes, mime) = match contents {
            ResourceContents::TextResourceContents { text, mime_type, .. } => (text.as_bytes().to_vec(), mime_type),
            ResourceContents::BlobResourceContents { blob, mime_type, .. } => (decoded(blob)?, mime_type),
            _ => continue,
        };
        let path = match is_directory || result.contents.len() > 1 {
            true => Files::new(Some(path), uri).write(&bytes, mime.as_deref().unwrap_or("text/plain"))?,
            false => {
                write_new(path, &bytes).map_err(|error| unwritable(path, &error))?;
                path.to_owned()
            }
        };
        anstream::eprintln!("saved {}", path.display());
    }
    Ok(())
}
