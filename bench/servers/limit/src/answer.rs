use std::{borrow::Cow, io, sync::LazyLock};

use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use work::{Found, Search};

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

#[derive(Deserialize, JsonSchema)]
struct Echo<'a> {
    /// The message.
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first addend.
    a: f64,
    /// The second addend.
    b: f64,
}

/// The arguments of a filler tool, which is listed but never called.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Fill {
    /// Name of an item.
    text: String,
    /// The count.
    count: u32,
}

/// The elements of the constant result of `tools/list`.
static LIST: LazyLock<String> = LazyLock::new(|| {
    let fill = schema_for!(Fill);
    let fillers = (0..100).map(
        |number| json!({ "name": format!("filler_{number:03}"), "description": "Fill the list.", "inputSchema": fill }),
    );
    let search = json!({
        "name": "search",
        "description": "Search the catalogue.",
        "inputSchema": schema_for!(Search),
        "outputSchema": schema_for!(Found),
    });
    let tools = [
        json!({ "name": "add", "description": "Add two numbers.", "inputSchema": schema_for!(Add) }),
        json!({ "name": "echo", "description": "Return the message.", "inputSchema": schema_for!(Echo<'_>) }),
        search,
    ];
    let tools: Vec<_> = tools.into_iter().chain(fillers).map(|tool| tool.to_string()).collect();
    tools.join(",")
});

/// Appends the response to a message, if it is a request.
pub fn answer(message: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let request: Request<'_> = serde_json::from_slice(message)?;
    let (Some(id), Some(params)) = (request.id, request.params) else { return Ok(()) };
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.get().as_bytes());
    out.extend_from_slice(br#","result":{"#);
    match request.method {
        "initialize" => out.extend_from_slice(
            br#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"limit","version":"0"}"#,
        ),
        "tools/call" => {
            let call: Call<'_> = serde_json::from_str(params.get())?;
            run(call.name, call.arguments.get(), out)?;
        }
        "tools/list" => {
            out.extend_from_slice(br#""tools":["#);
            out.extend_from_slice(LIST.as_bytes());
            out.push(b']');
        }
        other => return Err(io::Error::other(format!("unsupported: {other}"))),
    }
    out.extend_from_slice(b"}}");
    Ok(())
}

fn run(name: &str, arguments: &str, out: &mut Vec<u8>) -> io::Result<()> {
    out.extend_from_slice(br#""content":[{"type":"text","text":"#);
    match name {
        "echo" => serde_json::to_writer(&mut *out, &serde_json::from_str::<Echo<'_>>(arguments)?.text)?,
        "add" => {
            let Add { a, b } = serde_json::from_str(arguments)?;
            serde_json::to_writer(&mut *out, &(a + b).to_string())?;
        }
        "search" => {
            let search: Search = serde_json::from_str(arguments)?;
            let found = serde_json::to_string(&work::search(&search.query, &search.filter, &search.page))?;
            serde_json::to_writer(&mut *out, &found)?;
            out.extend_from_slice(br#"}],"structuredContent":"#);
            out.extend_from_slice(found.as_bytes());
            return Ok(());
        }
        other => return Err(io::Error::other(format!("unsupported: {other}"))),
    }
    out.extend_from_slice(b"}]");
    Ok(())
}
