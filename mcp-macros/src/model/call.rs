use proc_macro2::{Ident, TokenStream};
use syn::Attribute;

use super::{Argument, Owner};

/// How a function is called: sound in every part.
pub(crate) struct Call {
    pub(crate) owner: Owner,
    pub(crate) function: Ident,
    pub(crate) manner: Manner,
    /// In the order of the parameters.
    pub(crate) parameters: Vec<Given>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: TokenStream,
    /// `#[cfg]`s under which there is such a function.
    pub(crate) conditions: Vec<Attribute>,
}

/// How a function runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Sync,
    Blocking,
    Async,
}

/// Who gives the value of a parameter.
pub(crate) enum Given {
    /// The caller: the argument of this index.
    Caller(usize),
    /// The server, by reference: the parameter's name and the type.
    Server(String, TokenStream),
}
