//! Follows a task of an upstream until its end, as a part of the call of which the upstream has made it.

use std::{
    collections::BTreeSet,
    future::pending,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mcp_runtime::{Context, Fault};
use rmcp::{
    ServiceError,
    model::{InputRequests, InputResponses, ServerResult},
};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    connection::{CallError, Connection, MAX_ROUNDS, too_many_questions},
    convert::{Prefix, printable},
    tasks::Task,
    transport::WaitingCall,
};

/// The shortest, the usual and the longest pause between two requests about a task.
const MIN_POLL: Duration = Duration::from_millis(50);
const USUAL_POLL: Duration = Duration::from_secs(1);
const MAX_POLL: Duration = Duration::from_secs(60);
/// The number of consecutive failed requests about a task after which its call fails.
const MAX_FAILURES: usize = 5;

/// Asks the client of a call the questions of a task.
type Asking<'a> = Pin<Box<dyn Future<Output = Result<InputResponses, CallError>> + Send + 'a>>;

impl Connection {
    /// Waits for the result of a call of which the upstream has made a task, whose state this is. The client of the call receives
    /// a task as well, if it accepts one.
    ///
    /// Dropping the future cancels the upstream's task: after the time to live of the client's task, or the timeout of the call.
    pub(crate) async fn follow(
        &self,
        ctx: &Context,
        prefix: &Prefix,
        call: &Arc<WaitingCall>,
        mut state: Value,
    ) -> Result<ServerResult, CallError> {
        let id = state["taskId"].as_str().unwrap_or_default().to_owned();
        let _ = call.task.set(id.clone());
        let mut task = Task { peer: self.peer.clone(), meta: self.meta(ctx, true), id, has_ended: false };
        ctx.become_task().await;
        // `rmcp` does not decode the `pollInterval` of later states.
        let usual_poll = interval(&state, USUAL_POLL);
        let (mut failures, mut lost_results, mut step, mut shown) = (0, 0, 0, String::new());
        let (mut asked, mut rounds) = (BTreeSet::new(), 0);
        let mut asking: Option<Asking<'_>> = None;
        loop {
            tokio::select! {
                responses = async {
                    match &mut asking {
                        Some(asking) => asking.await,
                        None => pending().await,
                    }
                }, if asking.is_some() => {
                    asking = None;
                    task.request("tasks/update", Some(responses?), None).await.map_err(failed)?;
                }
                () = sleep(interval(&state, usual_poll)) => {}
            }
            let is_tolerated =
                |error: &ServiceError, failures| is_temporary(error) && failures < MAX_FAILURES && !self.is_closed();
            match task.request("tasks/get", None, None).await {
                Ok(current) => (failures, state) = (0, serde_json::to_value(current).unwrap_or_default()),
                Err(error) => {
                    failures += 1;
                    if is_tolerated(&error, failures) {
                        continue;
                    }
                    return Err(failed(error));
                }
            }
            if let Some(message) = state["statusMessage"].as_str().filter(|message| *message != shown)
                && !call.has_progress.load(Ordering::Relaxed)
            {
                step += 1;
                ctx.progress(step, (), printable(message));
                message.clone_into(&mut shown);
            }
            let status = state["status"].as_str().unwrap_or_default();
            task.has_ended = matches!(status, "completed" | "failed" | "cancelled");
            match status {
                // A question that was not answered in time has ended.
                "working" => asking = None,
                "input_required" if self.is_stateless => {
                    let Ok(mut requests) = InputRequests::deserialize(&state["inputRequests"]) else {
                        return Err(CallError::Service(ServiceError::UnexpectedResponse));
                    };
                    requests.retain(|key, _| !asked.contains(key));
                    if asking.is_none() && !requests.is_empty() {
                        rounds += 1;
                        if rounds > MAX_ROUNDS {
                            return Err(too_many_questions());
                        }
                        asked.extend(requests.keys().cloned());
                        asking = Some(Box::pin(self.answer_all(ctx, prefix, requests)));
                    }
                }
                "input_required" | "completed" | "failed" | "cancelled" if !self.is_stateless => {
                    match task.request("tasks/result", None, Some(call)).await {
                        Ok(result) => {
                            task.has_ended = true;
                            return Ok(result);
                        }
                        // Some upstreams do not wait for the end of the task.
                        Err(ServiceError::McpError(_)) if !task.has_ended => {}
                        Err(error) => {
                            // The request waits while the user thinks, and whatever is between the servers may end it.
                            lost_results += usize::from(task.has_ended);
                            if !is_tolerated(&error, lost_results) {
                                return Err(failed(error));
                            }
                        }
                    }
                }
                "completed" => {
                    let result = serde_json::from_value(state["result"].take());
                    let invalid = |_| CallError::Service(ServiceError::UnexpectedResponse);
                    return result.map(ServerResult::CallToolResult).map_err(invalid);
                }
                "failed" => {
                    let error = serde_json::from_value(state["error"].take());
                    return Err(CallError::Service(match error {
                        Ok(error) => ServiceError::McpError(error),
                        Err(_) => ServiceError::UnexpectedResponse,
                    }));
                }
                "cancelled" => {
                    return Err(CallError::Fault(Fault::internal(
                        prefix.message("the upstream has cancelled the task"),
                    )));
                }
                _ => return Err(CallError::Service(ServiceError::UnexpectedResponse)),
            }
        }
    }
}

/// Returns the pause before the next request about a task, or `default` if the state has none.
fn interval(state: &Value, default: Duration) -> Duration {
    let given = state["pollIntervalMs"].as_u64().or_else(|| state["pollInterval"].as_u64());
    given.map_or(default, |given| Duration::from_millis(given).clamp(MIN_POLL, MAX_POLL))
}

fn is_temporary(error: &ServiceError) -> bool {
    matches!(error, ServiceError::TransportSend(_) | ServiceError::Timeout { .. })
}

/// Returns the error of a call whose task cannot be followed. The call must not be repeated, although the request was rejected.
fn failed(error: ServiceError) -> CallError {
    CallError::Service(if is_temporary(&error) { ServiceError::TransportClosed } else { error })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The revisions differ in the name of the interval.
    #[test]
    fn the_pause_between_requests_has_bounds() {
        for (state, expected) in [
            (json!({}), 1000),
            (json!({"pollInterval": null}), 1000),
            (json!({"pollInterval": 49}), 50),
            (json!({"pollInterval": 51}), 51),
            (json!({"pollIntervalMs": 0}), 50),
            (json!({"pollIntervalMs": 59_999}), 59_999),
            (json!({"pollIntervalMs": 60_001}), 60_000),
            (json!({"pollIntervalMs": u64::MAX}), 60_000),
        ] {
            assert_eq!(interval(&state, USUAL_POLL), Duration::from_millis(expected), "{state}");
        }
    }
}
