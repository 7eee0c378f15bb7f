//! 2025-03-26 to 2025-11-25: sessions.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

mod calls;
mod lifetime;
mod requests;

use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}
