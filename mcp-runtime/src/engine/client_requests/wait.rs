//! Waiting for a response of the client within its time limits, and the session's cached roots.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::oneshot::error::RecvError,
    time::{Instant, timeout},
};

use super::roots_hook::SingleFlight;
use crate::{
    engine::pending_requests::{InputResponse, PendingRequest},
    error::Fault,
    handler::{
        ClientProgress,
        ask::{AskOptions, Capability, Question, announces_root_changes},
    },
    mutex::Mutex,
};

/// A message from the client about a pending request.
enum Event {
    Response(Result<InputResponse, RecvError>),
    Progress(Option<ClientProgress>),
}

/// Waits for the response to a question, and passes the client's progress on in the meantime. Waits for
/// `default_timeout` unless the question has a timeout of its own.
///
/// # Errors
///
/// Returns [`Fault::AnswerTimeout`] if there is no response in time, and another fault if the session ends.
pub(super) async fn wait_for_response(
    request: &mut PendingRequest,
    question: &Question,
    default_timeout: Duration,
) -> Result<InputResponse, Fault> {
    let AskOptions { timeout: own_timeout, max_timeout, on_progress } = &question.options;
    let limit = own_timeout.unwrap_or(default_timeout);
    let max = max_timeout.unwrap_or(limit);
    let started = Instant::now();
    let mut remaining = limit.min(max);
    loop {
        let progress = match timeout(remaining, next_event(request)).await {
            Ok(Event::Response(Ok(response))) => return Ok(response),
            Ok(Event::Response(Err(_))) => return Err(request.withdrawn()),
            Ok(Event::Progress(progress)) => progress,
            Err(_) => {
                request.time_out();
                let timeout = if started.elapsed() >= max { max } else { limit };
                return Err(Fault::AnswerTimeout { key: question.key.clone(), timeout });
            }
        };
        if let Some((report, progress)) = on_progress.as_ref().zip(progress) {
            report(progress);
        }
        let until_max = max.saturating_sub(started.elapsed());
        // Without a maximum, `max` equals `limit`, so progress does not extend the wait.
        remaining = limit.min(until_max);
    }
}

/// Waits for the next event. Progress that arrives before the response is returned before it.
async fn next_event(request: &mut PendingRequest) -> Event {
    let PendingRequest { response, progress, .. } = request;
    let Some(progress) = progress else { return Event::Response(response.await) };
    let received = {
        let mut changed = pin!(progress.changed());
        // The request is removed, and its channel closed, when the response arrives.
        let mut is_open = true;
        poll_fn(|cx| {
            if is_open && let Poll::Ready(result) = changed.as_mut().poll(cx) {
                is_open = result.is_ok();
                if is_open {
                    return Poll::Ready(None);
                }
            }
            Pin::new(&mut *response).poll(cx).map(Some)
        })
        .await
    };
    match received {
        Some(response) => Event::Response(response),
        None => Event::Progress(progress.borrow().clone()),
    }
}

/// Turns the response to a request into the result that the function receives.
pub(in crate::engine) fn into_result(response: InputResponse, method: &str) -> Result<String, Fault> {
    match response {
        InputResponse::Result(json) => Ok(json),
        InputResponse::Error(message) => Err(Fault::AnswerError { method: method.to_owned(), message }),
    }
}

/// The maximum size in bytes of an answer that is cached. A session caches at most one answer.
const MAX_CACHED_BYTES: usize = 16 << 10;

/// The client's answer to `roots/list`, until the client announces that its roots have changed.
///
/// See [Roots](https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes).
#[derive(Debug)]
pub(crate) struct RootsCache {
    /// `None` if the client does not announce changes. Then nothing is cached.
    state: Option<Box<Mutex<State>>>,
    /// The executions of the function that runs when the roots change.
    pub(super) hook_runs: SingleFlight,
}

#[derive(Debug, Default)]
struct State {
    version: RootsVersion,
    answer: Option<Arc<str>>,
}

/// The number of changes that the client has announced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RootsVersion(u64);

impl RootsCache {
    /// Creates the cache of a client with these capabilities, an object as JSON.
    pub(crate) fn new(capabilities: &str) -> Self {
        let state = announces_root_changes(capabilities).then(Box::default);
        Self { state, hook_runs: SingleFlight::default() }
    }

    /// Returns the cached answer to a question. Returns `None` if nothing is cached, or if the question is not about
    /// roots.
    pub(crate) fn answer(&self, question: &Question) -> Option<String> {
        let state = self.state.as_ref().filter(|_| question.capabilities == [Capability::Roots])?;
        state.lock().answer.as_deref().map(str::to_owned)
    }

    /// Returns the version of the roots, to be read before the client is asked.
    pub(crate) fn version(&self) -> RootsVersion {
        self.state.as_ref().map(|state| state.lock().version).unwrap_or_default()
    }

    /// Caches the answer to a question about roots, unless they have changed since `version` or the answer is too long.
    pub(crate) fn store(&self, question: &Question, version: RootsVersion, answer: &str) {
        let Some(state) = &self.state else { return };
        if question.capabilities != [Capability::Roots] || answer.len() > MAX_CACHED_BYTES {
            return;
        }
        let mut state = state.lock();
        if state.version == version {
            state.answer = Some(answer.into());
        }
    }

    /// Discards the answer, because the client has announced a change.
    pub(crate) fn invalidate(&self) {
        if let Some(state) = &self.state {
            let mut state = state.lock();
            state.version.0 += 1;
            state.answer = None;
        }
    }
}
