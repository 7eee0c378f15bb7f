//! `cargo mcp install --list`: lists the configuration files of clients.

use std::path::Path;

use super::{
    args::Args,
    client::{CLIENTS, Client, Scope, project},
    document::Document,
    file::File,
    server,
};
use crate::{directories::Directories, failure::Failure, output::out};

/// Prints the configuration files of the chosen clients, and whether they contain the server.
pub(super) fn run(args: &Args, directories: &Directories) -> Result<(), Failure> {
    let name = match (&args.name, &args.server) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(server)) => Some(server::default_name(Some(server), &args.build())?),
        (None, None) => server::default_name(None, &args.build()).ok(),
    };
    let is_chosen =
        |client: &&Client| args.clients.client.is_empty() || args.clients.client.iter().any(|id| id == client.id);
    let mut rows = Vec::new();
    for client in CLIENTS.iter().filter(is_chosen) {
        for scope in [Scope::User, Scope::Project] {
            let Some(path) = client.file(scope, directories, &project()) else { continue };
            let state = state(client, &path, name.as_deref());
            rows.push([client.id.to_owned(), scope.as_str().to_owned(), state, path.display().to_string()]);
        }
    }
    out!("{}", columns(&rows));
    Ok(())
}

/// Summarizes the content of a file.
fn state(client: &Client, path: &Path, name: Option<&str>) -> String {
    let file = match File::read(path.to_owned()) {
        Ok(file) if !file.exists() => return "no file".to_owned(),
        Ok(file) => file,
        Err(_) => return "unreadable".to_owned(),
    };
    let document = file.text().ok().and_then(|text| Document::parse(client.syntax, client.object, text).ok());
    match (document.as_ref().map(Document::names), name) {
        (None, _) => "invalid".to_owned(),
        (Some(names), Some(name)) if names.contains(&name) => format!("has `{name}`"),
        (Some(names), Some(name)) => format!("no `{name}`, {} others", names.len()),
        (Some(names), None) => format!("{} servers", names.len()),
    }
}

fn columns(rows: &[[String; 4]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..3).map(width).collect();
    let line = |row: &[String; 4]| {
        format!("{:1$}  {2:3$}  {4:5$}  {6}\n", row[0], widths[0], row[1], widths[1], row[2], widths[2], row[3])
    };
    rows.iter().map(line).collect()
}
