//! Waiting for a response of the client within its time limits.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::oneshot::error::RecvError,
    time::{Instant, timeout},
};

use crate::{
    engine::{pending_requests::PendingRequest, replicas::InputResponse},
    error::Fault,
    handler::{
        ClientProgress,
        ask::{AskOptions, Question},
    },
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
