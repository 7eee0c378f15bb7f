//! Requests that the server sends while a call waits, for revisions in which servers can send requests.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

use super::once::OnceValues;
use crate::{
    backend::InputResponse,
    engine::outbox::{MAX_UNREAD_BYTES, Outbox},
    error::Fault,
    handler::{AnswerFuture, ClientRequester, Peer as _, ask::Question},
    jsonrpc::{Id, ResponseBody, raw},
    revision::encode::Object,
};

/// The requests of one session that its client has not yet responded to.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    last_id: u64,
    /// The receivers of the responses, by id: at most as many as the session may have calls in flight (see
    /// [`send_request`]).
    waiting: HashMap<u64, oneshot::Sender<InputResponse>>,
}

impl PendingRequests {
    /// Delivers a response from the client. Returns `false` if no call is waiting for it.
    pub(crate) fn respond(&self, id: &Id<'_>, response: ResponseBody<'_>) -> bool {
        let waiting = id.as_json().parse().ok().and_then(|id| self.lock().waiting.remove(&id));
        let Some(waiting) = waiting else { return false };
        let response = match response {
            ResponseBody::Result(json) => InputResponse::Result(json.to_owned()),
            ResponseBody::Error(json) => InputResponse::Error(error_message(json)),
        };
        waiting.send(response).is_ok()
    }

    /// Adds a request and returns its id, or `None` if there are `limit` requests already.
    fn add(&self, limit: usize) -> Option<(u64, oneshot::Receiver<InputResponse>)> {
        let mut pending = self.lock();
        if pending.waiting.len() >= limit {
            return None;
        }
        pending.last_id += 1;
        let id = pending.last_id;
        let (sender, receiver) = oneshot::channel();
        pending.waiting.insert(id, sender);
        Some((id, receiver))
    }

    /// Removes a request. Returns `false` if the client has responded to it.
    fn remove(&self, id: u64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the message of a JSON-RPC error object.
fn error_message(error: &str) -> String {
    let message = raw::members(error).find(|(name, _)| name == "message");
    message.and_then(|(_, json)| raw::string(json)).map_or_else(|| "(no message)".to_owned(), Cow::into_owned)
}

/// Turns the response to a request into the result that the function receives.
pub(in crate::engine) fn into_result(response: InputResponse, method: &str) -> Result<String, Fault> {
    match response {
        InputResponse::Result(json) => Ok(json),
        InputResponse::Error(message) => {
            Err(Fault::internal(format!("the client answered `{method}` with an error: {message}")))
        }
    }
}

/// Sends a request to the client on the stream that carries the response of the call.
///
/// # Errors
///
/// Fails if the session has `limit` pending requests, if the request is too large, or if the client does not read.
pub(in crate::engine) fn send_request(
    pending: &Arc<PendingRequests>,
    outbox: &Arc<Outbox>,
    limit: usize,
    method: &str,
    params: &str,
) -> Result<PendingRequest, Fault> {
    let Some((id, response)) = pending.add(limit) else {
        let message = format!("too many requests are waiting for the client's response: the limit is {limit}");
        return Err(Fault::overloaded(message));
    };
    outbox.open_question();
    let cancelled_params = format!(r#"{{"requestId":{id},"reason":"the call no longer waits for the response"}}"#);
    let pending = Arc::clone(pending);
    let request = PendingRequest { id, response, cancelled_params, pending, outbox: Arc::clone(outbox) };
    let message = encode_request(id, method, params);
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

fn encode_request(id: u64, method: &str, params: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(params.len() + 96);
    let mut request = Object::begin(&mut message);
    request.string("jsonrpc", "2.0");
    request.raw("id", id.to_string().as_bytes());
    request.string("method", method);
    request.raw("params", params.as_bytes());
    request.end();
    message
}

/// A request that was sent. Dropping it before the client has responded cancels it.
pub(in crate::engine) struct PendingRequest {
    id: u64,
    pub(in crate::engine) response: oneshot::Receiver<InputResponse>,
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

/// The requester of a call that waits for its client.
pub(crate) struct LiveRequester {
    pub(crate) pending: Arc<PendingRequests>,
    pub(crate) outbox: Arc<Outbox>,
    /// The capabilities that the client declared in `initialize`, as JSON.
    pub(crate) capabilities: Arc<str>,
    pub(crate) timeout: Duration,
    /// The maximum number of pending requests of the session.
    pub(crate) limit: usize,
    pub(crate) once: OnceValues,
}

impl LiveRequester {
    fn send(&self, question: &Question) -> Result<PendingRequest, Fault> {
        question.check_capabilities(&self.capabilities)?;
        send_request(&self.pending, &self.outbox, self.limit, question.method, &question.params)
    }
}

impl ClientRequester for LiveRequester {
    fn capabilities(&self) -> &str {
        &self.capabilities
    }

    fn ask(&self, question: Question, _: &dyn Fn(&str) -> bool) -> AnswerFuture {
        let sent = self.send(&question);
        let timeout = self.timeout;
        Box::pin(async move {
            let mut request = sent?;
            match tokio::time::timeout(timeout, &mut request.response).await {
                Ok(Ok(response)) => into_result(response, question.method),
                Ok(Err(_)) => Err(Fault::internal("the session ended before the client answered")),
                Err(_) => {
                    Err(Fault::internal(format!("the client did not answer `{}` within {timeout:?}", question.key)))
                }
            }
        })
    }

    fn recall(&self, key: &str) -> Option<String> {
        self.once.get(key)
    }

    fn remember(&self, key: &str, value: String) {
        self.once.set(key, value);
    }

    fn poll_suspended(&self, _: &mut TaskContext<'_>) -> Poll<Result<Vec<u8>, Fault>> {
        Poll::Pending
    }
}
