//! Requests to the client, which functions await like any other future, whatever the revision.
//!
//! A [`ClientRequester`] decides how a request reaches the client: either the call waits for the answer, or the call
//! ends with the request and runs again with the answer.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{self, Poll},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    ask::{Ask, Capability, Question},
    context::{client_wait::ClientWait, lifetime::CallLifetime},
};
use crate::{error::Fault, revision::Features};

/// The maximum number of times that a client is asked the same question because its answers are invalid.
const MAX_ATTEMPTS: u32 = 10;

/// The future of the client's result, as JSON.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<String, Fault>> + Send>>;

/// The channel through which one call sends requests to its client.
pub(crate) trait ClientRequester: Send + Sync {
    /// Returns the capabilities that the client declared, as JSON.
    fn capabilities(&self) -> &str;

    /// Sends a request. An answer that is already known is used only if `is_valid` accepts it.
    fn ask(&self, question: Question, is_valid: &dyn Fn(&str) -> bool) -> AnswerFuture;

    /// Returns whether the client is asked again after an invalid answer.
    fn retries_invalid_answers(&self) -> bool {
        false
    }

    /// Returns a value that the call stored in this round or an earlier one, as JSON.
    fn recall(&self, key: &str) -> Option<String>;

    /// Stores a value for later rounds, as JSON.
    fn remember(&self, key: &str, value: String);

    /// Returns `Ready` with the result that ends the call if it cannot continue before the client retries it.
    fn poll_suspended(&self, cx: &mut task::Context<'_>) -> Poll<Result<Vec<u8>, Fault>>;
}

/// The requests of one call to its client. Sends them, waits for the answers, and stores values between rounds.
#[derive(Clone, Copy)]
pub struct ClientRequests<'a> {
    pub(super) requester: Option<&'a dyn ClientRequester>,
    pub(super) features: Features,
    pub(super) lifetime: &'a CallLifetime,
    pub(super) wait: &'a ClientWait,
}

impl ClientRequests<'_> {
    pub(super) async fn ask<A: Ask>(self, ask: A) -> Result<A::Answer, Fault> {
        self.send(ask).await.inspect_err(|fault| self.wait.record_missing_capability(fault))
    }

    async fn send<A: Ask>(self, ask: A) -> Result<A::Answer, Fault> {
        let Some(requester) = self.requester else {
            return Err(Fault::internal("only tools, prompts and resources can send requests to the client"));
        };
        let mut attempts = 1..MAX_ATTEMPTS;
        loop {
            let question = ask.question(self.features)?;
            let key = question.key.clone();
            let is_valid = |result: &str| match ask.read(result) {
                Ok(_) => true,
                Err(error) => {
                    tracing::debug!(key, %error, "invalid answer, asking again");
                    false
                }
            };
            let answer = requester.ask(question, &is_valid);
            let result = {
                let _waiting = self.wait.start();
                self.until_ended(answer).await?
            };
            match ask.read(&result) {
                Ok(answer) => return Ok(answer),
                Err(error) if requester.retries_invalid_answers() && attempts.next().is_some() => {
                    tracing::debug!(key, %error, "invalid answer, asking again");
                }
                Err(error) => {
                    return Err(Fault::internal(format!("the client's answer to `{key}` is invalid: {error}")));
                }
            }
        }
    }

    /// Waits for an answer, but not beyond the end of the call: a spawned task would otherwise wait forever.
    async fn until_ended(self, mut answer: AnswerFuture) -> Result<String, Fault> {
        let mut ended = pin!(self.lifetime.ended());
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => {
                ended.as_mut().poll(cx).map(|()| Err(Fault::internal("the call ended before its client answered")))
            }
        })
        .await
    }

    pub(super) async fn once<T: Serialize + DeserializeOwned>(
        self,
        key: String,
        future: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        let Some(requester) = self.requester else { return Ok(future.await) };
        let not_storable =
            |error: serde_json::Error| Fault::internal(format!("the value of `{key}` cannot be stored: {error}"));
        if let Some(json) = requester.recall(&key) {
            return serde_json::from_str(&json).map_err(not_storable);
        }
        let value = future.await;
        let json = serde_json::to_string(&value).map_err(not_storable)?;
        requester.remember(&key, json);
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
        Err(Capability::missing(&[capability])).inspect_err(|fault| self.wait.record_missing_capability(fault))
    }
}

/// Several requests to the client that are sent at once: a tuple of up to six, or a vector.
pub trait AskAll {
    /// The answers, in the order of the requests.
    type Answers;

    /// Sends the requests.
    #[doc(hidden)]
    fn ask_all(self, client: ClientRequests<'_>) -> impl Future<Output = Result<Self::Answers, Fault>> + Send;
}

impl<A: Ask> AskAll for Vec<A> {
    type Answers = Vec<A::Answer>;

    async fn ask_all(self, client: ClientRequests<'_>) -> Result<Self::Answers, Fault> {
        let mut pending: Vec<_> = self.into_iter().map(|ask| Box::pin(client.ask(ask))).collect();
        let mut answers: Vec<Option<A::Answer>> = pending.iter().map(|_| None).collect();
        poll_fn(|cx| {
            for (future, answer) in pending.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let Poll::Ready(result) = future.as_mut().poll(cx)
                {
                    match result {
                        Ok(value) => *answer = Some(value),
                        Err(fault) => return Poll::Ready(Err(fault)),
                    }
                }
            }
            if answers.iter().all(Option::is_some) {
                return Poll::Ready(Ok(answers.iter_mut().filter_map(Option::take).collect()));
            }
            Poll::Pending
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
                    $(if $answer.is_none()
                        && let Poll::Ready(result) = $ask.as_mut().poll(cx)
                    {
                        match result {
                            Ok(value) => $answer = Some(value),
                            Err(fault) => return Poll::Ready(Err(fault)),
                        }
                    })+
                    if $($answer.is_some())&&+
                        && let ($(Some($answer),)+) = ($($answer.take(),)+)
                    {
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
