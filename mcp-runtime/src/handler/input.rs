use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use tokio::sync::Semaphore;

use super::{
    Completing, Context, Encoding, Finished, Outcome, Refusal, Reply, States,
    entry::{ArgumentEntry, OutputType},
    schema::{self, Checker, Violation},
    slot::Fill,
};
use crate::jsonrpc::raw;

/// What the caller of one function must keep to, and what it gets.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(crate) arguments: &'static [ArgumentEntry],
    pub(crate) schema: Value,
    /// Whether the schema says more than decoding into types enforces.
    pub(crate) says_more: bool,
    checker: OnceLock<Checker>,
    result: Option<OutputType>,
    made: OnceLock<Option<ResultSchema>>,
    pub(crate) mime_type: Option<&'static str>,
}

/// The schema of a structured result.
#[derive(Debug)]
pub(crate) struct ResultSchema {
    pub(crate) schema: Value,
    /// Whether it is no object, so that some dialects want it wrapped.
    pub(crate) wraps: bool,
}

impl Contract {
    /// Takes a schema that was made from types, and compiles it if it says more than they do.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with the schema.
    pub(crate) fn new(
        arguments: &'static [ArgumentEntry],
        schema: Value,
        says_more: bool,
    ) -> Result<Self, super::schema::SchemaError> {
        let checker = match says_more {
            true => OnceLock::from(Checker::compile(&schema)?),
            // It can only be asked to explain what the types refuse.
            false => OnceLock::new(),
        };
        Ok(Self { arguments, schema, says_more, checker, result: None, made: OnceLock::new(), mime_type: None })
    }

    /// Says what the function returns.
    pub(crate) fn returning(mut self, result: OutputType) -> Self {
        self.result = Some(result);
        self
    }

    /// Says the media type of a resource.
    pub(crate) fn of_media(mut self, mime_type: Option<&'static str>) -> Self {
        self.mime_type = mime_type;
        self
    }

    /// The schema of the structured result, if it is one; made when it is first asked for.
    pub(crate) fn result(&self) -> Option<&ResultSchema> {
        self.made
            .get_or_init(|| {
                let mut generator = schema::output_generator();
                let schema = (self.result?.schema)(&mut generator)?;
                let schema = schema::output(schema.to_value(), generator);
                Some(ResultSchema { wraps: !schema::is_object(&schema), schema })
            })
            .as_ref()
    }

    fn checker(&self) -> &Checker {
        self.checker.get_or_init(|| {
            Checker::compile(&self.schema).unwrap_or_else(|why| {
                tracing::error!(%why, "the schema of a function cannot be compiled");
                Checker::default()
            })
        })
    }
}

/// One call, as a function's expansion sees it.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The JSON of an object.
    pub(crate) arguments: &'a str,
    pub(crate) contract: &'a Contract,
    pub(crate) states: &'a Arc<States>,
    pub(crate) context: Option<&'a Arc<Context>>,
    pub(crate) encoding: &'a Arc<Encoding>,
    pub(crate) uri: &'a str,
}

impl<'a> Input<'a> {
    /// Decodes the arguments into their slots, in the order in which the function takes them.
    ///
    /// # Errors
    ///
    /// Every violation of the schema, if there is any.
    pub fn decode(&self, slots: &mut [&mut dyn Fill]) -> Outcome {
        let filled = self.fill(self.arguments, slots).is_ok();
        let kept = !self.contract.says_more || self.contract.checker().accepts(self.arguments);
        match filled && kept {
            true => Ok(()),
            false => self.refuse(slots),
        }
    }

    /// Gives what the function takes by reference.
    ///
    /// # Panics
    ///
    /// Panics if the server has no such value; building it made sure that it has.
    pub fn get<T: ?Sized + 'static>(&self) -> &'a T {
        find(self.context, self.states)
    }

    /// Detaches the call from its request, for a future.
    pub fn into_owned(self) -> OwnedEnv {
        let result = self.contract.result();
        OwnedEnv {
            states: Arc::clone(self.states),
            context: self.context.map(Arc::clone),
            completing: None,
            encoding: Arc::clone(self.encoding),
            structured: result.is_some(),
            wraps: result.is_some_and(|result| result.wraps),
            mime_type: self.contract.mime_type,
            uri: self.uri.into(),
        }
    }

    fn fill(&self, arguments: &str, slots: &mut [&mut dyn Fill]) -> Result<(), Violation> {
        if let ([argument], [slot]) = (self.contract.arguments, &mut *slots)
            && argument.flattened
        {
            return slot.fill(arguments).map_err(|error| Violation::new("", None, &without_position(&error)));
        }
        for (name, json) in raw::members(arguments) {
            let Some(index) = self.contract.arguments.iter().position(|argument| argument.name == name) else {
                return Err(Violation::new(&name, Some(json), "is not an argument"));
            };
            if let Err(error) = slots[index].fill(json) {
                return Err(Violation::new(&name, Some(json), &without_position(&error)));
            }
        }
        for (slot, argument) in slots.iter_mut().zip(self.contract.arguments) {
            if !slot.settle() {
                return Err(Violation::new(argument.name, None, "is required"));
            }
        }
        Ok(())
    }

    /// Says everything that is wrong. What only serde refuses is said by serde.
    #[cold]
    fn refuse(&self, slots: &mut [&mut dyn Fill]) -> Outcome {
        let violations = self.contract.checker().violations(self.arguments);
        if !violations.is_empty() {
            return Err(Refusal::arguments(violations));
        }
        let integral = self.contract.checker().integral(self.arguments);
        self.fill(&integral, slots).map_err(|violation| Refusal::arguments(vec![violation]))
    }
}

/// A call that outlives its request's message.
#[derive(Debug, Clone)]
pub struct OwnedEnv {
    pub(crate) states: Arc<States>,
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) completing: Option<Completing>,
    pub(crate) encoding: Arc<Encoding>,
    pub(crate) structured: bool,
    pub(crate) wraps: bool,
    pub(crate) mime_type: Option<&'static str>,
    pub(crate) uri: Box<str>,
}

impl OwnedEnv {
    /// Gives what the function takes by reference.
    ///
    /// # Panics
    ///
    /// Panics if the server has no such value; building it made sure that it has.
    pub fn get<T: ?Sized + 'static>(&self) -> &T {
        if let Some(value) = self.completing.as_ref().and_then(Completing::get) {
            return value;
        }
        find(self.context.as_ref(), &self.states)
    }

    /// Writes the result.
    pub fn finish(&self, write: impl FnOnce(&mut Reply<'_>) -> Outcome) -> Finished {
        let mut body = Vec::new();
        let mut reply = Reply {
            out: &mut body,
            encoding: &self.encoding,
            structured: self.structured,
            wraps: self.wraps,
            uri: &self.uri,
            mime_type: self.mime_type,
        };
        let outcome = write(&mut reply);
        Finished { body, outcome }
    }

    /// Runs a function that blocks on the pool of blocking threads.
    ///
    /// # Cancel safety
    ///
    /// A call that is cancelled before it has a thread does not run. One that runs gets no answer, but its thread runs on to the
    /// end of the function, which can ask [`Context::is_cancelled`].
    pub async fn blocking(self, call: impl FnOnce(&Self) -> Finished + Send + 'static) -> Finished {
        match on_a_thread(move || call(&self)).await {
            Some(finished) => finished,
            None => {
                let fault = crate::Fault::internal("the server is shutting down");
                Finished { body: Vec::new(), outcome: Err(fault.into()) }
            }
        }
    }
}

/// The threads that functions of one process may block at once; more of them wait for one to end.
static THREADS: Semaphore = Semaphore::const_new(256);

/// Runs something that blocks, unless nobody waits for it any more when there is a thread for it; none if the runtime is ending.
///
/// # Panics
///
/// Panics with what `run` panicked with.
pub(crate) async fn on_a_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = THREADS.acquire().await.ok()?;
    let current = Context::current();
    let mut task = AbortOnDrop(tokio::task::spawn_blocking(move || {
        // A thread is taken until the function has ended, whoever still waits for it.
        let _thread = thread;
        Context::enter(current.as_ref(), run)
    }));
    match (&mut task.0).await {
        Ok(result) => Some(result),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

/// Takes a function that has no thread yet out of the queue when nobody waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn find<'a, T: ?Sized + 'static>(context: Option<&'a Arc<Context>>, states: &'a States) -> &'a T {
    if let Some(context) = context.and_then(|context| (context as &dyn Any).downcast_ref::<Arc<T>>()) {
        return context;
    }
    states.get().unwrap_or_else(|| panic!("no state of type `{}` was given", std::any::type_name::<T>()))
}

/// serde_json's message without the line and column, which mean nothing inside one argument.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}
