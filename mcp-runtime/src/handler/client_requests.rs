//! Asks the client, in code that reads straight on in every revision.
//!
//! How the question gets there is an [`ClientRequester`]'s business: as a request of the server's while the call waits, or by ending the
//! call and running it again with what the client answered.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{self, Poll},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    Context,
    ask::{
        Answer, Ask, Capability, Elicit, Elicitation, ListRoots, Question, Root, SampleRequest, SampleResult,
        UrlElicitation,
    },
};
use crate::error::Fault;

/// How often a question is put to a client whose answers do not fit.
const ATTEMPTS: u32 = 10;

/// The JSON of the result that a client gives, when it does.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<String, Fault>> + Send>>;

/// How one call asks its client.
pub(crate) trait ClientRequester: Send + Sync {
    /// The JSON of the capabilities that the client declared.
    fn capabilities(&self) -> &str;

    /// Puts a question. An answer that is known already is taken only if it `fits`.
    fn ask(&self, question: Question, fits: &dyn Fn(&str) -> bool) -> AnswerFuture;

    /// Says whether an answer that does not fit is asked for again.
    fn asks_again(&self) -> bool {
        false
    }

    /// The JSON of a value that the call has made before, in this round or an earlier one.
    fn recall(&self, key: &str) -> Option<String>;

    /// Keeps the JSON of a value for later rounds.
    fn remember(&self, key: &str, value: String);

    /// Ready with the result that ends the call here, if it cannot go on before its client calls again.
    fn poll_suspended(&self, cx: &mut task::Context<'_>) -> Poll<Result<Vec<u8>, Fault>>;
}

impl Context {
    /// Asks the user to fill in a form, with a sentence that says what for.
    ///
    /// `key` names the question among those of this call. A client of revision 2025-06-18 to 2025-11-25 is asked while the call
    /// waits. In 2026-07-28 the call ends with the question, and **the function runs again from its start** when the client comes
    /// back with the answer: whatever it did before is done again, unless it stands in [`once`](Self::once). Either way the next
    /// line sees the answer.
    ///
    /// ```
    /// use mcp_runtime::{Answer, Context, Elicit, Fault, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     /// Really delete it?
    ///     sure: bool,
    /// }
    ///
    /// /// Delete a file.
    /// #[tool(destructive)]
    /// async fn delete(ctx: &Context, path: String) -> Result<String, Fault> {
    ///     match ctx.elicit::<Confirm>("confirm", format!("Delete {path}?")).await? {
    ///         Answer::Accept(Confirm { sure: true }) => Ok(format!("deleted {path}")),
    ///         Answer::Accept(_) | Answer::Decline | Answer::Cancel => Ok("nothing was deleted".into()),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Fault::MissingCapability`] if the client cannot be asked; a fault if it answers with an error, with something that does not
    /// fit, or not in time.
    ///
    /// See [Elicitation](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation) and
    /// [Multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr).
    pub async fn elicit<T: Elicit>(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<T>, Fault> {
        self.ask(Elicitation::new(key, message)).await
    }

    /// Sends the user to a page of the server's own, for what must not pass through the client: credentials, payments.
    ///
    /// [`Answer::Accept`] says that the user agreed to go there, not that anything was done there.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit); only revisions from 2025-11-25 on have it.
    ///
    /// See [URL mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests).
    pub async fn elicit_url(
        &self,
        key: impl Into<String>,
        url: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<()>, Fault> {
        self.ask(UrlElicitation::new(key, url, message)).await
    }

    /// Has the client's model write something.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    ///
    /// See [Sampling](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling).
    pub async fn sample(&self, request: SampleRequest) -> Result<SampleResult, Fault> {
        self.ask(request).await
    }

    /// Asks for the directories that the client lets the server work in.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    ///
    /// See [Roots](https://modelcontextprotocol.io/specification/2026-07-28/client/roots).
    pub async fn roots(&self) -> Result<Vec<Root>, Fault> {
        self.ask(ListRoots).await
    }

    /// Asks one thing: what [`elicit`](Self::elicit), [`sample`](Self::sample) and the like do, for a request that was made before.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    ///
    /// # Cancel safety
    ///
    /// A question whose future is dropped is taken back; its answer is lost.
    ///
    /// A function of any error type may pass the fault of a missing capability on: the client learns what it lacks.
    pub async fn ask<A: Ask>(&self, ask: A) -> Result<A::Answer, Fault> {
        self.put(ask).await.inspect_err(|fault| self.note_lack(fault))
    }

    async fn put<A: Ask>(&self, ask: A) -> Result<A::Answer, Fault> {
        let Some(requester) = self.requester() else {
            return Err(Fault::internal("the client cannot be asked here: only tools, prompts and resources can"));
        };
        let mut attempts = 1..ATTEMPTS;
        loop {
            let question = ask.question(self.parts().dialect.features())?;
            let key = question.key.clone();
            let fits = |result: &str| {
                let read = ask.read(result).map(drop);
                read.inspect_err(|why| tracing::debug!(key, why, "an answer does not fit, and is asked for again"))
                    .is_ok()
            };
            let asking = requester.ask(question, &fits);
            let result = {
                let _waiting = self.wait_for_client();
                self.until_ended(asking).await?
            };
            match ask.read(&result) {
                Ok(answer) => return Ok(answer),
                Err(why) if requester.asks_again() && attempts.next().is_some() => {
                    tracing::debug!(key, %why, "an answer does not fit, and is asked for again");
                }
                Err(why) => {
                    return Err(Fault::internal(format!("the client's answer to `{key}` does not fit: {why}")));
                }
            }
        }
    }

    /// Asks several things at once: a tuple of up to six, or a vector. In revision 2026-07-28 that is one round instead of one for
    /// each.
    ///
    /// ```
    /// use mcp_runtime::{Context, Elicit, Elicitation, Fault, ListRoots, SampleRequest, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Name {
    ///     name: String,
    /// }
    ///
    /// /// Greet the user.
    /// #[tool]
    /// async fn greet(ctx: &Context) -> Result<String, Fault> {
    ///     let (name, greeting, roots) = ctx
    ///         .ask_all((
    ///             Elicitation::<Name>::new("name", "Who are you?"),
    ///             SampleRequest::new("Write a greeting."),
    ///             ListRoots,
    ///         ))
    ///         .await?;
    ///     let name = name.accepted().map_or_else(|| "you".to_owned(), |form| form.name);
    ///     Ok(format!("{} {name} ({} roots)", greeting.text(), roots.len()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of any of them; the others are taken back then.
    pub async fn ask_all<A: AskAll>(&self, asks: A) -> Result<A::Answers, Fault> {
        asks.ask_all(self).await
    }

    /// Does something once, however often the function runs again to ask its questions: the value travels in the sealed state
    /// of the request.
    ///
    /// It is for what must not differ from round to round, such as a random number, and for what must not happen in each of them, such as
    /// a reservation. `key` names it among those of this call. A value is kept from the next question on: where a client begins
    /// anew, or sends the same round twice, what comes after the last question happens again. What must never happen twice is to be
    /// recognised by a number that was made once, as a payment is by its idempotency key.
    ///
    /// Await it by itself: a value that is still being made when a question beside it ends the round is lost, and made again in the
    /// next one. Two of one key that run at the same time both do their work. A `Result` is kept as well, also an `Err`.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// # async fn reserve() -> u64 { 1 }
    /// /// Book a seat.
    /// #[tool]
    /// async fn book(ctx: &Context) -> Result<String, Fault> {
    ///     let seat = ctx.once("seat", reserve()).await?;
    ///     // … ask for confirmation …
    ///     Ok(format!("seat {seat}"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// A fault if the value cannot be written as JSON, or not be read again as a `T`.
    pub async fn once<T: Serialize + DeserializeOwned>(
        &self,
        key: impl Into<String>,
        future: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        let key = key.into();
        let Some(requester) = self.requester() else { return Ok(future.await) };
        let unfit = |why: serde_json::Error| Fault::internal(format!("the value of `{key}` cannot be kept: {why}"));
        if let Some(json) = requester.recall(&key) {
            return serde_json::from_str(&json).map_err(unfit);
        }
        let value = future.await;
        let json = serde_json::to_string(&value).map_err(unfit)?;
        requester.remember(&key, json);
        Ok(value)
    }

    /// Tells whether the client can be asked for what needs a capability: whether it has declared it, in a revision that has it.
    ///
    /// ```
    /// # use mcp_runtime::{Capability, Context, Fault, SampleRequest, tool};
    /// /// Summarise a text.
    /// #[tool]
    /// async fn summarise(ctx: &Context, text: String) -> Result<String, Fault> {
    ///     if ctx.supports(Capability::Sampling) {
    ///         return Ok(ctx.sample(SampleRequest::new(format!("Summarise: {text}"))).await?.text());
    ///     }
    ///     Ok(text.chars().take(80).collect())
    /// }
    /// ```
    pub fn supports(&self, capability: Capability) -> bool {
        let Some(requester) = self.requester() else { return false };
        let capability = capability.within(self.parts().dialect.features());
        capability.is_some_and(|capability| capability.is_declared_in(requester.capabilities()))
    }

    /// Refuses a client that cannot be asked for what needs a capability, before anything is done for it.
    ///
    /// # Errors
    ///
    /// [`Fault::MissingCapability`], as the question itself would give.
    pub fn require(&self, capability: Capability) -> Result<(), Fault> {
        match self.supports(capability) {
            true => Ok(()),
            false => Err(capability.missing()).inspect_err(|fault| self.note_lack(fault)),
        }
    }

    /// Waits for an answer, but no longer than the call is worth one: code that runs beside the call must not wait for ever.
    async fn until_ended(&self, mut asking: AnswerFuture) -> Result<String, Fault> {
        let mut ended = pin!(self.ended());
        poll_fn(|cx| match asking.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => {
                ended.as_mut().poll(cx).map(|()| Err(Fault::internal("the call ended before its client answered")))
            }
        })
        .await
    }
}

/// Several questions that are asked at once.
pub trait AskAll {
    /// Their answers, in the same order.
    type Answers;

    /// Asks them.
    #[doc(hidden)]
    fn ask_all(self, ctx: &Context) -> impl Future<Output = Result<Self::Answers, Fault>> + Send;
}

impl<A: Ask> AskAll for Vec<A> {
    type Answers = Vec<A::Answer>;

    async fn ask_all(self, ctx: &Context) -> Result<Self::Answers, Fault> {
        let mut asking: Vec<_> = self.into_iter().map(|ask| Box::pin(ctx.ask(ask))).collect();
        let mut answers: Vec<Option<A::Answer>> = asking.iter().map(|_| None).collect();
        poll_fn(|cx| {
            for (asking, answer) in asking.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let Poll::Ready(result) = asking.as_mut().poll(cx)
                {
                    match result {
                        Ok(found) => *answer = Some(found),
                        Err(fault) => return Poll::Ready(Err(fault)),
                    }
                }
            }
            match answers.iter().all(Option::is_some) {
                true => Poll::Ready(Ok(answers.iter_mut().filter_map(Option::take).collect())),
                false => Poll::Pending,
            }
        })
        .await
    }
}

macro_rules! ask_all {
    ($($ask:ident $answer:ident),+) => {
        impl<$($ask: Ask),+> AskAll for ($($ask,)+) {
            type Answers = ($($ask::Answer,)+);

            #[allow(non_snake_case, reason = "the variables are named as their types")]
            async fn ask_all(self, ctx: &Context) -> Result<Self::Answers, Fault> {
                let ($($ask,)+) = self;
                $(let mut $ask = Box::pin(ctx.ask($ask)); let mut $answer = None;)+
                poll_fn(|cx| {
                    $(if $answer.is_none()
                        && let Poll::Ready(result) = $ask.as_mut().poll(cx)
                    {
                        match result {
                            Ok(found) => $answer = Some(found),
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
