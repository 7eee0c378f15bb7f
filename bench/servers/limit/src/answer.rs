use std::{borrow::Cow, io};

use serde::Deserialize;
use serde_json::value::RawValue;
use work::Search;

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

#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// Appends the answer to a message, if it wants one.
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
        other => return Err(io::Error::other(format!("{other} is not measured"))),
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
        other => return Err(io::Error::other(format!("{other} is not measured"))),
    }
    out.extend_from_slice(b"}]");
    Ok(())
}
