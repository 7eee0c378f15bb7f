//! A call, and what a macro expansion sees of it: the input of the function, and the writer of its result.

use std::{
    any::Any,
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::de::DeserializeOwned;

use super::{
    Context, Contract, Encoding, ErrorResponse, Finished, Function, HandlerError, HandlerResult, StateMap,
    argument::Decode,
    entry::EntryKind,
    schema::{Violation, decoding_violation},
};
use crate::{
    error::{Fault, excerpt},
    jsonrpc::{Id, raw},
    model::CacheScope,
};

/// A call, from its dispatch to its response: what its function is called with and how its outcome is encoded.
///
/// A synchronous function that takes no context runs with a call on the stack. Every other call is shared in a
/// [`Context`].
pub(crate) struct Call {
    /// The public name of the function or, without a function, of the method, for messages.
    pub(crate) name: Cow<'static, str>,
    /// The kind of the function, which decides who reads its errors, or `None` if it only lists or completes.
    pub(crate) kind: Option<EntryKind>,
    /// The registered function that is called, or whose argument is completed.
    pub(crate) function: Option<Arc<Function>>,
    /// The name of the tool or prompt, the URI of the resource, or the method of any other request.
    pub(crate) subject: Cow<'static, str>,
    pub(crate) id: Id,
    /// The size of the arguments in bytes.
    pub(crate) argument_bytes: usize,
    /// The maximum time for which a client waits.
    pub(crate) timeout: Option<Duration>,
    pub(crate) encoding: Arc<Encoding>,
    pub(crate) states: Arc<StateMap>,
    /// The class of a failure that the response does not tell from others, for telemetry: `panic` or `timeout`.
    pub(crate) failure: OnceLock<&'static str>,
}

impl Call {
    /// Creates the call of a method that calls no function, and waits as long as it takes.
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        id: Id,
        encoding: Arc<Encoding>,
        states: Arc<StateMap>,
    ) -> Self {
        let name = name.into();
        let subject = name.clone();
        let (kind, function, timeout, failure) = (None, None, None, OnceLock::new());
        Self { name, kind, function, subject, id, argument_bytes: 0, timeout, encoding, states, failure }
    }

    /// Returns whether the function is a tool, whose errors are results for the model to read.
    pub(crate) fn is_tool(&self) -> bool {
        self.kind == Some(EntryKind::Tool)
    }

    /// Returns the URI of a resource. Empty for other calls.
    pub(super) fn uri(&self) -> &str {
        if self.kind == Some(EntryKind::Resource) { &self.subject } else { "" }
    }

    /// Returns the media type in the annotation of a resource.
    pub(super) fn mime_type(&self) -> Option<&str> {
        self.function.as_ref()?.resource()?.mime_type.as_deref()
    }

    /// Returns how long and by whom the contents of a resource may be cached.
    pub(super) fn cache(&self) -> Option<(Duration, CacheScope)> {
        self.function.as_ref()?.resource()?.cache
    }

    /// Returns the timeout that the function declares, which also holds for the task of a call.
    pub(crate) fn declared_timeout(&self) -> Option<Duration> {
        self.function.as_ref().and_then(|function| function.common().timeout)
    }
}

/// The input of a call, from which macro-generated code obtains the arguments and, in a synchronous function, shared
/// state.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The arguments: an object, as JSON.
    pub(crate) arguments: &'a str,
    pub(crate) contract: &'a Contract,
    /// The violations of the schema, if the arguments were checked in advance.
    pub(crate) violations: Option<&'a [Violation]>,
    /// The call. `None` if the arguments are the flags of a program.
    pub(crate) call: Option<&'a Call>,
    pub(crate) context: Option<&'a Context>,
}

impl<'a> Input<'a> {
    /// Creates the input of a registered function.
    pub(crate) fn new(
        function: &'a Function,
        call: &'a Call,
        context: Option<&'a Context>,
        arguments: &'a str,
    ) -> Self {
        Self { arguments, contract: &function.contract, violations: None, call: Some(call), context }
    }

    /// Decodes the arguments into their slots, which are in the order of the function's parameters.
    ///
    /// # Errors
    ///
    /// Returns every violation of the schema. The variables of a URI that violate it name no resource.
    pub fn decode(&self, slots: &mut [&mut dyn Decode]) -> Result<(), HandlerError> {
        self.decode_with(|arguments| self.fill(arguments, slots))
    }

    /// Decodes all arguments into one value. Fails as [`decode`](Self::decode) does.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        self.decode_with(|arguments| {
            serde_json::from_str(arguments).map_err(|error| decoding_violation("", arguments, &error))
        })
    }

    /// Checks the arguments and decodes them with `fill`.
    fn decode_with<T>(&self, mut fill: impl FnMut(&str) -> Result<T, Violation>) -> Result<T, HandlerError> {
        if let Ok(decoded) = fill(self.arguments)
            && self.contract.accepts(self.arguments, self.violations)
        {
            return Ok(decoded);
        }
        self.explain(&mut fill).map_err(|error| {
            let uri = self.call.map_or("", Call::uri);
            if uri.is_empty() {
                return error;
            }
            tracing::debug!(uri = &*excerpt(uri), ?error, "the variables of the URI do not match the template");
            Fault::resource_not_found(uri).into()
        })
    }

    /// Returns the value for a parameter of type `&T`.
    ///
    /// # Panics
    ///
    /// Panics if there is no value of type `T`, which is impossible once the server has been built.
    pub fn get<T: ?Sized + 'static>(&self) -> &'a T {
        find(self.context, self.call.map(|call| &*call.states))
    }

    /// Decodes the arguments and applies the defaults.
    fn fill(&self, arguments: &str, slots: &mut [&mut dyn Decode]) -> Result<(), Violation> {
        if let ([argument], [slot]) = (&*self.contract.arguments, &mut *slots)
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
        for (slot, argument) in slots.iter_mut().zip(&*self.contract.arguments) {
            if !slot.apply_default() {
                return Err(Violation::new(&argument.name, None, "is required"));
            }
        }
        Ok(())
    }

    /// Reports every violation of the schema, or else the value that serde rejects. That value is also reported if
    /// decoding enforces the schema and its check takes too long.
    ///
    /// Integers written with a fraction or an exponent, such as `1.0`, match the schema. They are rewritten and decoded
    /// again. If the schema is invalid, which the caller cannot change, the error is masked.
    #[cold]
    fn explain<T>(&self, fill: &mut dyn FnMut(&str) -> Result<T, Violation>) -> Result<T, HandlerError> {
        let Some(checker) = self.contract.checker() else {
            let invalid = ErrorResponse::masked("the schema of the function is invalid");
            return Err(invalid.0);
        };
        let violations = match self.violations {
            Some(violations) => violations.to_vec(),
            None if self.contract.is_checked => checker.violations(self.arguments),
            None => checker.quick_violations(self.arguments).unwrap_or_default(),
        };
        if !violations.is_empty() {
            return Err(HandlerError::invalid_arguments(violations));
        }
        let integral = checker.normalize_integers(self.arguments);
        fill(&integral).map_err(|violation| HandlerError::invalid_arguments(vec![violation]))
    }
}

/// The buffer for the result of a call, and the call that decides how it is encoded.
pub struct Reply<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) call: &'a Call,
    /// Whether the tool has an output schema.
    pub(super) structured: bool,
    /// Whether structured results are wrapped in an object for dialects that require one.
    pub(super) wraps: bool,
    /// Whether the result may depend on answers of the client.
    pub(super) is_conversation: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, call: &'a Call) -> Self {
        let output = call.function.as_ref().and_then(|function| function.output_schema());
        Self {
            out,
            call,
            structured: output.is_some(),
            wraps: output.is_some_and(|output| output.wraps),
            is_conversation: false,
        }
    }
}

/// Returns the value for a parameter of type `&T` of an async or blocking function.
///
/// # Panics
///
/// Panics if there is no value of type `T`, which is impossible once the server has been built.
pub fn get<T: ?Sized + 'static>(context: &Context) -> &T {
    find(Some(context), Some(&context.call().states))
}

/// Writes the result of an async or blocking function.
pub fn finish(context: &Context, write: impl FnOnce(&mut Reply<'_>) -> HandlerResult) -> Finished {
    let mut body = Vec::new();
    let is_conversation = context.is_conversation();
    let outcome = write(&mut Reply { is_conversation, ..Reply::new(&mut body, context.call()) });
    Finished { body, outcome }
}

/// Returns the context or a value of the shared state, depending on `T`.
///
/// # Panics
///
/// Panics if there is no value of type `T`.
fn find<'a, T: ?Sized + 'static>(context: Option<&'a Context>, states: Option<&'a StateMap>) -> &'a T {
    let identity: fn(&Context) -> &Context = |context| context;
    // `T` may be unsized, but a function to `&T` is not. It has the type of `identity` if `T` is `Context`.
    let is_context = (&identity as &dyn Any).downcast_ref::<fn(&Context) -> &T>();
    if let Some((context, identity)) = context.zip(is_context) {
        return identity(context);
    }
    let state = states.and_then(StateMap::get);
    state.unwrap_or_else(|| panic!("the server has no state of type `{}`", std::any::type_name::<T>()))
}
