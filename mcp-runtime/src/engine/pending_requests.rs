//! Requests to the client that wait for a response, and the progress that the client reports about them.
//!
//! See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use tokio::sync::{oneshot, watch};

use crate::{
    counters::{Counted, Counter},
    engine::{
        outbox::{MAX_UNREAD_BYTES, Outbox},
        replicas::{InputResponse, Replicas},
        request::{
            operation::{Ending, OTHER, Operation, TIMEOUT},
            params::Params,
        },
    },
    error::{Fault, beginning, excerpt},
    handler::ClientProgress,
    jsonrpc::{Id, RawJson, ResponseBody, object_member, raw},
    revision::{self, encode::Object},
    stdx::{Mutex, OnDrop},
    telemetry::TraceCarrier,
};

/// The requests of one session that its client has not yet responded to.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    /// The maximum number of requests. Further requests fail.
    limit: usize,
    /// Set by the first use: most sessions are never asked.
    table: OnceLock<Box<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    state: Mutex<State>,
    /// The processes that know the session, among which the requests are numbered. If not set, they are numbered from 1.
    replicas: OnceLock<Arc<dyn Replicas>>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Whether the session has ended.
    is_closed: bool,
}

/// A request that was sent, and the channels to the code that waits for its response.
#[derive(Debug)]
struct Waiting {
    response: oneshot::Sender<InputResponse>,
    /// The latest progress only, so a client that reports faster than the function reads occupies no more memory. `None` if
    /// the client was not asked for progress.
    progress: Option<watch::Sender<Option<ClientProgress>>>,
    outbox: Arc<Outbox>,
    /// The parameters of the notification that cancels the request.
    cancelled_params: String,
    /// The operation that ends with the response.
    operation: Operation,
    _count: Counted,
}

impl Waiting {
    /// Ends the operation with the response of the client, and passes it to the call. Returns `false` if the call has
    /// ended at the same time.
    ///
    /// `code` is that of an error. Codes are counted together, since clients could invent any number of them, except for
    /// the codes that JSON-RPC defines and that the protocol gives to clients.
    fn respond(self, code: Option<i32>, response: InputResponse) -> bool {
        let ending = match (&response, code) {
            (InputResponse::Result(_), _) => Ending::Complete,
            (InputResponse::Error(message), Some(code @ (-32700 | -32603..=-32600 | -32002 | -1))) => {
                Ending::Fault(Fault::Custom { code, message: message.clone(), data: None }, None)
            }
            (InputResponse::Error(message), code) => {
                let span = &self.operation.span;
                span.record("rpc.response.status_code", code.map(|code| code.to_string()));
                span.record("otel.status_description", message);
                Ending::Failed(OTHER)
            }
        };
        self.operation.end(revision::newest(), &ending);
        self.response.send(response).is_ok()
    }

    /// Tells the client that its response is no longer expected.
    fn cancel(self) {
        let params = &self.cancelled_params;
        let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        self.outbox.notify(message.as_bytes());
    }
}

impl PendingRequests {
    pub(in crate::engine) fn new(limit: usize) -> Self {
        Self { limit, table: OnceLock::new() }
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(Box::default)
    }

    /// Delivers a response from the client. Returns `false` if no call is waiting for it.
    pub(crate) fn respond(&self, id: &Id, response: ResponseBody<'_>) -> bool {
        let waiting = id.as_json().parse().ok().and_then(|id| self.remove(id));
        let Some(waiting) = waiting else { return false };
        let code = match response {
            ResponseBody::Result(_) => None,
            ResponseBody::Error(error) => raw::member(error, "code").and_then(|code| code.parse().ok()),
        };
        waiting.respond(code, decode_response(response))
    }

    /// Returns whether a request could be numbered. Returns `false` while the replica that numbers them has no slot.
    pub(in crate::engine) fn has_numbers(&self) -> bool {
        self.table().replicas.get().is_none_or(|replicas| replicas.slot().is_some())
    }

    /// Returns the processes that know the session. Returns `None` if this is the only one.
    pub(in crate::engine) fn replicas(&self) -> Option<&Arc<dyn Replicas>> {
        self.table().replicas.get()
    }

    /// Records progress that the client reports. Returns `false` if its token does not belong to a request that waits
    /// for progress, or if the progress has not increased.
    pub(crate) fn report_progress(&self, token: u64, report: &ClientProgress) -> bool {
        let state = self.table().state.lock();
        let progress = state.waiting.get(&token).and_then(|waiting| waiting.progress.as_ref());
        progress.is_some_and(|progress| {
            progress.send_if_modified(|latest| {
                let increases = latest.as_ref().is_none_or(|latest| report.progress > latest.progress);
                if increases {
                    *latest = Some(report.clone());
                }
                increases
            })
        })
    }

    /// Cancels all pending requests and fails every later request. The code that waits for them need not be polled for
    /// that.
    pub(in crate::engine) fn close(&self) {
        let waiting = {
            let mut state = self.table().state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        cancel_all(waiting);
    }

    /// Sends a request to the client on the stream of an outbox. If `wants_progress` is set, the client is asked to report
    /// progress, with the id of the request as the token. The operation ends with the response.
    ///
    /// # Errors
    ///
    /// Fails if the session has ended or has too many pending requests, if the request is too large, or if the client does
    /// not read.
    pub(in crate::engine) fn send_request(
        self: &Arc<Self>,
        operation: Operation,
        outbox: &Arc<Outbox>,
        (method, params): (&str, &str),
        wants_progress: bool,
    ) -> Result<PendingRequest, Fault> {
        let (sender, progress) = wants_progress.then(|| watch::channel(None)).unzip();
        let (response, receiver) = oneshot::channel();
        // Counted before it is sent, so that its stream does not end in between.
        outbox.open_question();
        let (pending, question_outbox) = (Arc::clone(self), Arc::clone(outbox));
        // Dropped after the lock.
        let mut request = PendingRequest { id: 0, response: receiver, progress, pending, outbox: question_outbox };
        // The author's code, which must not run under the lock.
        let carrier = operation.carrier();
        // A request that is not sent is not measured.
        let _unsent = OnDrop(|| operation.discard());
        // The table stays locked, so that a cancellation never precedes its request.
        let mut state = self.table().state.lock();
        if state.is_closed {
            return Err(session_ended());
        }
        if state.waiting.len() >= self.limit {
            let limit = self.limit;
            let message = format!("too many requests are waiting for the client's response: the limit is {limit}");
            return Err(Fault::refused(Counter::RefusedQuestions, message));
        }
        let id = match self.table().replicas.get() {
            None => state.last_id + 1,
            Some(replicas) => replicas.new_id().ok_or_else(no_replica)?,
        };
        state.last_id = id;
        operation.set_request_id(id);
        let message = encode_request(id, method, params, wants_progress, &carrier);
        if message.len() > MAX_UNREAD_BYTES {
            let size = message.len();
            let error =
                format!("the request to the client is too large: {size} bytes, the limit is {MAX_UNREAD_BYTES}");
            return Err(Fault::internal(error));
        }
        if !outbox.notify(&message) {
            return Err(Fault::internal("the client does not read its messages, so no request can be sent to it"));
        }
        request.id = id;
        let operation = operation.take();
        let cancelled_params = format!(r#"{{"requestId":{id},"reason":"the call no longer waits for the response"}}"#);
        let (outbox, _count) = (Arc::clone(outbox), Counted::new(Counter::Questions));
        state.waiting.insert(id, Waiting { response, progress: sender, outbox, cancelled_params, operation, _count });
        Ok(request)
    }

    /// Removes a request. Returns `None` if the client has responded to it, or if the session has ended.
    fn remove(&self, id: u64) -> Option<Waiting> {
        self.table().state.lock().waiting.remove(&id)
    }

    /// Delivers a response that another replica has received. Does nothing if no call is waiting for it.
    pub(crate) fn deliver(&self, id: u64, response: InputResponse) {
        if let Some(waiting) = self.remove(id) {
            waiting.respond(None, response);
        }
    }

    /// Returns whether a call is waiting for the response to a request.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.table().state.lock().waiting.contains_key(&id)
    }

    /// Returns the ids of the requests that the client has not yet responded to.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.table().state.lock().waiting.keys().copied().collect()
    }

    /// Cancels the requests with these ids: no other replica passes their responses on.
    pub(crate) fn withdraw(&self, is_lost: impl Fn(u64) -> bool) {
        let mut state = self.table().state.lock();
        let (lost, kept) = std::mem::take(&mut state.waiting).into_iter().partition(|(id, _)| is_lost(*id));
        state.waiting = kept;
        drop(state);
        cancel_all(lost);
    }

    /// Numbers requests so that every replica can find the replica that has sent them.
    pub(crate) fn number_by(&self, replicas: &Arc<dyn Replicas>) {
        let _ = self.table().replicas.set(Arc::clone(replicas));
    }
}

/// Cancels requests in the order in which they were sent.
fn cancel_all(waiting: BTreeMap<u64, Waiting>) {
    // The receivers learn that their senders are gone.
    waiting.into_values().for_each(Waiting::cancel);
}

/// Returns the error of a request that no other replica could attribute to this one.
fn no_replica() -> Fault {
    Fault::overloaded("the server has lost its connection to the other replicas: retry later")
}

/// Reads the response to a request of the server.
pub(in crate::engine) fn decode_response(response: ResponseBody<'_>) -> InputResponse {
    match response {
        ResponseBody::Result(json) => InputResponse::Result(json.to_owned()),
        ResponseBody::Error(json) => {
            let message = raw::member(json, "message").and_then(raw::string);
            let message = message.as_deref().map_or("(no message)".into(), excerpt);
            InputResponse::Error(message.into_owned())
        }
    }
}

/// Returns the error of a request whose session has ended.
pub(crate) fn session_ended() -> Fault {
    Fault::internal("the session has ended")
}

fn encode_request(id: u64, method: &str, params: &str, wants_progress: bool, trace: &TraceCarrier<'_>) -> Vec<u8> {
    let mut message = Vec::with_capacity(params.len() + 96);
    let mut request = Object::begin(&mut message);
    request.string("jsonrpc", "2.0");
    request.raw("id", id.to_string().as_bytes());
    request.string("method", method);
    if wants_progress || !trace.is_empty() {
        let mut with_meta = Object::begin(request.key("params"));
        let mut meta = Object::begin(with_meta.key("_meta"));
        if wants_progress {
            meta.raw("progressToken", id.to_string().as_bytes());
        }
        for key in TraceCarrier::KEYS {
            trace.get(key).into_iter().for_each(|value| meta.string(key, value));
        }
        let own = object_member(params, "_meta");
        own.into_iter().flat_map(raw::members).for_each(|(name, value)| meta.raw(&name, value.as_bytes()));
        meta.end();
        with_meta.copy_without(params, "_meta");
        with_meta.end();
    } else {
        request.raw("params", params.as_bytes());
    }
    request.end();
    message
}

/// A request that was sent. Dropping it before the client has responded cancels it.
pub(in crate::engine) struct PendingRequest {
    id: u64,
    pub(in crate::engine) response: oneshot::Receiver<InputResponse>,
    /// The progress of the client, if it was asked for progress.
    pub(in crate::engine) progress: Option<watch::Receiver<Option<ClientProgress>>>,
    pending: Arc<PendingRequests>,
    outbox: Arc<Outbox>,
}

impl PendingRequest {
    /// Returns the error of a request that was withdrawn.
    pub(super) fn withdrawn(&self) -> Fault {
        if self.pending.table().state.lock().is_closed {
            return Fault::internal("the session ended before the client answered");
        }
        no_replica()
    }

    /// Records that the client has not responded in time.
    pub(in crate::engine) fn time_out(&self) {
        let state = self.pending.table().state.lock();
        let operation = state.waiting.get(&self.id).map(|waiting| waiting.operation.take());
        drop(state);
        if let Some(operation) = operation {
            operation.end(revision::newest(), &Ending::Failed(TIMEOUT));
        }
    }

    /// Replaces the parameters of the notification that cancels the request.
    pub(in crate::engine) fn map_cancelled_params(&self, map: impl FnOnce(&str) -> String) {
        if let Some(waiting) = self.pending.table().state.lock().waiting.get_mut(&self.id) {
            waiting.cancelled_params = map(&waiting.cancelled_params);
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(waiting) = self.pending.remove(self.id) {
            waiting.cancel();
        }
        self.outbox.close_question();
    }
}

/// The maximum size of a message in bytes. A longer message is truncated.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Decodes the parameters of a notification: the token, which is the id of a request, and the progress. Returns `None`
/// if they are invalid.
pub(in crate::engine) fn decode_progress(params: &Params<'_>) -> Option<(u64, ClientProgress)> {
    let number = |name| params.member(name)?.text().parse::<f64>().ok().filter(|number| number.is_finite());
    let token = params.member("progressToken")?.text().parse().ok()?;
    let message = params
        .member("message")
        .and_then(RawJson::string)
        .map(|message| beginning(&message, MAX_MESSAGE_BYTES).to_owned());
    Some((token, ClientProgress { progress: number("progress")?, total: number("total"), message }))
}
