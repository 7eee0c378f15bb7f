//! Requests that the server sends while a call waits, for revisions in which servers can send requests.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    once::OnceValues,
    progress::{self, ProgressReceiver, ProgressSender},
    wait::wait_for_response,
};
use crate::{
    backend::InputResponse,
    engine::{
        outbox::{MAX_UNREAD_BYTES, Outbox},
        request::params::Params,
    },
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
    waiting: HashMap<u64, Waiting>,
}

/// The senders to the call that waits for a response.
#[derive(Debug)]
struct Waiting {
    response: oneshot::Sender<InputResponse>,
    /// The latest progress. `None` if the client was not asked for progress.
    progress: Option<ProgressSender>,
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
        waiting.response.send(response).is_ok()
    }

    /// Records progress of the client. Returns `false` if its token does not belong to a request that waits for progress,
    /// or if the progress has not increased.
    pub(crate) fn report_progress(&self, params: &Params<'_>) -> bool {
        let Some((token, report)) = progress::decode(params) else { return false };
        let pending = self.lock();
        let progress = pending.waiting.get(&token).and_then(|waiting| waiting.progress.as_ref());
        progress.is_some_and(|progress| progress::update(progress, report))
    }

    /// Adds a request and returns its id, or `None` if there are `limit` requests already.
    fn add(&self, limit: usize, progress: Option<ProgressSender>) -> Option<(u64, oneshot::Receiver<InputResponse>)> {
        let mut pending = self.lock();
        if pending.waiting.len() >= limit {
            return None;
        }
        pending.last_id += 1;
        let id = pending.last_id;
        let (response, receiver) = oneshot::channel();
        pending.waiting.insert(id, Waiting { response, progress });
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

/// Sends a request to the client on the stream that carries the response of the call. If `wants_progress` is set, the
/// client is asked to report progress, with the id of the request as the token.
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
    wants_progress: bool,
) -> Result<PendingRequest, Fault> {
    let (sender, progress) = wants_progress.then(progress::channel).unzip();
    let Some((id, response)) = pending.add(limit, sender) else {
        let message = format!("too many requests are waiting for the client's response: the limit is {limit}");
        return Err(Fault::overloaded(message));
    };
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
        let wants_progress = question.options.wants_progress();
        send_request(&self.pending, &self.outbox, self.limit, question.method, &question.params, wants_progress)
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
            let response = wait_for_response(&mut request, &question, timeout).await?;
            into_result(response, question.method)
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
