//! A notebook for each user, protected by OAuth.
//!
//! Clients send an access token of an authorization server with each request. Reading requires the scope `notes:read`, writing
//! `notes:write`, and the overview of all users `notes:admin`. A client whose token lacks a scope is told which one, asks its user,
//! and repeats the call.
//!
//! `sh demo.sh` starts an authorization server and this server, and shows how to log in with `cargo mcp login` and to
//! call the tools. With an authorization server of your own:
//!
//! ```text
//! cargo run -p protected -- --http 127.0.0.1:8080 --issuer https://id.example.com --resource http://127.0.0.1:8080/mcp
//! cargo mcp login http://127.0.0.1:8080/mcp
//! cargo mcp call http://127.0.0.1:8080/mcp add_note 'Buy milk'
//! ```

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mcp_auth::Jwt;
use mcp_runtime::{Context, Server, model::Structured, server, tool};

/// The maximum number of users with notes.
const MAX_USERS: usize = 10_000;

/// The maximum number of notes of each user.
const MAX_NOTES: usize = 100;

/// The notes of each user, by principal.
#[derive(Default)]
struct Notes(Mutex<HashMap<String, Vec<String>>>);

impl Notes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// List your notes.
#[tool(read_only, scopes("notes:read"))]
fn list_notes(notes: &Notes, ctx: &Context) -> Result<Vec<String>, &'static str> {
    Ok(notes.lock().get(user(ctx)?).cloned().unwrap_or_default())
}

/// Add a note.
#[tool(destructive = false, scopes("notes:write"))]
fn add_note(
    notes: &Notes,
    ctx: &Context,
    /// The text of the note.
    #[arg(length = 1..=1000)]
    text: String,
) -> Result<String, &'static str> {
    let mut all = notes.lock();
    if all.len() >= MAX_USERS && !all.contains_key(user(ctx)?) {
        return Err("there are too many users");
    }
    let mine = all.entry(user(ctx)?.to_owned()).or_default();
    if mine.len() >= MAX_NOTES {
        return Err("there are too many notes; delete some first");
    }
    mine.push(text);
    Ok(format!("you have {} notes", mine.len()))
}

/// Delete all your notes.
#[tool(destructive, scopes("notes:write"))]
fn delete_notes(notes: &Notes, ctx: &Context) -> Result<String, &'static str> {
    let deleted = notes.lock().remove(user(ctx)?).unwrap_or_default();
    Ok(format!("deleted {} notes", deleted.len()))
}

/// Count the notes of each user.
#[tool(read_only, scopes("notes:admin"))]
fn count_notes(notes: &Notes) -> Structured<HashMap<String, usize>> {
    Structured::new(notes.lock().iter().map(|(user, notes)| (user.clone(), notes.len())).collect())
}

/// Returns the name of the caller: the issuer and the subject of the token.
fn user(ctx: &Context) -> Result<&str, &'static str> {
    ctx.principal().ok_or("notes belong to users: log in first")
}

#[server]
async fn main(
    server: Server,
    /// The issuer of access tokens, such as `https://id.example.com`.
    #[arg(env = "ISSUER")]
    issuer: String,
    /// The URL at which clients reach this server. Tokens must be intended for it.
    #[arg(env = "RESOURCE")]
    resource: String,
) -> Result<Server, mcp_auth::Error> {
    let tokens = Jwt::discover(issuer).await?.resource(resource);
    Ok(protected(server).authenticate(tokens))
}

/// Adds everything except for the authenticator.
fn protected(server: Server) -> Server {
    server
        .with_state(Notes::default())
        // Requests of clients that have just connected: every user may read.
        .require_scopes("notes:read")
        .scope_implies("notes:write", ["notes:read"])
        .scope_implies("notes:admin", ["notes:write"])
}

#[cfg(test)]
mod tests;
