//! The name of `mcp-runtime` in the crate that is being compiled.

pub(crate) mod manifest;

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use manifest::Manifest;

pub(crate) const PACKAGE: &str = "mcp-runtime";

/// Returns the path of `__private`, with which all paths in an expansion start.
pub(crate) fn private(given: Option<&syn::Path>) -> TokenStream {
    let here = Span::mixed_site();
    match given {
        Some(path) => quote_spanned!(here=> #path::__private),
        None => {
            let name = Ident::new(name(), here);
            quote_spanned!(here=> ::#name::__private)
        }
    }
}

fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| find().unwrap_or_else(|| PACKAGE.to_owned()).replace('-', "_"))
}

fn find() -> Option<String> {
    let directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let manifest = Manifest::parse(&fs::read_to_string(directory.join("Cargo.toml")).ok()?);
    manifest.name_of(PACKAGE, || Some(workspace_of(&directory)?.1))
}

/// Reads the manifest of the workspace of a package. Returns it with its directory.
pub(crate) fn workspace_of(directory: &Path) -> Option<(&Path, Manifest)> {
    directory
        .ancestors()
        .filter_map(|directory| Some((directory, fs::read_to_string(directory.join("Cargo.toml")).ok()?)))
        .map(|(directory, text)| (directory, Manifest::parse(&text)))
        .find(|(_, manifest)| manifest.is_workspace)
}
