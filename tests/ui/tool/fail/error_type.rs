use mcp_runtime::{ResourceLink, Server, prompt, resource, server, tool};

#[derive(Debug)]
enum NoteError {
    Missing,
}

#[tool]
fn of_a_tool() -> Result<String, NoteError> {
    Err(NoteError::Missing)
}

#[tool]
async fn of_another_crate(path: String) -> Result<(), std::ffi::OsString> {
    Err(path.into())
}

#[prompt]
fn of_a_prompt() -> Result<String, NoteError> {
    Err(NoteError::Missing)
}

#[resource("notes://{id}", list = list)]
fn of_a_resource(id: u8) -> Result<String, NoteError> {
    Err(match id {
        _ => NoteError::Missing,
    })
}

fn list() -> Result<Vec<ResourceLink>, String> {
    Ok(Vec::new())
}

#[server]
fn main(server: Server) -> Result<Server, NoteError> {
    drop(server);
    Err(NoteError::Missing)
}
