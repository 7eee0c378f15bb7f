use std::{any::Any, sync::Arc};

use tokio::sync::Semaphore;

use super::{
    CompletionInput, Context, Contract, Encoding, Finished, HandlerError, HandlerResult, StateMap,
    blocking::run_blocking,
    schema::{Violation, decoding_violation},
    slot::Decode,
};
use crate::{error::Fault, excerpt::excerpt, jsonrpc::raw};

/// The input of a call, from which macro-generated code obtains the arguments and shared state.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The arguments: an object, as JSON.
    pub(crate) arguments: &'a str,
    pub(crate) contract: &'a Arc<Contract>,
    /// The violations of the schema, if the arguments were checked in advance.
    pub(crate) violations: Option<&'a [Violation]>,
    pub(crate) states: &'a Arc<StateMap>,
    pub(crate) context: Option<&'a Arc<Context>>,
    pub(crate) encoding: &'a Arc<Encoding>,
    pub(crate) uri: &'a str,
}

impl<'a> Input<'a> {
    /// Decodes the arguments into their slots, which are in the order of the function's parameters.
    ///
    /// # Errors
    ///
    /// Returns every violation of the schema. The variables of a URI that violate it name no resource.
    pub fn decode(&self, slots: &mut [&mut dyn Decode]) -> HandlerResult {
        if self.fill(self.arguments, slots).is_ok() && self.matches_schema() {
            return Ok(());
        }
        self.explain(slots).map_err(|error| {
            if self.uri.is_empty() {
                return error;
            }
            tracing::debug!(uri = &*excerpt(self.uri), ?error, "the variables of the URI do not match the template");
            Fault::resource_not_found(self.uri).into()
        })
    }

    /// Returns the value for a parameter of type `&T`.
    ///
    /// # Panics
    ///
    /// Panics if there is no value of type `T`, which is impossible once the server has been built.
    pub fn get<T: ?Sized + 'static>(&self) -> &'a T {
        find(self.context, self.states)
    }

    /// Creates the reply of the function.
    pub(crate) fn reply<'b>(&self, out: &'b mut Vec<u8>) -> Reply<'b>
    where
        'a: 'b,
    {
        Reply::new(out, self.encoding, self.contract, self.uri)
    }

    /// Copies the values that the call needs after decoding, so that a future can own them.
    pub fn into_owned(self) -> CallEnv {
        CallEnv {
            states: Arc::clone(self.states),
            context: self.context.map(Arc::clone),
            completion: None,
            encoding: Arc::clone(self.encoding),
            contract: Some(Arc::clone(self.contract)),
            uri: self.uri.into(),
        }
    }

    fn matches_schema(&self) -> bool {
        match self.violations {
            Some(violations) => violations.is_empty(),
            None => !self.contract.is_checked || self.contract.checker().accepts(self.arguments),
        }
    }

    /// Decodes the arguments and applies the defaults.
    fn fill(&self, arguments: &str, slots: &mut [&mut dyn Decode]) -> Result<(), Violation> {
        if let ([argument], [slot]) = (self.contract.arguments, &mut *slots)
            && argument.flattened
        {
            return slot.decode(arguments).map_err(|error| decoding_violation("", arguments, &error));
        }
        for (name, json) in raw::members(arguments) {
            let Some(index) = self.contract.arguments.iter().position(|argument| argument.name == name) else {
                return Err(Violation::new(&name, Some(json), "is not an argument"));
            };
            if let Err(error) = slots[index].decode(json) {
                return Err(decoding_violation(&name, json, &error));
            }
        }
        for (slot, argument) in slots.iter_mut().zip(self.contract.arguments) {
            if !slot.apply_default() {
                return Err(Violation::new(argument.name, None, "is required"));
            }
        }
        Ok(())
    }

    /// Reports every violation of the schema, or else the value that serde rejects. That value is also reported if
    /// decoding enforces the schema and its check takes too long.
    ///
    /// Integers written with a fraction or an exponent, such as `1.0`, match the schema. They are rewritten and decoded
    /// again.
    #[cold]
    fn explain(&self, slots: &mut [&mut dyn Decode]) -> HandlerResult {
        let checker = self.contract.checker();
        let violations = match self.violations {
            Some(violations) => violations.to_vec(),
            None if self.contract.is_checked => checker.violations(self.arguments),
            None => checker.quick_violations(self.arguments).unwrap_or_default(),
        };
        if !violations.is_empty() {
            return Err(HandlerError::invalid_arguments(violations));
        }
        let integral = checker.normalize_integers(self.arguments);
        self.fill(&integral, slots).map_err(|violation| HandlerError::invalid_arguments(vec![violation]))
    }
}

/// The buffer for the result of a call, and the parameters of its encoding.
#[derive(Debug)]
pub struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) encoding: &'a Encoding,
    /// Whether the tool has an output schema.
    pub(crate) structured: bool,
    /// Whether structured results are wrapped in an object for dialects that require one.
    pub(crate) wraps: bool,
    /// The URI of the requested resource; empty for tools and prompts.
    pub(crate) uri: &'a str,
    /// The media type in the annotation of the resource.
    pub(crate) mime_type: Option<&'static str>,
}

impl<'a> Reply<'a> {
    /// Creates the reply of a function with this contract.
    pub(crate) fn new(out: &'a mut Vec<u8>, encoding: &'a Encoding, contract: &Contract, uri: &'a str) -> Self {
        let output = contract.output_schema();
        let (structured, wraps) = (output.is_some(), output.is_some_and(|output| output.wraps));
        Self { out, encoding, structured, wraps, uri, mime_type: contract.mime_type }
    }

    /// Creates a reply without an output schema, URI or media type.
    pub(crate) fn plain(out: &'a mut Vec<u8>, encoding: &'a Encoding) -> Self {
        Self { out, encoding, structured: false, wraps: false, uri: "", mime_type: None }
    }
}

/// The environment of a call, which provides everything but the decoded arguments. It does not borrow from the request.
#[derive(Debug, Clone)]
pub struct CallEnv {
    pub(crate) states: Arc<StateMap>,
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) completion: Option<CompletionInput>,
    pub(crate) encoding: Arc<Encoding>,
    /// `None` for a function that only lists or completes.
    pub(crate) contract: Option<Arc<Contract>>,
    pub(crate) uri: Box<str>,
}

impl CallEnv {
    /// Returns the value for a parameter of type `&T`.
    ///
    /// # Panics
    ///
    /// Panics if there is no value of type `T`, which is impossible once the server has been built.
    pub fn get<T: ?Sized + 'static>(&self) -> &T {
        if let Some(value) = self.completion.as_ref().and_then(CompletionInput::get) {
            return value;
        }
        find(self.context.as_ref(), &self.states)
    }

    /// Writes the result.
    pub fn finish(&self, write: impl FnOnce(&mut Reply<'_>) -> HandlerResult) -> Finished {
        let mut body = Vec::new();
        let mut reply = match &self.contract {
            Some(contract) => Reply::new(&mut body, &self.encoding, contract, &self.uri),
            None => Reply::plain(&mut body, &self.encoding),
        };
        let outcome = write(&mut reply);
        Finished { body, outcome }
    }

    /// Returns the permits that limit the blocking functions of the request's sender, if the transport has several
    /// senders.
    pub(crate) fn blocking_share(&self) -> Option<Arc<Semaphore>> {
        self.context.as_deref()?.head()?.blocking_share().map(Arc::clone)
    }

    /// Runs a blocking function on the pool of blocking threads.
    ///
    /// # Cancel safety
    ///
    /// A call that is cancelled before a thread is available does not run. If it is cancelled later, its response is
    /// dropped, but the function runs to its end unless it checks [`Context::is_cancelled`].
    pub async fn blocking(self, call: impl FnOnce(&Self) -> Finished + Send + 'static) -> Finished {
        let finished = run_blocking(self.blocking_share(), move || call(&self)).await;
        finished.unwrap_or_else(|| Finished::failed(Fault::shutting_down()))
    }
}

/// Returns the context or a value of the shared state, depending on `T`.
///
/// # Panics
///
/// Panics if there is no value of type `T`.
pub(super) fn find<'a, T: ?Sized + 'static>(context: Option<&'a Arc<Context>>, states: &'a StateMap) -> &'a T {
    if let Some(context) = context.and_then(|context| (context as &dyn Any).downcast_ref::<Arc<T>>()) {
        return context;
    }
    states.get().unwrap_or_else(|| panic!("the server has no state of type `{}`", std::any::type_name::<T>()))
}
