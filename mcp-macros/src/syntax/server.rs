//! `#[server]`

use std::fs;

use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Item, Path};

use super::{Function, common, options::Options};
use crate::errors::Errors;

/// The parsed options and function of `#[server]`.
pub(crate) struct ServerSyntax {
    pub(crate) function: Function,
    /// Attributes such as `#[tokio::main]` below `#[server]`, which are removed from the function.
    pub(crate) runtimes: Vec<Attribute>,
    /// The line of an attribute such as `#[tokio::main]` above `#[server]`.
    pub(crate) runtime_above: Option<String>,
    /// Whether `main!()` is in the same file, and defines another `main`.
    pub(crate) beside_main: bool,
    pub(crate) crate_path: Option<Path>,
}

impl ServerSyntax {
    pub(crate) fn read(given: TokenStream, mut function: Function, errors: &mut Errors) -> Self {
        let is_runtime = |attribute: &mut Attribute| is_runtime(attribute.path());
        let runtimes = function.attributes.extract_if(.., is_runtime).collect();
        let (source, line) = source().unwrap_or_default();
        let is_main = function.signature.ident == "main";
        Self {
            function,
            runtimes,
            runtime_above: runtime_above(&source, line),
            beside_main: is_main && contains_main(&source),
            crate_path: only_crate(given, errors),
        }
    }
}

/// Returns the text of the file that contains the attribute, and the line of the attribute.
fn source() -> Option<(String, usize)> {
    let here = proc_macro::is_available().then(|| Span::call_site().unwrap())?;
    Some((fs::read_to_string(here.local_file()?).ok()?, here.line()))
}

/// Returns whether an attribute starts an asynchronous runtime, as `#[tokio::main]` does.
fn is_runtime(path: &Path) -> bool {
    path.segments.len() > 1 && path.segments.last().is_some_and(|last| last.ident == "main")
}

/// Returns the line of an attribute above `#[server]` that starts a runtime.
///
/// Such an attribute is expanded first, rejects the parameters of the function, and leaves no trace in its tokens. The
/// source tells why it did.
fn runtime_above(source: &str, line: usize) -> Option<String> {
    let above: Vec<&str> = source.lines().take(line.saturating_sub(1)).map(str::trim).collect();
    let mut attributes = above.into_iter().rev().take_while(|line| line.starts_with(['#', '/']));
    let is_runtime = |line: &&str| {
        let name = line.strip_prefix("#[").and_then(|rest| rest.split([']', '(']).next());
        name.is_some_and(|name| name.ends_with("::main"))
    };
    attributes.find(is_runtime).map(str::to_owned)
}

/// Returns whether a file calls `main!()`, unless the call is conditional.
///
/// The compiler would report two functions of one name, of which the source contains only one.
fn contains_main(source: &str) -> bool {
    let is_main = |item: &Item| match item {
        Item::Macro(item) => {
            item.mac.path.segments.last().is_some_and(|last| last.ident == "main")
                && item.mac.tokens.is_empty()
                && !item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"))
        }
        _ => false,
    };
    source.contains("main!") && syn::parse_file(source).is_ok_and(|file| file.items.iter().any(is_main))
}

/// Parses the options, of which `crate` is the only one.
fn only_crate(given: TokenStream, errors: &mut Errors) -> Option<Path> {
    let mut options = Options::new("server", common::OTHERS.iter().filter(|known| known.name == "crate"));
    options.read(given, errors);
    options.path("crate", errors)
}
