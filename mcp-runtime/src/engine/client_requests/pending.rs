//! The requests that the server has sent to the client of a session, and the responses to them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::progress::{self, ProgressReceiver, ProgressSender};
use crate::{
    backend::InputResponse,
    engine::{
        outbox::{MAX_UNREAD_BYTES, Outbox},
        request::params::Params,
    },
    error::Fault,
    excerpt::excerpt,
    handler::Peer as _,
    jsonrpc::{Id, ResponseBody, raw},
    revision::encode::Object,
};

/// The requests of one session that its client has not yet responded to.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    /// The maximum number of requests. Further requests fail.
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    waiting: HashMap<u64, Waiting>,
    /// Whether the session has ended.
    is_closed: bool,
}

/// The channels to the code that waits for a response.
#[derive(Debug)]
struct Waiting {
    /// `None` if the session ended before the client responded. The request is still to be cancelled.
    response: Option<oneshot::Sender<InputResponse>>,
    /// The latest progress. `None` if the client was not asked for progress.
    progress: Option<ProgressSender>,
}

impl PendingRequests {
    pub(in crate::engine) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Delivers a response from the client. Returns `false` if no call is waiting for it.
    pub(crate) fn respond(&self, id: &Id<'_>, response: ResponseBody<'_>) -> bool {
        let waiting = id.as_json().parse().ok().and_then(|id| self.lock().waiting.remove(&id));
        let Some(waiting) = waiting else { return false };
        let response = match response {
            ResponseBody::Result(json) => InputResponse::Result(json.to_owned()),
            ResponseBody::Error(json) => InputResponse::Error(error_message(json)),
        };
        waiting.response.is_some_and(|sender| sender.send(response).is_ok())
    }

    /// Records progress that the client reports. Returns `false` if its token does not belong to a request that waits
    /// for progress, or if the progress has not increased.
    pub(crate) fn report_progress(&self, params: &Params<'_>) -> bool {
        let Some((token, report)) = progress::decode(params) else { return false };
        let state = self.lock();
        let progress = state.waiting.get(&token).and_then(|waiting| waiting.progress.as_ref());
        progress.is_some_and(|progress| progress::update(progress, report))
    }

    /// Fails all pending requests and every later one.
    pub(in crate::engine) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for waiting in state.waiting.values_mut() {
            // The receiver learns that its sender is gone.
            waiting.response = None;
        }
    }

    /// Adds a request and returns its id.
    fn add(&self, progress: Option<ProgressSender>) -> Result<(u64, oneshot::Receiver<InputResponse>), Fault> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(session_ended());
        }
        if state.waiting.len() >= self.limit {
            let limit = self.limit;
            let message = format!("too many requests are waiting for the client's response: the limit is {limit}");
            return Err(Fault::overloaded(message));
        }
        state.last_id += 1;
        let id = state.last_id;
        let (response, receiver) = oneshot::channel();
        state.waiting.insert(id, Waiting { response: Some(response), progress });
        Ok((id, receiver))
    }

    /// Removes a request. Returns `false` if the client has responded to it.
    fn remove(&self, id: u64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an excerpt of the message of a JSON-RPC error object.
fn error_message(error: &str) -> String {
    let message = raw::members(error).find(|(name, _)| name == "message");
    let message = message.and_then(|(_, json)| raw::string(json));
    message.map_or_else(|| "(no message)".to_owned(), |message| excerpt(&message).into_owned())
}

/// Returns the error of a request whose session has ended.
pub(in crate::engine) fn session_ended() -> Fault {
    Fault::internal("the session has ended")
}

/// Sends a request to the client on the stream of an outbox. If `wants_progress` is set, the client is asked to report
/// progress, with the id of the request as the token.
///
/// # Errors
///
/// Fails if the session has ended or has too many pending requests, if the request is too large, or if the client does
/// not read.
pub(in crate::engine) fn send_request(
    pending: &Arc<PendingRequests>,
    outbox: &Arc<Outbox>,
    method: &str,
    params: &str,
    wants_progress: bool,
) -> Result<PendingRequest, Fault> {
    let (sender, progress) = wants_progress.then(progress::channel).unzip();
    let (id, response) = pending.add(sender)?;
    outbox.open_question();
    let cancelled_params = format!(r#"{{"requestId":{id},"reason":"the call no longer waits for the response"}}"#);
    let pending = Arc::clone(pending);
    let request = PendingRequest { id, response, progress, cancelled_params, pending, outbox: Arc::clone(outbox) };
    let message = encode_request(id, method, params, wants_progress);
    let error = if message.len() > MAX_UNREAD_BYTES {
        let size = message.len();
        format!("the request to the client is too large: {size} bytes, the limit is {MAX_UNREAD_BYTES}")
    } else if !outbox.notify(&message) {
        "the client does not read its messages, so no request can be sent to it".to_owned()
    } else {
        return Ok(request);
    };
    // The client never saw the request, so it must not see its cancellation.
    request.pending.remove(id);
    Err(Fault::internal(error))
}

fn encode_request(id: u64, method: &str, params: &str, wants_progress: bool) -> Vec<u8> {
    let mut message = Vec::with_capacity(params.len() + 96);
    let mut request = Object::begin(&mut message);
    request.string("jsonrpc", "2.0");
    request.raw("id", id.to_string().as_bytes());
    request.string("method", method);
    if wants_progress {
        let mut with_token = Object::begin(request.key("params"));
        let mut meta = Object::begin(with_token.key("_meta"));
        meta.raw("progressToken", id.to_string().as_bytes());
        meta.end();
        raw::members(params).for_each(|(name, value)| with_token.raw(&name, value.as_bytes()));
        with_token.end();
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
    pub(super) progress: Option<ProgressReceiver>,
    /// The parameters of the notification that cancels the request.
    pub(in crate::engine) cancelled_params: String,
    pending: Arc<PendingRequests>,
    outbox: Arc<Outbox>,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if self.pending.remove(self.id) {
            let params = &self.cancelled_params;
            let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            self.outbox.notify(message.as_bytes());
        }
        self.outbox.close_question();
    }
}
