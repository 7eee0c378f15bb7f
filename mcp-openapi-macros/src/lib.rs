//! The macro of `mcp-runtime-openapi`, which documents it.
//!
//! `document` reads the files and resolves references, `schema` converts the schemas, `operation` describes each operation
//! as a tool and as a request, and `select` applies the patterns. All errors are collected, with their positions in the document.

mod document;
mod operation;
mod schema;
mod select;
#[cfg(test)]
mod tests;

use std::{env, path::Path};

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Error, Ident, LitStr, Token, bracketed,
    parse::{Parse, ParseStream},
    parse_macro_input,
    punctuated::Punctuated,
};

use crate::document::{DocumentError, Documents, is_url};

/// The maximum number of errors of the document that are shown.
const MAX_ERRORS: usize = 20;

#[doc(hidden)]
#[proc_macro]
pub fn import(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(parse_macro_input!(input as Import)).into()
}

/// `$crate, "file", include = ["…"], exclude = ["…"], references = ["…" => "…"]`
struct Import {
    library: TokenStream,
    file: LitStr,
    include: Vec<LitStr>,
    exclude: Vec<LitStr>,
    references: Vec<Mapping>,
}

/// `"https://…" => "path"`
struct Mapping {
    url: LitStr,
    path: LitStr,
}

impl Parse for Mapping {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let url: LitStr = input.parse()?;
        if !is_url(&url.value()) {
            return Err(Error::new(url.span(), "expected a URL"));
        }
        input.parse::<Token![=>]>()?;
        Ok(Self { url, path: input.parse()? })
    }
}

/// Parses the value of an option, a list with at least one item.
fn list<T: Parse>(option: &Ident, input: ParseStream<'_>, list: &mut Vec<T>) -> syn::Result<()> {
    if !list.is_empty() {
        return Err(Error::new(option.span(), "duplicate option"));
    }
    input.parse::<Token![=]>()?;
    let items;
    bracketed!(items in input);
    list.extend(Punctuated::<T, Token![,]>::parse_terminated(&items)?);
    if list.is_empty() { Err(Error::new(option.span(), "the list is empty")) } else { Ok(()) }
}

impl Parse for Import {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut library = TokenStream::new();
        while !input.peek(Token![,]) {
            library.extend([input.parse::<proc_macro2::TokenTree>()?]);
        }
        input.parse::<Token![,]>()?;
        let file = input.parse()?;
        let mut import = Self { library, file, include: Vec::new(), exclude: Vec::new(), references: Vec::new() };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let option: Ident = input.parse()?;
            match option.to_string().as_str() {
                "include" => list(&option, input, &mut import.include)?,
                "exclude" => list(&option, input, &mut import.exclude)?,
                "references" => list(&option, input, &mut import.references)?,
                _ => {
                    let message = "unknown option, expected `include`, `exclude` or `references`";
                    return Err(Error::new(option.span(), message));
                }
            }
        }
        Ok(import)
    }
}

fn expand(import: Import) -> TokenStream {
    let Import { library, file, include, exclude, references } = import;
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let path = Path::new(&folder).join(file.value());
    let mut errors = Vec::new();
    let mut documents = None;
    let mut operations = Vec::new();
    let mappings = references.iter().map(|Mapping { url, path }| (url.value(), Path::new(&folder).join(path.value())));
    match Documents::read(&path, mappings.collect()) {
        Ok(read) => {
            let read = documents.insert(read);
            let patterns = |list: &[LitStr]| list.iter().map(LitStr::value).collect::<Vec<_>>();
            let selected = select::operations(read, &patterns(&include), &patterns(&exclude));
            for (index, message) in selected.unmatched {
                let literal = include.iter().chain(&exclude).nth(index).map_or(file.span(), LitStr::span);
                errors.push(Error::new(literal, message));
            }
            // An error in a shared part of the document concerns several operations.
            let mut found: Vec<(DocumentError, Vec<String>)> =
                selected.errors.into_iter().map(|error| (error, Vec::new())).collect();
            for operation in selected.operations {
                match operation::convert(read, &operation) {
                    Ok(converted) => operations.push(converted.to_string()),
                    Err(error) => match found.iter_mut().find(|(other, _)| *other == error) {
                        Some((_, names)) => names.push(operation.name),
                        None => found.push((error, vec![operation.name])),
                    },
                }
            }
            for (error, names) in found.iter_mut().take(MAX_ERRORS) {
                error.locate(read);
                let help = if names.is_empty() {
                    String::new()
                } else {
                    format!("\nhelp: correct it, or leave operations out with `exclude = {names:?}`")
                };
                errors.push(Error::new(file.span(), format!("{error}{help}")));
            }
            if found.len() > MAX_ERRORS {
                let more = found.len() - MAX_ERRORS;
                errors.push(Error::new(file.span(), format!("{more} more errors in the document")));
            }
        }
        Err(error) => errors.push(Error::new(file.span(), error)),
    }
    let errors = errors.iter().map(Error::to_compile_error);
    let files = documents.iter().flat_map(Documents::paths);
    quote! {{
        #(#errors;)*
        // Changes of the files compile the program again.
        const _: &[&[u8]] = &[#(::core::include_bytes!(#files)),*];
        #library::Api::__new(&[#(#operations),*])
    }}
}
