//! A call that ends with its questions, and runs again when the client brings the answers.
//!
//! See [Multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr).

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll, Waker},
};

use super::{
    live::Kept,
    seal::{Binding, State, StateKeys, question_digest},
};
use crate::{
    error::Fault,
    handler::{AnswerFuture, ClientRequester, Encoding, ask::Question},
    jsonrpc::raw,
    revision::encode::Object,
};

/// What a client brings when it calls again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// The JSON of each answer, by the key of its question.
    answers: HashMap<String, String>,
    /// What the server gave it; none in a first round.
    state: Option<State>,
}

impl Retry {
    /// Reads `inputResponses` and `requestState`, of which either may be missing.
    ///
    /// # Errors
    ///
    /// A fault that says which of them is not what it must be.
    pub(crate) fn read(
        answers: Option<&str>,
        state: Option<&str>,
        keys: &StateKeys,
        binding: &Binding,
    ) -> Result<Self, Fault> {
        let answers = match answers {
            None | Some("null") => HashMap::new(),
            Some(json) if raw::kind(json) == raw::Kind::Object => {
                raw::members(json).map(|(key, answer)| (key.into_owned(), answer.to_owned())).collect()
            }
            Some(_) => return Err(Fault::invalid_params("`inputResponses` must be an object")),
        };
        let state = match state {
            None | Some("null") => None,
            Some(json) => {
                let text = raw::string(json).ok_or_else(|| Fault::invalid_params("`requestState` must be a string"))?;
                Some(keys.open(&binding.digest(), &text)?)
            }
        };
        Ok(Self { answers, state })
    }
}

/// One run of a call, and what it knows of those before it.
pub(crate) struct Rounds {
    answers: HashMap<String, String>,
    /// The questions that the client was asked last, if it says so.
    asked: Option<HashMap<String, String>>,
    round: Arc<Mutex<Round>>,
    kept: Kept,
    /// The JSON of what the client declared.
    capabilities: Box<str>,
    keys: Arc<StateKeys>,
    binding: Binding,
    encoding: Arc<Encoding>,
}

#[derive(Debug, Default)]
struct Round {
    /// The questions with their answers, each with its key and digest.
    answered: Vec<(String, String, String)>,
    /// The questions that this run cannot answer.
    open: Vec<Open>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    digest: String,
    /// How many wait for its answer.
    waiting: usize,
}

impl Rounds {
    pub(crate) fn new(
        retry: Retry,
        capabilities: &str,
        keys: Arc<StateKeys>,
        binding: Binding,
        encoding: Arc<Encoding>,
    ) -> Self {
        let Retry { answers, state } = retry;
        let (asked, State { answered, once, .. }) = match state {
            Some(state) => (Some(state.asked.clone()), state),
            None => (None, State::default()),
        };
        let round = Round { answered, ..Round::default() };
        Self {
            answers,
            asked,
            round: Arc::new(Mutex::new(round)),
            kept: once.into(),
            capabilities: capabilities.into(),
            keys,
            binding,
            encoding,
        }
    }

    /// Finds the answer to a question: one from an earlier round, or one that the client brought for it.
    fn known(&self, round: &mut Round, key: &str, digest: &str, fits: &dyn Fn(&str) -> bool) -> Option<String> {
        let mut under_key = round.answered.iter().filter(|(answered, ..)| answered == key).peekable();
        let is_first = under_key.peek().is_none();
        if let Some((_, _, answer)) = under_key.find(|(_, answered, _)| answered == digest) {
            return Some(answer.clone());
        }
        let answer = self.answers.get(key).filter(|answer| fits(answer))?;
        let is_meant = match &self.asked {
            Some(asked) => asked.get(key).is_some_and(|asked| asked == digest),
            // It was brought unasked, or comes from a client that keeps no state: for the first question under its key.
            None => is_first,
        };
        is_meant.then(|| {
            round.answered.push((key.to_owned(), digest.to_owned(), answer.clone()));
            answer.clone()
        })
    }

    /// Writes the result that ends the call for now.
    fn input_required(&self, round: &mut Round) -> Result<Vec<u8>, Fault> {
        let open = std::mem::take(&mut round.open);
        let asked = open.iter().map(|open| (open.question.key.clone(), open.digest.clone())).collect();
        let state = State { asked, answered: round.answered.clone(), once: self.kept.values().clone() };
        let state = self.keys.seal(&self.binding.digest(), state)?;
        let mut out = Vec::new();
        let mut result = Object::begin(&mut out);
        let mut requests = Object::begin(result.key("inputRequests"));
        for Open { question, .. } in &open {
            let mut request = Object::begin(requests.key(&question.key));
            request.string("method", question.method);
            request.raw("params", question.params.as_bytes());
            request.end();
        }
        requests.end();
        result.string("requestState", &state);
        self.encoding.end_result_as(&mut out, "input_required", None);
        Ok(out)
    }
}

impl ClientRequester for Rounds {
    fn capabilities(&self) -> &str {
        &self.capabilities
    }

    fn ask(&self, question: Question, fits: &dyn Fn(&str) -> bool) -> AnswerFuture {
        let digest = question_digest(&self.binding.digest(), question.method, &question.params);
        let mut round = lock(&self.round);
        if let Some(answer) = self.known(&mut round, &question.key, &digest, fits) {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if !question.needs.is_declared_in(&self.capabilities) {
            let fault = Fault::MissingCapability { required: question.needs.required() };
            return Box::pin(std::future::ready(Err(fault)));
        }
        let key = question.key.clone();
        match round.open.iter_mut().find(|open| open.question.key == key) {
            Some(open) if open.digest != digest => {
                let why = format!("two different questions are asked under the key `{key}` at once");
                return Box::pin(std::future::ready(Err(Fault::internal(why))));
            }
            Some(open) => open.waiting += 1,
            None => round.open.push(Open { question, digest, waiting: 1 }),
        }
        if let Some(waker) = round.waker.take() {
            waker.wake();
        }
        drop(round);
        let parked = Parked { round: Arc::clone(&self.round), key };
        Box::pin(async move {
            let _parked = parked;
            poll_fn(|_| Poll::Pending).await
        })
    }

    fn recall(&self, key: &str) -> Option<String> {
        self.kept.get(key)
    }

    fn remember(&self, key: &str, value: String) {
        self.kept.set(key, value);
    }

    fn poll_suspended(&self, cx: &mut TaskContext<'_>) -> Poll<Result<Vec<u8>, Fault>> {
        let mut round = lock(&self.round);
        if !round.open.is_empty() {
            return Poll::Ready(self.input_required(&mut round));
        }
        round.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn lock(round: &Mutex<Round>) -> MutexGuard<'_, Round> {
    round.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One who waits for an answer. Takes the question back that nobody waits for any more.
struct Parked {
    round: Arc<Mutex<Round>>,
    key: String,
}

impl Drop for Parked {
    fn drop(&mut self) {
        lock(&self.round).open.retain_mut(|open| {
            open.waiting -= usize::from(open.question.key == self.key);
            open.waiting > 0
        });
    }
}
