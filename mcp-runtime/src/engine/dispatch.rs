//! Handles the messages of a transmission: requests and notifications by their method, responses, and batches of them.

use std::sync::Arc;

use super::{
    call::{in_flight::Batch, response},
    connection::{Connection, ReceiveOutcome, RequestIds},
    methods::{
        completion,
        entries::{self, required_scopes},
        session,
    },
    outbox::Outbox,
    pending_requests::{decode_progress, decode_response},
    replicas::SessionMessage,
    request::{
        context::{ConnectionContext, RequestContext},
        operation::{Ending, Operation},
        params::{Method, Params},
        source::check_scopes,
    },
    session::Session,
    tasks,
};
use crate::{
    auth::Scopes,
    error::{Fault, FaultClass},
    jsonrpc::{Id, Incoming, MAX_ID_BYTES, Malformed, Message, RawJson, ResponseBody, raw},
    registry::ListKind,
    revision::{self, Dialect, Feature},
};

impl Connection {
    pub(super) fn handle(
        &mut self,
        message: Result<Incoming<'_>, Malformed>,
        batch: Option<&Arc<Batch>>,
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let (id, fault) = match message {
            Ok(Incoming::Request(message, id)) => {
                ids.push(id.clone());
                return self.request(&message, &id, batch, out);
            }
            Ok(Incoming::Notification(message)) => return self.notification(&message),
            Ok(Incoming::Response(id, answer)) => {
                if let Some((session, id)) = self.context.session.get().zip(id) {
                    self.response(session, &id, answer);
                }
                return ReceiveOutcome::RESPONSE;
            }
            Err(Malformed::Parse(reason)) => (None, Fault::Parse(reason)),
            Err(Malformed::Invalid(id, reason)) => (id, Fault::InvalidRequest(reason.to_owned())),
        };
        response::write_error(out, self.default_dialect(), id.as_ref(), &fault);
        ReceiveOutcome::MALFORMED
    }

    fn notification(&self, message: &Message<'_>) -> ReceiveOutcome {
        let params = Params::read(message.params.as_ref());
        let operation = Operation::start(&self.context, &message.method, &params, None);
        let _entered = operation.enter();
        let source = self.context.source.as_deref();
        let determined = params.notification_dialect(self.session_dialect(), source);
        let dialect = determined.as_ref().ok().copied();
        if let Some(dialect) = dialect {
            operation.set_dialect(dialect);
        }
        let registry = self.context.engine.registry();
        let request = RequestContext {
            connection: &self.context,
            dialect: dialect.unwrap_or_else(|| self.default_dialect()),
            params: &params,
            id: &Id::of_notification(),
            batch: None,
            registry: &registry,
            operation: &operation,
        };
        // To a sender that does not see it, the method does not exist.
        let called = if registry.methods.get(&message.method).is_some_and(|method| request.visible_to().sees(method)) {
            determined.and_then(|_| self.notify_method(&message.method, &request))
        } else {
            notify(&self.context, &message.method, &params);
            Ok(())
        };
        // The client learns only from the status, which is that of a mismatch for faults without a class.
        let fault = called.as_ref().err().map(|fault| fault.class().unwrap_or(FaultClass::Mismatch));
        let ending = match called {
            Ok(()) => Ending::Complete,
            Err(fault) => {
                tracing::warn!(method = &*message.method, error = fault.log_text(), "a notification was rejected");
                Ending::Fault(fault, None)
            }
        };
        operation.end(dialect.unwrap_or_else(revision::newest), &ending);
        ReceiveOutcome { fault, ..ReceiveOutcome::default() }
    }

    /// Calls the method of an extension for a notification. Its messages to the client belong to no request, and its result is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns the fault with which the call was rejected.
    fn notify_method(&self, method: &str, request: &RequestContext<'_>) -> Result<(), Fault> {
        let ConnectionContext { engine, session, in_flight, outbox, .. } = &self.context;
        let outbox = match session.get() {
            Some(session) => Arc::clone(&session.outbox),
            None if self.context.is_single_exchange => {
                let outbox = Outbox::new(Arc::clone(&outbox.flow));
                outbox.close();
                Arc::new(outbox)
            }
            None => Arc::clone(outbox),
        };
        let connection = &ConnectionContext {
            session: session.clone(),
            source: self.context.source.clone(),
            is_single_exchange: self.context.is_single_exchange,
            is_stdio: self.context.is_stdio,
            ..ConnectionContext::new(self.time(), Arc::clone(engine), Arc::clone(in_flight), outbox)
        };
        entries::call_method(method, &RequestContext { connection, ..*request }, &mut Vec::new())
    }

    /// Passes a response to the call that waits for it, here or on another replica.
    fn response(&self, session: &Session, id: &Id, answer: ResponseBody<'_>) {
        if session.pending_requests.respond(id, answer) {
            return;
        }
        tracing::debug!("a response to a request that is unknown here, or was withdrawn");
        if let Ok(id) = id.as_json().parse() {
            self.context.tell_replicas(|| SessionMessage::Answer(id, decode_response(answer)));
        }
    }

    /// Returns the scopes that a message requires.
    pub(super) fn scopes_of(&self, message: Result<Incoming<'_>, Malformed>) -> Scopes {
        let connection = &self.context;
        let registry = connection.engine.registry();
        let (message, id) = match message {
            Ok(Incoming::Request(message, id)) => (message, id),
            Ok(Incoming::Notification(message)) if registry.methods.get(&message.method).is_some() => {
                (message, Id::of_notification())
            }
            _ => return Scopes::default(),
        };
        let params = Params::read(message.params.as_ref());
        let dialect = params.dialect(self.session_dialect(), None, &message.method);
        let dialect = dialect.unwrap_or_else(|_| self.default_dialect());
        let (params, id, registry) = (&params, &id, &registry);
        let (batch, operation) = (None, &Operation::none());
        let request = RequestContext { connection, dialect, params, id, batch, registry, operation };
        required_scopes(&message.method, &request)
    }

    /// Writes an error response without an id.
    pub(super) fn reject(&self, fault: &Fault, out: &mut Vec<u8>) -> ReceiveOutcome {
        response::write_error(out, self.default_dialect(), None, fault);
        out.push(b'\n');
        ReceiveOutcome::MALFORMED
    }

    fn request(
        &mut self,
        message: &Message<'_>,
        id: &Id,
        batch: Option<&Arc<Batch>>,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let connection = &self.context;
        let params = Params::read(message.params.as_ref());
        let operation = &Operation::start(connection, &message.method, &params, Some(id));
        let _entered = operation.enter();
        let reject = |out: &mut Vec<u8>, dialect: &'static Dialect, fault: Fault| {
            response::write_error(out, dialect, Some(id), &fault);
            operation.end(dialect, &Ending::Fault(fault, None));
        };
        if connection.in_flight.has(id) {
            reject(out, self.default_dialect(), response::duplicate_id(id));
            return ReceiveOutcome::REQUEST;
        }
        let session = self.session_dialect();
        let dialect = match params.dialect(session, connection.source.as_deref(), &message.method) {
            Ok(dialect) => dialect,
            Err(fault) => {
                // The request names the version, or it belongs to no session.
                reject(out, revision::newest(), fault);
                return ReceiveOutcome::MALFORMED;
            }
        };
        operation.set_dialect(dialect);
        let (params, registry) = (&params, &connection.engine.registry());
        let request = RequestContext { connection, dialect, params, id, batch, registry, operation };
        let answered = params.meta.check_progress_token();
        match answered.and_then(|()| answer(&message.method, &request, out)) {
            Ok(()) => {
                operation.end(dialect, &Ending::Complete);
                ReceiveOutcome::REQUEST
            }
            Err(fault) => {
                let class = fault.class();
                reject(out, dialect, fault);
                ReceiveOutcome { fault: class, ..ReceiveOutcome::REQUEST }
            }
        }
    }
}

/// The transmissions that are batches: which of them are accepted, and that all of their requests run or none.
///
/// See [Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).
impl Connection {
    /// Returns the dialect that decides whether a batch is accepted. Outside of a session, its requests name their own: one
    /// that names none is of an earlier revision.
    fn batch_dialect(&self, messages: raw::Elements<'_>) -> &'static Dialect {
        let has_no_batches = |message| {
            let Ok(Incoming::Request(message, _)) = Message::read(message) else { return None };
            match Params::read(message.params.as_ref()).meta.protocol_version {
                Some(version) => revision::stateless(&version.string()?),
                None => revision::newest_without(Feature::Batching),
            }
            .filter(|dialect| !dialect.has(Feature::Batching))
        };
        let named = || messages.take(self.context.engine.profile.limits.batch_messages).find_map(has_no_batches);
        self.session_dialect().or_else(named).unwrap_or_else(revision::newest)
    }

    pub(super) fn receive_batch(
        &mut self,
        messages: raw::Elements<'_>,
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let dialect = self.batch_dialect(messages.clone());
        if !dialect.has(Feature::Batching) {
            let message = format!("protocol version {} does not support batches", dialect.name());
            return self.reject(&Fault::InvalidRequest(message), out);
        }
        let limit = self.context.engine.profile.limits.batch_messages;
        match messages.clone().take(limit + 1).count() {
            0 => return self.reject(&Fault::InvalidRequest("a batch must not be empty".to_owned()), out),
            count if count > limit => {
                let message = format!("the batch is too large: the limit is {limit} messages");
                return self.reject(&Fault::InvalidRequest(message), out);
            }
            _ => {}
        }
        if let Err(fault) = self.check_batch_scopes(messages.clone()) {
            return self.reject_batch(messages, &fault, out);
        }
        let batch = Arc::new(Batch::new());
        let mut response = Vec::new();
        let mut outcome = ReceiveOutcome::default();
        for message in messages {
            response.clear();
            let received = self.handle(Message::read(message), Some(&batch), ids, &mut response);
            outcome.is_request |= received.is_request;
            outcome.fault = outcome.fault.or(received.fault);
            if !response.is_empty() {
                batch.add(&response);
            }
        }
        batch.close(None, out);
        // The client learns about a rejected notification only from the status, which other responses determine if there
        // are any.
        if outcome.is_request {
            outcome.fault = None;
        }
        outcome
    }

    /// Checks that the sender has the scopes of all requests of a batch, so that either all of them run or none.
    fn check_batch_scopes(&self, messages: raw::Elements<'_>) -> Result<(), Fault> {
        let Some(source) = self.context.source.as_ref().filter(|_| self.context.engine.registry().requires_scopes)
        else {
            return Ok(());
        };
        let scopes = messages.fold(Scopes::default(), |all, message| all.and(self.scopes_of(Message::read(message))));
        check_scopes(&self.context.engine.profile.access, &**source, &scopes)
    }

    /// Responds to every request of a batch with the same error. Its other messages have no effect.
    fn reject_batch(&mut self, messages: raw::Elements<'_>, fault: &Fault, out: &mut Vec<u8>) -> ReceiveOutcome {
        let batch = Batch::new();
        let (mut response, mut is_request) = (Vec::new(), false);
        for message in messages {
            if let Ok(Incoming::Request(message, id)) = Message::read(message) {
                is_request = true;
                response.clear();
                let params = Params::read(message.params.as_ref());
                let operation = Operation::start(&self.context, &message.method, &params, Some(&id));
                let dialect = self.default_dialect();
                operation.set_dialect(dialect);
                response::write_error(&mut response, dialect, Some(&id), fault);
                operation.end(dialect, &Ending::Fault(fault.clone(), None));
                batch.add(&response);
            }
        }
        batch.close(None, out);
        ReceiveOutcome { is_request, fault: fault.class(), ..ReceiveOutcome::default() }
    }
}

/// Answers a request: writes its response, or starts a call whose response follows through the outbox.
///
/// # Errors
///
/// Returns the protocol error to respond with. In that case, nothing has been written.
fn answer(name: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    use Method::*;

    type MethodHandler = fn(&RequestContext<'_>, &mut Vec<u8>) -> Result<(), Fault>;

    let Some(method) = Method::named(name).filter(|method| method.is_in(request.dialect)) else {
        return entries::call_method(name, request, out);
    };
    let capabilities = request.registry.capabilities;
    let announces_changes = request.engine().announces_changes();
    let (is_offered, handler): (bool, MethodHandler) = match method {
        CallTool => (capabilities.tools, entries::call_tool),
        ListTools => (capabilities.tools, |request, out| entries::list(request, ListKind::Tools, out)),
        ReadResource => (capabilities.resources, entries::read_resource),
        ListResources => (capabilities.resources, |request, out| entries::list(request, ListKind::Resources, out)),
        ListTemplates => (capabilities.resources, |request, out| entries::list(request, ListKind::Templates, out)),
        GetPrompt => (capabilities.prompts, entries::get_prompt),
        ListPrompts => (capabilities.prompts, |request, out| entries::list(request, ListKind::Prompts, out)),
        Complete => (capabilities.completions, completion::complete),
        Ping => (true, session::acknowledge),
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
    if is_offered { handler(request, out) } else { entries::call_method(name, request, out) }
}

/// Handles a notification. Invalid and unknown notifications are ignored, since notifications are never answered.
fn notify(connection: &ConnectionContext, name: &str, params: &Params<'_>) {
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
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::{
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
            let (id, batch, dialect) = (&id, None, revision::newest());
            let (params, registry) = (&params, &registry);
            let mut responses = Vec::new();
            for expected in [&[][..], &[(Some(-32600), None)]] {
                let operation = &Operation::start(connection, method, params, Some(id));
                let request = RequestContext { connection, dialect, params, id, batch, registry, operation };
                if let Err(fault) = answer(method, &request, &mut responses) {
                    operation.end(dialect, &Ending::Fault(fault, None));
                }
                assert_eq!(*recorder.0.lock().unwrap(), expected, "{method}");
            }
            assert!(connection.in_flight.cancel(id));
            connection.outbox.drain(&mut responses);
            assert!(connection.outbox.is_complete(), "{method}: {}", String::from_utf8_lossy(&responses));
        }
    }
}
