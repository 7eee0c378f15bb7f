//! A server that reads arbitrary lines answers each request exactly once, and writes only valid messages.

#![no_main]

use std::collections::HashMap;

use fuzz::{
    json::{self, Members},
    output::Output,
    runtime,
    server::server,
};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let mut written = Vec::new();
    runtime().block_on(server().serve(data, &mut written)).expect("reading and writing memory cannot fail");
    let mut output = Output::default();
    output.add_lines(&written);

    let mut expected = Expected::default();
    data.split(|byte| *byte == b'\n').for_each(|line| expected.add_line(line));
    for (id, count) in &output.responses {
        let most = expected.most.get(id).copied().unwrap_or_default();
        assert!(*count <= most, "{count} responses to {id}, which was sent {most} times\n{}", show(data, &written));
    }
    for (id, least) in &expected.least {
        let cancelled = expected.cancelled.get(id).copied().unwrap_or_default();
        let count = output.responses.get(id).copied().unwrap_or_default();
        assert!(
            count + cancelled >= *least,
            "{count} responses to {id}, which was sent {least} times and cancelled {cancelled} times\n{}",
            show(data, &written)
        );
    }
});

fn show(input: &[u8], output: &[u8]) -> String {
    format!("input:\n{}\noutput:\n{}", String::from_utf8_lossy(input), String::from_utf8_lossy(output))
}

/// The number of responses to each id.
#[derive(Debug, Default)]
struct Expected {
    least: HashMap<String, usize>,
    most: HashMap<String, usize>,
    cancelled: HashMap<String, usize>,
}

impl Expected {
    fn add_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let Some(text) = std::str::from_utf8(line).ok().filter(|text| text.len() < 1 << 16 && json::is_json(text))
        else {
            return self.expect("null", 1, 1);
        };
        if let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(text) {
            // Only some revisions have batches; otherwise there is one error.
            self.expect("null", 0, 1);
            return batch.iter().for_each(|message| self.add(message.get(), 0));
        }
        self.add(text, 1);
    }

    fn add(&mut self, text: &str, least: usize) {
        let Some(message) = Members::read(text) else { return self.expect("null", 0, 1) };
        let get = |name| message.get(name);
        if let Some(id) = get("params").and_then(Members::read).and_then(|params| params.get("requestId"))
            && let Some(id) = json::id(id)
        {
            *self.cancelled.entry(id).or_default() += 1;
        }
        let id = get("id").and_then(json::id);
        let names = ["jsonrpc", "id", "method", "params", "result", "error"];
        let is_unclear = message.has_duplicate(&names) || get("id").is_some_and(|id| id.len() > 1024);
        match id {
            _ if is_unclear => {
                self.expect("null", 0, 1);
                message.0.iter().filter(|(name, _)| name == "id").filter_map(|(_, id)| json::id(id)).for_each(|id| {
                    self.expect(&id, 0, 1);
                });
            }
            Some(id) => {
                let is_response = get("method").is_none() && (get("result").is_some() || get("error").is_some());
                match (is_response, get("jsonrpc") == Some(r#""2.0""#)) {
                    (true, true) => {}
                    // Its id is one of the server.
                    (true, false) => self.expect("null", least, 1),
                    _ => self.expect(&id, least, 1),
                }
            }
            // A notification or an error response without an id needs no response, anything else is invalid.
            None => self.expect("null", 0, 1),
        }
    }

    fn expect(&mut self, id: &str, least: usize, most: usize) {
        *self.least.entry(id.to_owned()).or_default() += least;
        *self.most.entry(id.to_owned()).or_default() += most;
    }
}
