//! Waiting for a response of the client: time limits, progress, and the session's cached roots.
//!
//! See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::{oneshot::error::RecvError, watch},
    time::{Instant, timeout},
};

use super::pending::{InputResponse, PendingRequest};
use crate::{
    engine::request::params::Params,
    error::Fault,
    handler::ask::{AskOptions, Capability, ClientProgress, Question, announces_root_changes},
    jsonrpc::RawJson,
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
pub(in crate::engine) async fn wait_for_response(
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

/// The maximum size of a message in bytes. A longer one is truncated.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Holds the latest report only, so a client that reports faster than the function reads occupies no more memory.
pub(super) type ProgressSender = watch::Sender<Option<ClientProgress>>;
pub(super) type ProgressReceiver = watch::Receiver<Option<ClientProgress>>;

/// Creates the channel of a request whose client is asked for progress.
pub(super) fn channel() -> (ProgressSender, ProgressReceiver) {
    watch::channel(None)
}

/// Replaces the latest report. Returns `false` if the progress has not increased.
pub(super) fn update(latest: &ProgressSender, report: &ClientProgress) -> bool {
    latest.send_if_modified(|latest| {
        let increases = latest.as_ref().is_none_or(|latest| report.progress > latest.progress);
        if increases {
            *latest = Some(report.clone());
        }
        increases
    })
}

/// Decodes the parameters of a notification: the token, which is the id of a request, and the progress. Returns `None`
/// if they are invalid.
pub(in crate::engine) fn decode_progress(params: &Params<'_>) -> Option<(u64, ClientProgress)> {
    let number = |name| params.member(name)?.text().parse::<f64>().ok().filter(|number| number.is_finite());
    let token = params.member("progressToken")?.text().parse().ok()?;
    let message = params.member("message").and_then(RawJson::string).map(|message| truncated(&message[..]).to_owned());
    Some((token, ClientProgress { progress: number("progress")?, total: number("total"), message }))
}

fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The maximum size in bytes of an answer that is cached. A session caches at most one answer.
const MAX_CACHED_BYTES: usize = 16 << 10;

/// The client's answer to `roots/list`, until the client announces that its roots have changed.
///
/// See [Roots](https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes).
#[derive(Debug)]
pub(crate) struct RootsCache {
    /// Whether the client announces changes. Otherwise, nothing is cached.
    is_enabled: bool,
    state: Mutex<State>,
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
        Self { is_enabled: announces_root_changes(capabilities), state: Mutex::default() }
    }

    /// Returns the cached answer to a question. Returns `None` if nothing is cached, or if the question is not about
    /// roots.
    pub(crate) fn answer(&self, question: &Question) -> Option<String> {
        let is_cached = self.is_enabled && question.capabilities == [Capability::Roots];
        is_cached.then(|| self.state().answer.as_deref().map(str::to_owned))?
    }

    /// Returns the version of the roots, to be read before the client is asked.
    pub(crate) fn version(&self) -> RootsVersion {
        self.state().version
    }

    /// Caches the answer to a question about roots, unless they have changed since `version` or the answer is too long.
    pub(crate) fn store(&self, question: &Question, version: RootsVersion, answer: &str) {
        if !self.is_enabled || question.capabilities != [Capability::Roots] || answer.len() > MAX_CACHED_BYTES {
            return;
        }
        let mut state = self.state();
        if state.version == version {
            state.answer = Some(answer.into());
        }
    }

    /// Discards the answer, because the client has announced a change.
    pub(crate) fn invalidate(&self) {
        let mut state = self.state();
        state.version.0 += 1;
        state.answer = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
