//! Requests to the client, which functions await like any other future, whatever the revision.
//!
//! A [`ClientRequester`] decides how a request reaches the client: either the call waits for the answer, or the call
//! ends with the request and runs again with the answer.

use std::{
    collections::HashMap,
    future::{poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::{
    ask::{Answer, Ask, Capability, ElicitationSession, InvalidAnswer, Question, UrlElicitation},
    caller::{CallLifetime, SessionInfo},
    outcome::Finished,
};
use crate::{
    error::Fault,
    revision::{DEPRECATED_ROOTS, DEPRECATED_SAMPLING, Feature, Features},
    stdx::{Mutex, OnDrop, race},
};

/// The maximum number of times that a client is asked the same question because its answers are invalid. After that,
/// the function receives [`Fault::InvalidAnswer`].
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// The future of the client's result, as JSON.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<String, Fault>> + Send>>;

/// A check of the client's result, as JSON.
pub(crate) type CheckAnswer<'a> = dyn Fn(&str) -> Result<(), InvalidAnswer> + 'a;

/// The channel through which one call sends requests to its client.
pub(crate) trait ClientRequester: Send + Sync {
    /// Returns the capabilities that the client declared, as JSON.
    fn capabilities(&self) -> &str;

    /// Sends a request. An answer that is already known is used only if `check` accepts it.
    fn ask(&self, question: Question, check: &CheckAnswer<'_>) -> AnswerFuture;

    /// Returns whether the client is asked again after an invalid answer.
    fn retries_invalid_answers(&self) -> bool {
        false
    }

    /// Sends a `ping`, if the revision has it.
    fn ping(&self) -> AnswerFuture {
        Box::pin(ready(Err(cannot_send())))
    }

    /// Returns the session, if there is one.
    fn session(&self) -> Option<Arc<dyn SessionPeer>> {
        None
    }

    /// Returns the session to which the requests of the call are sent. `None` if requests may reach the client in
    /// another session.
    fn elicitation_session(&self) -> Option<Arc<dyn ElicitationSession>> {
        None
    }

    /// Returns the values of `ctx.once` that the call stored in this round or an earlier round.
    fn once_values(&self) -> &OnceValues;

    /// Returns the outcome that ends the call if it cannot continue before the client retries it, or `None` if it can.
    /// Calls that wait for their answers can always continue. While the result is pending, the function must not run.
    fn poll_suspended(&self, _: &mut task::Context<'_>) -> Poll<Option<Finished>> {
        Poll::Ready(None)
    }
}

/// A session, for messages that belong to no call.
pub(crate) trait SessionPeer: ClientRequester {
    fn info(&self) -> &SessionInfo;

    fn has_ended(&self) -> bool;

    /// Waits until the session has ended.
    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns whether the client is initialized and has a stream for messages that belong to no call.
    fn is_reachable(&self) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// The requests of one call, or of a session, to its client. Sends them, waits for the answers, and stores values
/// between rounds.
#[derive(Clone, Copy)]
pub struct ClientRequests<'a> {
    pub(super) requester: Option<&'a dyn ClientRequester>,
    pub(super) features: Features,
    /// The call. `None` outside of calls.
    pub(super) call: Option<CallRequests<'a>>,
}

/// The call that sends requests to its client.
#[derive(Clone, Copy)]
pub(crate) struct CallRequests<'a> {
    pub(super) lifetime: &'a CallLifetime,
    pub(super) wait: &'a ClientWait,
}

impl ClientRequests<'_> {
    pub(super) async fn ask<A: Ask>(self, ask: A) -> Result<A::Answer, Fault> {
        self.send(ask).await.inspect_err(|fault| self.record_unmet_requirement(fault))
    }

    async fn send<A: Ask>(self, ask: A) -> Result<A::Answer, Fault> {
        let requester = self.requester.ok_or_else(cannot_send)?;
        let mut attempts = 1..MAX_ATTEMPTS;
        let mut question = ask.question(self.features)?;
        let is_declared = |capability: &Capability| capability.is_declared_in(requester.capabilities());
        if self.features.has(Feature::Deprecations) && question.capabilities.iter().all(is_declared) {
            match question.method {
                "sampling/createMessage" => DEPRECATED_SAMPLING.warn(),
                "roots/list" => DEPRECATED_ROOTS.warn(),
                _ => {}
            }
        }
        loop {
            let key = question.key.clone();
            let answer = requester.ask(question, &|result| ask.read(result).map(drop));
            let result = self.wait(answer).await?;
            match ask.read(&result) {
                Ok(answer) => return Ok(answer),
                Err(error) if requester.retries_invalid_answers() && attempts.next().is_some() => {
                    tracing::debug!(key, %error, "invalid answer, asking again");
                    question = ask.question(self.features)?;
                    question.params = question.params_after(&error);
                }
                Err(error) => return Err(error.into_fault(key)),
            }
        }
    }

    /// Returns the fault of a call that needs web pages to be visited first.
    pub(super) async fn url_elicitation_required(self, pages: Vec<UrlElicitation>) -> Fault {
        let fault = self.require_urls(pages).await.unwrap_or_else(|fault| fault);
        self.record_unmet_requirement(&fault);
        fault
    }

    async fn require_urls(self, pages: Vec<UrlElicitation>) -> Result<Fault, Fault> {
        let requester = self.requester.ok_or_else(cannot_send)?;
        if pages.is_empty() {
            return Err(Fault::internal("`url_elicitation_required` was called without a page, expected at least one"));
        }
        if self.features.has(Feature::ElicitationIds) {
            if !self.supports(Capability::UrlElicitation) {
                return Err(Capability::missing(&[Capability::UrlElicitation]));
            }
            let elicitations = pages.iter().map(|page| page.required(requester.elicitation_session()));
            return Ok(Fault::UrlElicitationRequired { elicitations: elicitations.collect::<Result<_, _>>()? });
        }
        let answers = pages.ask_all(self).await?;
        let reason = if answers.iter().all(Answer::is_accepted) {
            "the interaction on a web page that the call requires is not complete"
        } else {
            "the user has not agreed to open a web page that the call requires"
        };
        Err(Fault::InteractionRequired(reason.to_owned()))
    }

    /// Sends a `ping` and returns the time that the response took.
    pub(super) async fn ping(self) -> Result<Duration, Fault> {
        if !self.features.has(Feature::Ping) {
            return Err(Fault::internal("the client's protocol revision has no `ping`"));
        }
        let requester = self.requester.ok_or_else(cannot_send)?;
        let started = Instant::now();
        self.wait(requester.ping()).await?;
        Ok(started.elapsed())
    }

    /// Waits for an answer, but not beyond the end of the call: a spawned task would otherwise wait forever.
    async fn wait(self, answer: AnswerFuture) -> Result<String, Fault> {
        let Some(CallRequests { lifetime, wait }) = self.call else { return answer.await };
        let _waiting = wait.start();
        let ended = |()| Err(Fault::internal("the call ended before its client answered"));
        race(answer, lifetime.ended()).await.unwrap_or_else(ended)
    }

    pub(super) async fn once<T: Serialize + DeserializeOwned>(
        self,
        key: String,
        future: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        let Some(requester) = self.requester else { return Ok(future.await) };
        let not_storable = |error: serde_json::Error| {
            tracing::error!(key, %error, "a value of `ctx.once` cannot be stored: its type must round-trip through JSON");
            Fault::internal(format!("the value of `{key}` cannot be stored"))
        };
        let stored = requester.once_values().lock().get(&key).cloned();
        if let Some(json) = stored {
            return serde_json::from_str(&json).map_err(not_storable);
        }
        let value = future.await;
        let json = serde_json::to_string(&value).map_err(not_storable)?;
        requester.once_values().lock().insert(key, json);
        Ok(value)
    }

    pub(super) fn supports(self, capability: Capability) -> bool {
        let Some(requester) = self.requester else { return false };
        let capability = capability.declared_as(self.features);
        capability.is_some_and(|capability| capability.is_declared_in(requester.capabilities()))
    }

    pub(super) fn require(self, capability: Capability) -> Result<(), Fault> {
        if self.supports(capability) {
            return Ok(());
        }
        Err(Capability::missing(&[capability])).inspect_err(|fault| self.record_unmet_requirement(fault))
    }

    fn record_unmet_requirement(self, fault: &Fault) {
        if let Some(call) = self.call {
            call.wait.record_unmet_requirement(fault);
        }
    }
}

/// Returns the fault of a function that cannot send any request.
fn cannot_send() -> Fault {
    Fault::internal("only tools, prompts and resources can send requests to the client")
}

/// The values that a call computed with `ctx.once`, as JSON, by key.
pub(crate) type OnceValues = Mutex<HashMap<String, String>>;

/// Several requests to the client that are sent at once: a tuple of up to six, or a vector.
///
/// ```
/// use mcp_runtime::{Context, Fault, ask::{ListRoots, SampleRequest}};
///
/// # #[allow(dead_code)]
/// async fn plan(ctx: &Context) -> Result<String, Fault> {
///     let (roots, name) = ctx.ask_all((ListRoots, SampleRequest::new("Suggest a name."))).await?;
///     Ok(format!("{} for {} directories", name.text(), roots.len()))
/// }
/// ```
pub trait AskAll {
    /// The answers, in the order of the requests.
    type Answers;

    /// Sends the requests.
    #[doc(hidden)]
    fn ask_all(self, client: ClientRequests<'_>) -> impl Future<Output = Result<Self::Answers, Fault>> + Send;
}

/// Polls one of several requests, unless it has an answer already. Returns whether it has one now.
fn poll_answer<F: Future<Output = Result<T, Fault>>, T>(
    ask: &mut Pin<Box<F>>,
    answer: &mut Option<T>,
    cx: &mut task::Context<'_>,
) -> Result<bool, Fault> {
    if answer.is_none()
        && let Poll::Ready(result) = ask.as_mut().poll(cx)
    {
        *answer = Some(result?);
    }
    Ok(answer.is_some())
}

impl<A: Ask> AskAll for Vec<A> {
    type Answers = Vec<A::Answer>;

    async fn ask_all(self, client: ClientRequests<'_>) -> Result<Self::Answers, Fault> {
        let mut pending: Vec<_> = self.into_iter().map(|ask| Box::pin(client.ask(ask))).collect();
        let mut answers: Vec<Option<A::Answer>> = pending.iter().map(|_| None).collect();
        poll_fn(|cx| {
            let mut all = true;
            for (ask, answer) in pending.iter_mut().zip(&mut answers) {
                all &= poll_answer(ask, answer, cx)?;
            }
            if all { Poll::Ready(Ok(answers.iter_mut().filter_map(Option::take).collect())) } else { Poll::Pending }
        })
        .await
    }
}

macro_rules! ask_all {
    ($($ask:ident $answer:ident),+) => {
        impl<$($ask: Ask),+> AskAll for ($($ask,)+) {
            type Answers = ($($ask::Answer,)+);

            #[allow(non_snake_case, reason = "the variables are named after their types")]
            async fn ask_all(self, client: ClientRequests<'_>) -> Result<Self::Answers, Fault> {
                let ($($ask,)+) = self;
                $(let mut $ask = Box::pin(client.ask($ask)); let mut $answer = None;)+
                poll_fn(|cx| {
                    let all = true $(& poll_answer(&mut $ask, &mut $answer, cx)?)+;
                    if all && let ($(Some($answer),)+) = ($($answer.take(),)+) {
                        return Poll::Ready(Ok(($($answer,)+)));
                    }
                    Poll::Pending
                })
                .await
            }
        }
    };
}

ask_all!(A a);
ask_all!(A a, B b);
ask_all!(A a, B b, C c);
ask_all!(A a, B b, C c, D d);
ask_all!(A a, B b, C c, D d, E e);
ask_all!(A a, B b, C c, D d, E e, F f);

/// The requests that a call has sent to its client, and the time spent waiting for responses.
#[derive(Debug, Default)]
pub(crate) struct ClientWait(Mutex<WaitState>);

#[derive(Debug, Default)]
struct WaitState {
    asked: bool,
    /// The number of requests that the client has not answered yet.
    pending: usize,
    /// The time at which the first of the pending requests was sent.
    since: Option<Instant>,
    /// The time spent waiting before `since`.
    elapsed: Duration,
    unmet_requirement: Option<Fault>,
}

impl ClientWait {
    /// Counts one pending request until the guard is dropped.
    pub(crate) fn start(&self) -> OnDrop<impl FnMut()> {
        let mut state = self.0.lock();
        state.asked = true;
        state.pending += 1;
        state.since.get_or_insert_with(Instant::now);
        OnDrop(move || {
            let mut state = self.0.lock();
            state.pending -= 1;
            if state.pending == 0 {
                let since = state.since.take();
                state.elapsed += since.map_or(Duration::ZERO, |since| since.elapsed());
            }
        })
    }

    /// Records a fault that tells the client what the call requires: [`Fault::MissingCapability`] or
    /// [`Fault::UrlElicitationRequired`]. Ignores every other fault.
    ///
    /// A function may convert the fault to its own error type, which keeps only the message. The record lets the engine
    /// report the requirement to the client nevertheless.
    pub(crate) fn record_unmet_requirement(&self, fault: &Fault) {
        if matches!(fault, Fault::MissingCapability { .. } | Fault::UrlElicitationRequired { .. }) {
            self.0.lock().unmet_requirement = Some(fault.clone());
        }
    }

    /// Returns the last fault that tells the client what the call requires.
    pub(crate) fn unmet_requirement(&self) -> Option<Fault> {
        self.0.lock().unmet_requirement.clone()
    }

    pub(super) fn has_asked(&self) -> bool {
        self.0.lock().asked
    }

    /// Returns how long the call has waited for its client. This time does not count towards the timeout of the call.
    pub(crate) fn elapsed(&self) -> Duration {
        let state = self.0.lock();
        state.elapsed + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
