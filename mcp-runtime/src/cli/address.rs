//! Reports the URL of an HTTP server: on stderr for people, in a file for programs.

use std::{env, io, path::Path};

use super::show::Package;
use crate::{
    replace_file::{Readers, replace_file},
    stderr,
};

/// The environment variable that names the file to which the endpoint's URL is written once the server accepts
/// connections.
const ADDRESS_FILE: &str = "MCP_ADDRESS_FILE";

/// Reports the URL of the endpoint, and how requests carry the token of a file. The token itself is not printed, since
/// logs are kept and shared.
///
/// # Errors
///
/// Returns an error if `MCP_ADDRESS_FILE` is set and the file cannot be written.
pub(super) fn report(package: &Package, url: &str, token_file: Option<&Path>) -> io::Result<()> {
    let mut lines = format!("{} listens on {url}\n", package.name);
    if let Some(file) = token_file.map(Path::display) {
        lines.push_str(&format!(
            "requests need the token in `{file}`, as with `curl -H \"Authorization: Bearer $(cat '{file}')\"`\n"
        ));
    }
    stderr::writer().push(lines.as_bytes());
    let Some(file) = env::var_os(ADDRESS_FILE).filter(|file| !file.is_empty()) else { return Ok(()) };
    replace_file(file.as_ref(), &format!("{url}\n"), Readers::Default).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write the file that `{ADDRESS_FILE}` names: {error}"))
    })
}
