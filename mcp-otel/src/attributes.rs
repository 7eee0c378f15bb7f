//! The attributes of measurements, by the semantic conventions. All values come from sets that clients cannot extend.

use std::borrow::Cow;

use mcp_runtime::telemetry::{BackendOperation, Operation, SessionEnd, StreamEnd};

/// The boundaries of the buckets of durations, in seconds.
pub(crate) const BUCKETS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The attributes of one measurement, of which some are absent.
pub(crate) type Attributes<'a> = [(&'static str, Option<Cow<'a, str>>); 10];

/// A histogram of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DurationMetric {
    ServerOperation,
    ClientOperation,
    Task,
    Session,
    Stream,
    Backend,
}

impl DurationMetric {
    pub(crate) const ALL: [Self; 6] =
        [Self::ServerOperation, Self::ClientOperation, Self::Task, Self::Session, Self::Stream, Self::Backend];

    /// Returns the name and a description.
    pub(crate) fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::ServerOperation => {
                ("mcp.server.operation.duration", "Time to handle a request or notification of a client")
            }
            Self::ClientOperation => {
                ("mcp.client.operation.duration", "Time until a client answered a request of the server")
            }
            Self::Task => ("mcp.server.task.duration", "Time that the function of a task ran"),
            Self::Session => ("mcp.server.session.duration", "Time from the start of a session to its end"),
            Self::Stream => {
                ("mcp.server.stream.duration", "Time from the start of an event stream over HTTP to its end")
            }
            Self::Backend => ("mcp.server.backend.operation.duration", "Time of an operation of the shared backend"),
        }
    }
}

pub(crate) fn of_operation<'a>(operation: &Operation<'a>) -> Attributes<'a> {
    let network = operation.network;
    let text = |value: Option<&'a str>| value.map(Cow::Borrowed);
    [
        ("mcp.method.name", text(Some(operation.method))),
        ("gen_ai.tool.name", text(operation.tool)),
        ("gen_ai.operation.name", text(operation.tool.map(|_| "execute_tool"))),
        ("gen_ai.prompt.name", text(operation.prompt)),
        ("mcp.protocol.version", text(operation.protocol_version)),
        ("network.transport", text(Some(network.transport))),
        ("network.protocol.name", text(network.protocol_name)),
        ("network.protocol.version", text(network.protocol_version)),
        ("error.type", text(operation.error_type)),
        ("rpc.response.status_code", operation.status_code.map(|code| Cow::Owned(code.to_string()))),
    ]
}

pub(crate) fn of_session<'a>(session: &SessionEnd<'a>) -> Attributes<'a> {
    let mut attributes = [const { ("", None) }; 10];
    attributes[0] = ("mcp.protocol.version", Some(Cow::Borrowed(session.protocol_version)));
    attributes[1] = ("network.protocol.name", session.network.protocol_name.map(Cow::Borrowed));
    attributes[2] = ("error.type", session.error_type.map(Cow::Borrowed));
    attributes
}

pub(crate) fn of_stream(stream: &StreamEnd) -> Attributes<'static> {
    let mut attributes = [const { ("", None) }; 10];
    attributes[0] = ("mcp.stream.kind", Some(Cow::Borrowed(stream.kind)));
    attributes
}

pub(crate) fn of_backend(operation: &BackendOperation) -> Attributes<'static> {
    let mut attributes = [const { ("", None) }; 10];
    attributes[0] = ("mcp.backend.operation", Some(Cow::Borrowed(operation.name)));
    attributes[1] = ("error.type", operation.error_type.map(Cow::Borrowed));
    attributes
}
