//! Maps method names to the functions that answer them.

use super::{
    methods::{completion, entries, session},
    pending_requests::decode_progress,
    replicas::SessionMessage,
    request::{
        context::{ConnectionContext, RequestContext},
        method::Method,
        params::Params,
    },
    tasks,
};
use crate::{
    error::Fault,
    jsonrpc::{Id, MAX_ID_BYTES, RawJson},
    registry::ListKind,
};

/// Answers a request: writes its response, or starts a call whose response follows through the outbox.
///
/// # Errors
///
/// Returns the protocol error to respond with. In that case, nothing has been written.
pub(super) fn request(name: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    use Method::*;

    type MethodHandler = fn(&RequestContext<'_>, &mut Vec<u8>) -> Result<(), Fault>;

    let Some(method) = Method::named(name).filter(|method| method.is_in(request.dialect())) else {
        return entries::call_method(name, request, out);
    };
    let capabilities = request.registry.capabilities();
    let announces_changes = request.engine().announces_changes();
    let (is_offered, answer): (bool, MethodHandler) = match method {
        CallTool => (capabilities.tools, entries::call_tool),
        ListTools => (capabilities.tools, |request, out| entries::list(request, ListKind::Tools, out)),
        ReadResource => (capabilities.resources, entries::read_resource),
        ListResources => (capabilities.resources, |request, out| entries::list(request, ListKind::Resources, out)),
        ListTemplates => (capabilities.resources, |request, out| entries::list(request, ListKind::Templates, out)),
        GetPrompt => (capabilities.prompts, entries::get_prompt),
        ListPrompts => (capabilities.prompts, |request, out| entries::list(request, ListKind::Prompts, out)),
        Complete => (capabilities.completions, completion::complete),
        Ping => (true, session::ping),
        // A handle can log even if no function can.
        SetLevel => (capabilities.logging || announces_changes, session::set_level),
        Subscribe => (capabilities.resources && announces_changes, session::subscribe),
        Unsubscribe => (capabilities.resources && announces_changes, session::unsubscribe),
        ListSkills => (capabilities.skills, entries::list_skills),
        GetSkill => (capabilities.skills, entries::get_skill),
        ReadDirectory => (capabilities.skills, entries::read_directory),
        Listen => (announces_changes || capabilities.tasks, |request, _| session::listen(request)),
        GetTask => (capabilities.tasks, |request, out| tasks::request(GetTask, request, out)),
        TaskResult => (capabilities.tasks, |request, out| tasks::request(TaskResult, request, out)),
        ListTasks => (capabilities.tasks, |request, out| tasks::request(ListTasks, request, out)),
        CancelTask => (capabilities.tasks, |request, out| tasks::request(CancelTask, request, out)),
        UpdateTask => (capabilities.tasks, |request, out| tasks::request(UpdateTask, request, out)),
        Initialize => (true, session::initialize),
        Discover => (true, session::discover),
        // Notifications, and requests to the client.
        Initialized | Cancelled | Progress | RootsChanged | Elicit | Sample | ListRoots => {
            return entries::call_method(name, request, out);
        }
    };
    if is_offered { answer(request, out) } else { entries::call_method(name, request, out) }
}

/// Handles a notification. Invalid and unknown notifications are ignored, since notifications are never answered.
pub(super) fn notification(connection: &ConnectionContext, name: &str, params: &Params<'_>) {
    match Method::named(name) {
        Some(Method::Cancelled) => {
            // No request has a longer id, so other processes need not hear of it.
            let id = params
                .member("requestId")
                .map(RawJson::text)
                .filter(|id| id.len() <= MAX_ID_BYTES)
                .and_then(Id::from_json);
            let known = id.as_ref().is_some_and(|id| connection.in_flight.cancel(id));
            if let Some(id) = id.filter(|_| !known) {
                connection.tell_replicas(|| SessionMessage::Cancel(id.as_json().to_owned()));
            }
            tracing::debug!(
                known,
                reason = params.member("reason").map(RawJson::text),
                "the client cancelled a request"
            );
        }
        Some(Method::Progress) => {
            let Some((session, (token, report))) = connection.session.get().zip(decode_progress(params)) else {
                return;
            };
            if !session.pending_requests.report_progress(token, &report) {
                connection.tell_replicas(|| SessionMessage::Progress(token, report));
            }
        }
        Some(Method::Initialized) => session::initialized(connection),
        #[cfg(feature = "ask")]
        Some(Method::RootsChanged) => session::roots_changed(connection),
        _ => tracing::debug!(method = name, "ignored an unknown notification"),
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::{
        engine::{
            Connection,
            request::{
                context::RequestDialect,
                operation::{Ending, Operation},
            },
        },
        jsonrpc::{Incoming, Message},
        revision,
        server::Server,
        telemetry::{self, Telemetry},
    };

    /// The status code and the class of the error of each operation.
    #[derive(Debug, Default)]
    struct Recorder(Mutex<Vec<(Option<i32>, Option<String>)>>);

    impl Telemetry for Recorder {
        fn server_operation(&self, operation: &telemetry::Operation<'_>) {
            self.0.lock().unwrap().push((operation.status_code, operation.error_type.map(str::to_owned)));
        }
    }

    /// Wait.
    #[crate::tool]
    async fn waits() {
        std::future::pending().await
    }

    /// Concurrent HTTP requests of a session can have the same id, which was free when each of them arrived.
    #[tokio::test]
    async fn of_requests_with_the_same_id_the_second_is_rejected_and_leaves_nothing() {
        for (method, params) in [
            ("tools/call", json!({"name": "waits", "arguments": {}})),
            ("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})),
        ] {
            let recorder = Arc::new(Recorder::default());
            let server = Server::empty("test", "1.0.0").with::<waits>().telemetry(Arc::clone(&recorder));
            let _announces_changes = server.handle();
            let server = server.build().unwrap();
            let (connection, registry) = (Connection::new(Arc::clone(server.engine())), server.engine().registry());
            let connection = &connection.context;
            let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
            let Ok(Incoming::Request(message, id)) = Message::read(&text) else { panic!("{text}") };
            let params = Params::read(message.params.as_ref());
            let (id, batch, dialect) = (&id, None, &RequestDialect { dialect: revision::newest(), level: None });
            let (params, registry) = (&params, &registry);
            let mut responses = Vec::new();
            for expected in [&[][..], &[(Some(-32600), None)]] {
                let operation = &Operation::start(connection, method, params, Some(id));
                let request = RequestContext { connection, dialect, params, id, batch, registry, operation };
                if let Err(fault) = super::request(method, &request, &mut responses) {
                    operation.end(dialect.dialect, &Ending::Fault(fault, None));
                }
                assert_eq!(*recorder.0.lock().unwrap(), expected, "{method}");
            }
            assert!(connection.in_flight.cancel(id));
            connection.outbox.drain(&mut responses);
            assert!(connection.outbox.is_complete(), "{method}: {}", String::from_utf8_lossy(&responses));
        }
    }
}
