//! The macros under strict lints, without a prelude, and with names that shadow everything that an expansion could use.

#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![deny(
    missing_docs,
    unused,
    unreachable_pub,
    nonstandard_style,
    rust_2018_idioms,
    missing_debug_implementations,
    missing_copy_implementations,
    unused_qualifications,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    trivial_casts,
    let_underscore_drop,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    clippy::default_trait_access,
    clippy::shadow_unrelated,
    clippy::str_to_string,
    clippy::exhaustive_structs
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::trivially_copy_pass_by_ref,
    clippy::unused_async,
    clippy::missing_const_for_fn,
    clippy::redundant_pub_crate,
    reason = "authors may write such functions"
)]

pub use ::mcp_runtime as framework;
use ::mcp_runtime::{prompt, resource, tool, tools};

/// Shadows the `Result` of the prelude.
pub type Result<T> = ::core::result::Result<T, ::std::string::String>;

/// Shadows the `Option` of the prelude.
#[derive(Debug)]
#[non_exhaustive]
pub struct Option;

#[allow(unused, clippy::missing_docs_in_private_items)]
mod shadows {
    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod serde_json {}
    pub(crate) struct String;
    pub(crate) struct Vec;
    pub(crate) struct Box;
    pub(crate) struct Entry;
    pub(crate) struct ToolEntry;
}
#[allow(unused)]
use shadows::*;

/// State.
#[derive(Debug)]
#[non_exhaustive]
pub struct Db {
    /// A number.
    pub of: u8,
}

/// Has parameters with names that the expansion uses.
#[tool(tags("hygiene"))]
#[must_use]
pub fn input(reply: u8, env: ::core::option::Option<u8>, #[arg(default = reply())] value: u8, a0: u8, a1: &str) -> u8 {
    reply + env.unwrap_or(value) + a0 + u8::try_from_len(a1)
}

/// Has the name of a parameter in the expansion.
const fn reply() -> u8 {
    3
}

/// Converts lengths without the traits of the prelude.
trait TryFromLen {
    /// Converts the length of a text.
    fn try_from_len(text: &str) -> Self;
}

impl TryFromLen for u8 {
    fn try_from_len(text: &str) -> Self {
        ::core::convert::TryFrom::try_from(text.len()).unwrap_or(Self::MAX)
    }
}

/// Fail.
#[tool(tags("hygiene"))]
async fn private(db: &Db, _: &framework::Context, #[arg(default)] words: &[::std::string::String]) -> Result<()> {
    let _ = (db, words);
    ::core::result::Result::Err(::core::convert::From::from("no"))
}

/// Block.
#[tool(tags("hygiene"), blocking)]
#[deprecated = "checks that the expansion causes no warning"]
pub(crate) fn old(text: ::std::string::String) -> ::std::string::String {
    text
}

/// Read.
#[resource("strict://{r#type}", tags("hygiene"))]
#[must_use]
#[cfg(any())]
pub fn absent(r#type: ::std::string::String) -> ::std::string::String {
    r#type
}

/// A module.
pub mod inner {
    use ::mcp_runtime::resource;

    /// Read.
    #[resource("strict://{type}{?loop}", tags("hygiene"), complete(r#type = super::types, loop = super::types))]
    #[must_use]
    pub fn read(r#type: ::std::string::String, r#loop: ::core::option::Option<u8>) -> ::std::string::String {
        ::std::format!("{type}{loop:?}", r#type = r#type, r#loop = r#loop)
    }

    /// Match.
    #[super::prompt(tags("hygiene"))]
    pub(super) fn r#match() -> &'static str {
        "match"
    }
}

/// Complete.
fn types(_: &str) -> [&'static str; 1] {
    ["a"]
}

/// Read one.
#[resource("strict:one", tags("hygiene"))]
fn one() -> ::std::vec::Vec<u8> {
    ::std::vec::Vec::new()
}

#[tools]
impl Db {
    /// A method.
    #[tool(tags("hygiene"))]
    fn method(&self, #[arg(default = Self::ONE)] one: u8) -> u8 {
        one + self.of
    }

    /// One.
    const ONE: u8 = 1;
}

/// Declares a tool from a macro.
macro_rules! echo {
    ($name:ident: $of:ty = $default:literal) => {
        /// Echo.
        #[tool(tags("hygiene"))]
        fn $name(#[arg(default = $default)] value: $of) -> $of {
            value
        }
    };
}

/// Declares a tool whose types are fragments of a macro, which the attribute cannot inspect.
macro_rules! sum {
    ($name:ident: $state:ty, $list:ty) => {
        /// Sum.
        #[tool(tags("hygiene"))]
        fn $name(state: &$state, list: &$list) -> u8 {
            ::core::iter::Iterator::sum::<u8>(list.iter()) + state.of
        }
    };
}

sum!(sum_u8: Db, [u8]);
echo!(echo_u8: u8 = 7);
echo!(echo_text: ::std::string::String = "seven");

/// Inside a function.
#[must_use]
pub fn local() -> ::std::vec::Vec<&'static str> {
    /// Declared inside a function.
    #[tool(tags("hygiene"))]
    fn in_a_function() {}

    in_a_function();
    let entries = <in_a_function as framework::function::Collect>::entries();
    ::std::iter::Iterator::collect(::std::iter::Iterator::map(entries.iter(), |entry| match entry {
        framework::__private::Entry::Tool(tool) => &*tool.common.name,
        _ => "",
    }))
}

/// A form.
#[derive(Debug, framework::Elicit)]
#[non_exhaustive]
pub struct Form {
    /// Text.
    #[elicit(default = ::std::string::String::new(), length = ..=80)]
    pub filled: ::std::string::String,
    /// A choice.
    #[elicit(default = "None")]
    pub index: Chosen,
    /// Choices.
    pub r#loop: ::core::option::Option<::std::vec::Vec<Chosen>>,
}

/// Choices with names that the expansion uses.
#[derive(Debug, Clone, Copy, framework::Elicit)]
#[non_exhaustive]
pub enum Chosen {
    /// Nothing.
    None,
    /// Something.
    #[elicit(title = "Something")]
    Some,
}
