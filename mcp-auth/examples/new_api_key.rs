//! Creates an API key: `cargo run -p mcp-runtime-auth --example new_api_key -- PRINCIPAL [SCOPE…]`.
//!
//! Prints the key to stdout, and its entry for the file to stderr.

use std::{
    env,
    io::{self, Write as _},
};

use mcp_auth::NewApiKey;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let principal = arguments.next().ok_or("expected the name of a principal, and optionally scopes")?;
    let key = NewApiKey::generate(principal)?.with_scopes(arguments);
    writeln!(
        io::stderr(),
        "add this to the array `keys` of the file:\n{}\n\nthe key, which is not stored:",
        key.entry()
    )?;
    writeln!(io::stdout(), "{}", key.secret())?;
    Ok(())
}
