//! Reports the URL of an HTTP server: on stderr for people, in a file for programs.

use std::{env, io};

use super::package::Package;
use crate::{
    replace_file::{Readers, replace_file},
    stderr,
};

/// The environment variable that names the file to which the endpoint's URL is written once the server accepts
/// connections.
const ADDRESS_FILE: &str = "MCP_ADDRESS_FILE";

/// Reports the URL of the endpoint.
///
/// # Errors
///
/// Returns an error if `MCP_ADDRESS_FILE` is set and the file cannot be written.
pub(super) fn report(package: &Package, url: &str) -> io::Result<()> {
    let line = format!("{} listens on {url}\n", package.name);
    stderr::writer().push(line.as_bytes());
    let Some(file) = env::var_os(ADDRESS_FILE).filter(|file| !file.is_empty()) else { return Ok(()) };
    replace_file(file.as_ref(), &format!("{url}\n"), Readers::Default).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write the file that `{ADDRESS_FILE}` names: {error}"))
    })
}
