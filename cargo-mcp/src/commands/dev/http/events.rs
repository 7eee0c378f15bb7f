//! Server-sent events: found in the bytes of a stream, and changed in single lines only.

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    rest: Vec<u8>,
}

/// One event, with the empty line at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    text: String,
}

impl Splitter {
    /// Takes bytes as they come; gives the events that are whole.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = end_of_event(&self.rest) {
            let event: Vec<u8> = self.rest.drain(..end).collect();
            events.push(Event { text: String::from_utf8_lossy(&event).into_owned() });
        }
        events
    }
}

/// Where the first empty line ends.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let mut line = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' {
            if matches!(&bytes[line..at], b"" | b"\r") {
                return Some(at + 1);
            }
            line = at + 1;
        }
    }
    None
}

impl Event {
    /// An event that carries a message.
    pub(super) fn of_message(message: &str) -> Self {
        Self { text: format!("event: message\ndata: {message}\n\n") }
    }

    /// What keeps a connection from being taken for a dead one.
    pub(super) fn keep_alive() -> Self {
        Self { text: ": keep-alive\n\n".to_owned() }
    }

    /// Its data; none if it has none.
    pub(super) fn data(&self) -> Option<String> {
        let lines: Vec<&str> = self.fields("data").collect();
        (!lines.is_empty()).then(|| lines.join("\n")).filter(|data| !data.trim().is_empty())
    }

    fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let value = move |line: &'a str| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            Some(value.strip_prefix(' ').unwrap_or(value))
        };
        self.text.lines().filter_map(value)
    }

    /// The same event with other data.
    pub(super) fn with_data(&self, data: &str) -> Self {
        let others = self.text.lines().filter(|line| !line.is_empty() && !line.starts_with("data:"));
        let lines: String = others.map(|line| format!("{line}\n")).collect();
        Self { text: format!("{lines}data: {data}\n\n") }
    }

    /// The same event, whose id says which server it is of.
    pub(super) fn of_server(&self, server: u64) -> Self {
        if self.fields("id").next().is_none() {
            return self.clone();
        }
        let id = |line: &str| match line.strip_prefix("id:") {
            Some(id) if !id.trim().is_empty() => format!("id: {server}-{}\n", id.trim()),
            _ => format!("{line}\n"),
        };
        Self { text: self.text.lines().map(id).collect() }
    }

    pub(super) fn into_bytes(self) -> bytes::Bytes {
        self.text.into()
    }
}

/// Reads an event's id as the client has it: which server it is of, and how that spells it.
pub(super) fn read_id(id: &str) -> Option<(u64, &str)> {
    let (server, id) = id.split_once('-')?;
    Some((server.parse().ok()?, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_they_come() {
        let stream = "id: 1\ndata: {\"a\":1}\n\n: alive\n\nevent: message\r\ndata: x\r\ndata: y\r\n\r\nrest";
        for size in 1..stream.len() {
            let mut splitter = Splitter::default();
            let events: Vec<_> = stream.as_bytes().chunks(size).flat_map(|bytes| splitter.add(bytes)).collect();
            let data: Vec<_> = events.iter().map(Event::data).collect();
            assert_eq!(data, [Some("{\"a\":1}".to_owned()), None, Some("x\ny".to_owned())], "{size}");
        }
    }

    #[test]
    fn ids_lead_back_to_their_server() {
        for (text, expected) in [
            ("id: 3-7\ndata: x\n\n", "id: 2-3-7\ndata: x\n\n"),
            ("id:7\n\n", "id: 2-7\n\n"),
            ("data: id: 7\n\n", "data: id: 7\n\n"),
            (": id: 7\n\n", ": id: 7\n\n"),
        ] {
            assert_eq!(Event { text: text.to_owned() }.of_server(2).text, expected);
        }
        assert_eq!(read_id("2-3-7"), Some((2, "3-7")));
        assert_eq!(read_id("7"), None);
    }

    #[test]
    fn only_the_data_is_changed() {
        let event = Event { text: "event: message\nid: 1\ndata: old\nretry: 5\n\n".to_owned() };
        assert_eq!(event.with_data("new").text, "event: message\nid: 1\nretry: 5\ndata: new\n\n");
    }
}
