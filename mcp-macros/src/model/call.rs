use proc_macro2::{Ident, TokenStream};
use syn::Attribute;

use super::{Argument, EnclosingType};

/// A checked function and its parameters.
pub(crate) struct Call {
    pub(crate) enclosing_type: EnclosingType,
    pub(crate) function: Ident,
    pub(crate) execution: Execution,
    /// The sources of the values, in the order of the parameters.
    pub(crate) parameters: Vec<ParameterSource>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: TokenStream,
    /// The `#[cfg]`s of the function.
    pub(crate) conditions: Vec<Attribute>,
}

/// The way a function is executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    Sync,
    Blocking,
    Async,
}

/// The source of the value of a parameter.
pub(crate) enum ParameterSource {
    /// The caller passes the argument with this index.
    Caller(usize),
    /// The server passes a reference: the name of the parameter and the type.
    Server(String, TokenStream),
}
