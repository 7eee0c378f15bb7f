//! `cargo mcp install --list`: where the clients' files are, and what is in them.

use std::path::Path;

use super::{
    Args,
    clients::{CLIENTS, Client, Scope},
    document::Document,
    file::File,
    places::Places,
    project, server,
};
use crate::failure::Failure;

/// Prints which clients there are, where their files are, and what is in them.
pub(super) fn run(args: &Args, places: &Places) -> Result<(), Failure> {
    let name = match (&args.name, &args.server) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(server)) => Some(server::name_of(Some(server), &args.build())?),
        (None, None) => server::name_of(None, &args.build()).ok(),
    };
    let chosen =
        |client: &&Client| args.clients.client.is_empty() || args.clients.client.iter().any(|id| id == client.id);
    let mut rows = Vec::new();
    for client in CLIENTS.iter().filter(chosen) {
        for scope in [Scope::User, Scope::Project] {
            let Some(path) = client.file(scope, places, &project()) else { continue };
            let state = state(client, &path, name.as_deref());
            rows.push([client.id.to_owned(), scope.as_str().to_owned(), state, path.display().to_string()]);
        }
    }
    anstream::print!("{}", columns(&rows));
    Ok(())
}

/// What is in a file, in few words.
fn state(client: &Client, path: &Path, name: Option<&str>) -> String {
    let file = match File::read(path.to_owned()) {
        Ok(file) if !file.exists() => return "no file".to_owned(),
        Ok(file) => file,
        Err(_) => return "cannot be read".to_owned(),
    };
    let names = file.text().ok().and_then(|text| Document::parse(client, text).ok()?.names().ok());
    match (names, name) {
        (None, _) => "broken".to_owned(),
        (Some(names), Some(name)) if names.iter().any(|there| there == name) => format!("has `{name}`"),
        (Some(names), Some(name)) => format!("no `{name}` among {}", names.len()),
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
