//! The attributes of measurements, by the semantic conventions. All values come from sets that clients cannot extend.

use mcp_runtime::telemetry::{BackendOperation, Operation, SessionEnd, StreamEnd};

/// The boundaries of the buckets of durations, in seconds: those of the conventions, and more for what lasts longer.
pub(crate) const BUCKETS: [f64; CONVENTION_BUCKETS + 4] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 1800.0, 7200.0, 28800.0, 86400.0];

/// The number of boundaries in the conventions, which end at five minutes.
const CONVENTION_BUCKETS: usize = 14;

/// The attributes of one measurement, of which some are absent. Each is in the same place in all measurements of a metric.
pub(crate) type Attributes<'a> = [(&'static str, Option<&'a str>); 10];

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

    /// Returns the boundaries of its buckets. The conventions set those of their own metrics, including sessions.
    pub(crate) fn buckets(self) -> &'static [f64] {
        match self {
            Self::ServerOperation | Self::ClientOperation | Self::Session | Self::Backend => {
                &BUCKETS[..CONVENTION_BUCKETS]
            }
            Self::Task | Self::Stream => &BUCKETS,
        }
    }

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

/// `status_code` is that of the operation as text.
pub(crate) fn of_operation<'a>(operation: &Operation<'a>, status_code: Option<&'a str>) -> Attributes<'a> {
    let network = operation.network;
    [
        ("mcp.method.name", Some(operation.method)),
        ("gen_ai.tool.name", operation.tool),
        ("gen_ai.operation.name", operation.tool.map(|_| "execute_tool")),
        ("gen_ai.prompt.name", operation.prompt),
        ("mcp.protocol.version", operation.protocol_version),
        ("network.transport", Some(network.transport)),
        ("network.protocol.name", network.protocol_name),
        ("network.protocol.version", network.protocol_version),
        ("error.type", operation.error_type),
        ("rpc.response.status_code", status_code),
    ]
}

const ABSENT: (&str, Option<&str>) = ("", None);

pub(crate) fn of_session<'a>(session: &SessionEnd<'a>) -> Attributes<'a> {
    let mut attributes = [ABSENT; 10];
    attributes[0] = ("mcp.protocol.version", Some(session.protocol_version));
    attributes[1] = ("network.transport", Some(session.network.transport));
    attributes[2] = ("network.protocol.name", session.network.protocol_name);
    attributes[3] = ("network.protocol.version", session.network.protocol_version);
    attributes[4] = ("error.type", session.error_type);
    attributes
}

pub(crate) fn of_stream(stream: &StreamEnd) -> Attributes<'static> {
    let mut attributes = [ABSENT; 10];
    attributes[0] = ("mcp.stream.kind", Some(stream.kind));
    attributes
}

pub(crate) fn of_backend(operation: &BackendOperation) -> Attributes<'static> {
    let mut attributes = [ABSENT; 10];
    attributes[0] = ("mcp.backend.operation", Some(operation.name));
    attributes[1] = ("error.type", operation.error_type);
    attributes
}
