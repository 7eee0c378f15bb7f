//! Calls that end with questions, and run again when the client repeats the request with responses; and the choice
//! between this and requests that are sent while the call waits.
//!
//! See [Multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr).

use std::{
    collections::{HashMap, HashSet},
    future::{pending, ready},
    pin::Pin,
    sync::Arc,
    task::{self, Context as TaskContext, Poll, Waker},
};

use super::{
    RoundStates,
    live::LiveRequester,
    state::{AnsweredQuestion, Binding, RequestState, question_digest},
};
use crate::{
    engine::request::{context::RequestContext, params::Params},
    error::Fault,
    handler::{
        AnswerFuture, CheckAnswer, ClientRequester, Encoding, Finished, Function, MAX_ATTEMPTS, OnceValues, ResultKind,
        ask::{InvalidAnswer, Question},
        entry::EntryKind,
    },
    jsonrpc::{RawJson, raw},
    revision::{Feature, encode::Object},
    stdx::{Mutex, OnDrop},
};

/// Returns the requester that sends the function's requests to its client, or `None` if the function cannot send any.
///
/// # Errors
///
/// Returns a fault if the client's answers or its request state are invalid.
pub(in crate::engine) fn requester(
    request: &RequestContext<'_>,
    function: &Function,
    subject: &str,
    arguments: &str,
    uses_context: bool,
) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
    if request.id.is_of_notification() {
        return Ok(None);
    }
    let engine = request.engine();
    let stateless = request.has(Feature::RequestMeta);
    if let Some(session) = request.session().filter(|_| uses_context && !stateless) {
        return Ok(Some(Arc::new(LiveRequester::of_call(session, &request.connection.outbox))));
    }
    let Params { input_responses, request_state, meta, .. } = request.params;
    if !stateless || !(uses_context || input_responses.is_some() || request_state.is_some()) {
        return Ok(None);
    }
    let method = match function.kind() {
        EntryKind::Tool => "tools/call",
        EntryKind::Resource => "resources/read",
        EntryKind::Prompt => "prompts/get",
        // The protocol has no rounds of such methods.
        EntryKind::Method => return Ok(None),
    };
    let principal = request.principal().map(Into::into);
    let binding = Binding { principal, method, name: subject.into(), arguments: arguments.into() };
    engine.start_background();
    let states = &request.engine().round_states;
    let responses = request.params.input_responses()?.map_or("{}", RawJson::text);
    let responses = raw::members(responses).map(|(key, response)| (key.into_owned(), response.to_owned())).collect();
    let state = request.params.request_state()?.map(|state| states.open(&binding.digest(), &state)).transpose()?;
    if let Some(earlier) = state.as_ref().and_then(|state| state.traceparent.as_deref()) {
        request.operation.continues(earlier);
    }
    let asked = state.as_ref().map(|state| state.asked.clone());
    let RequestState { answered, once, rejected, .. } = state.unwrap_or_default();
    Ok(Some(Arc::new(RoundsRequester {
        responses,
        asked,
        rejected,
        round: Arc::new(Mutex::new(Round { answered, ..Round::default() })),
        once: OnceValues::new(once),
        capabilities: meta.client_capabilities.map_or("{}", RawJson::text).into(),
        states: Arc::clone(states),
        binding,
        encoding: Arc::clone(request.encoding()),
        traceparent: request.operation.traceparent(),
    })))
}

/// The requester of one round of a call.
struct RoundsRequester {
    /// The response to each question of the previous round, as JSON, by key.
    responses: HashMap<String, String>,
    /// The digests of the questions that the previous round ended with, by key, if the client returned its state.
    asked: Option<HashMap<String, String>>,
    /// The number of invalid answers to these questions so far, by key.
    rejected: HashMap<String, u32>,
    round: Arc<Mutex<Round>>,
    once: OnceValues,
    /// The capabilities that the client declared, as JSON.
    capabilities: Box<str>,
    states: Arc<RoundStates>,
    binding: Binding,
    encoding: Arc<Encoding>,
    /// The `traceparent` of the round.
    traceparent: Option<String>,
}

#[derive(Default)]
struct Round {
    answered: Vec<AnsweredQuestion>,
    unanswered: Vec<UnansweredQuestion>,
    /// The digest of the first question of each key, if the client returned responses without a state. It has at most
    /// one entry for each response.
    first_asked: HashMap<String, String>,
    /// The keys of the questions whose last invalid answer the function knows about, at most one for each response. If
    /// the function asks again, the client is asked again.
    failed: HashSet<String>,
    /// Waits for a key, if the round could end but no key can seal its state yet.
    key_wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waker: Option<Waker>,
}

/// A question to which this round has no response.
#[derive(Debug)]
struct UnansweredQuestion {
    question: Question,
    digest: String,
    rejection: Option<Rejection>,
    /// The number of futures that wait for the response.
    waiting: usize,
}

/// Why a question is repeated.
#[derive(Debug)]
struct Rejection {
    /// The number of invalid answers so far.
    attempts: u32,
    error: InvalidAnswer,
}

impl RoundsRequester {
    /// Returns the response to a question: from an earlier round, or from the parameters of this one.
    ///
    /// # Errors
    ///
    /// Returns an error if the parameters contain an invalid response, and counts it.
    fn response_to(
        &self,
        round: &mut Round,
        key: &str,
        digest: &str,
        check: &CheckAnswer<'_>,
    ) -> Result<Option<String>, Rejection> {
        let is_this_question = |answered: &&AnsweredQuestion| answered.key == key && answered.digest == digest;
        if let Some(answered) = round.answered.iter().find(is_this_question) {
            return Ok(Some(answered.response.clone()));
        }
        let Some(response) = self.responses.get(key) else { return Ok(None) };
        let is_asked = match &self.asked {
            Some(asked) => asked.get(key).is_some_and(|asked| asked == digest),
            // A client may omit the state, or answer before it is asked. Then only the key identifies the question.
            None => round.first_asked.entry(key.to_owned()).or_insert_with(|| digest.to_owned()) == digest,
        };
        if !is_asked || round.failed.contains(key) {
            return Ok(None);
        }
        if let Err(error) = check(response) {
            let attempts = self.rejected.get(key).map_or(1, |earlier| earlier.saturating_add(1));
            return Err(Rejection { attempts, error });
        }
        let (key, digest) = (key.to_owned(), digest.to_owned());
        round.answered.push(AnsweredQuestion { key, digest, response: response.clone() });
        Ok(Some(response.clone()))
    }

    /// Encodes the result that ends this round.
    fn encode_input_required(&self, round: &mut Round) -> Result<Vec<u8>, Fault> {
        let questions = std::mem::take(&mut round.unanswered);
        let asked = questions.iter().map(|asked| (asked.question.key.clone(), asked.digest.clone())).collect();
        let rejections = questions.iter().filter_map(|asked| Some((&asked.question.key, asked.rejection.as_ref()?)));
        let rejected = rejections.map(|(key, rejection)| (key.clone(), rejection.attempts)).collect();
        let (answered, once) = (round.answered.clone(), self.once.lock().clone());
        let traceparent = self.traceparent.clone();
        let state = RequestState { asked, answered, rejected, once, traceparent };
        let state = self.states.keep(&self.binding.digest(), state)?;
        let mut out = Vec::new();
        let mut result = Object::begin(&mut out);
        let mut requests = Object::begin(result.key("inputRequests"));
        for UnansweredQuestion { question, rejection, .. } in &questions {
            let mut request = Object::begin(requests.key(&question.key));
            request.string("method", question.method);
            match rejection {
                Some(Rejection { error, .. }) => request.raw("params", question.params_after(error).as_bytes()),
                None => request.raw("params", question.params.as_bytes()),
            }
            request.end();
        }
        requests.end();
        result.string("requestState", &state);
        self.encoding.end_result_as(&mut out, "input_required", None);
        Ok(out)
    }
}

impl ClientRequester for RoundsRequester {
    fn capabilities(&self) -> &str {
        &self.capabilities
    }

    fn ask(&self, question: Question, check: &CheckAnswer<'_>) -> AnswerFuture {
        let digest = question_digest(&self.binding.digest(), question.method, &question.params);
        let mut round = self.round.lock();
        let rejection = match self.response_to(&mut round, &question.key, &digest, check) {
            Ok(Some(response)) => return Box::pin(ready(Ok(response))),
            Ok(None) => None,
            Err(Rejection { attempts, error }) if attempts >= MAX_ATTEMPTS => {
                round.failed.insert(question.key.clone());
                return Box::pin(ready(Err(error.into_fault(question.key))));
            }
            Err(rejection) => {
                tracing::debug!(key = question.key, error = %rejection.error, "invalid answer, asking again");
                Some(rejection)
            }
        };
        if let Err(fault) = question.check_capabilities(&self.capabilities) {
            return Box::pin(ready(Err(fault)));
        }
        let key = question.key.clone();
        match round.unanswered.iter_mut().find(|asked| asked.question.key == key) {
            Some(asked) if asked.digest != digest => {
                let message = format!("two different questions are pending under the same key: `{key}`");
                return Box::pin(ready(Err(Fault::internal(message))));
            }
            Some(asked) => asked.waiting += 1,
            None => round.unanswered.push(UnansweredQuestion { question, digest, rejection, waiting: 1 }),
        }
        if let Some(waker) = round.waker.take() {
            waker.wake();
        }
        drop(round);
        let round = Arc::clone(&self.round);
        // The question is withdrawn when the last future that waits for its response is dropped.
        let guard = OnDrop(move || {
            round.lock().unanswered.retain_mut(|asked| {
                asked.waiting -= usize::from(asked.question.key == key);
                asked.waiting > 0
            });
        });
        Box::pin(async move {
            let _guard = guard;
            pending().await
        })
    }

    fn once_values(&self) -> &OnceValues {
        &self.once
    }

    fn poll_suspended(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Finished>> {
        let mut round = self.round.lock();
        if round.unanswered.is_empty() {
            round.waker = Some(cx.waker().clone());
            return Poll::Ready(None);
        }
        let is_plain = round.answered.is_empty() && self.once.lock().is_empty();
        if round.key_wait.is_none() && !is_plain {
            round.key_wait = self.states.until_ready().map(|wait| Box::pin(wait) as _);
        }
        if let Some(wait) = &mut round.key_wait {
            task::ready!(wait.as_mut().poll(cx));
            round.key_wait = None;
        }
        let encoded = self.encode_input_required(&mut round);
        Poll::Ready(Some(
            encoded.map_or_else(Finished::failed, |body| Finished::of_kind(ResultKind::InputRequired, body)),
        ))
    }
}
