use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote_spanned};

use super::{cow, docs, here, option, slice};
use crate::model::{Argument, Bound, Default, NamedFunction, Rule};

/// Emits the static data of an argument.
///
/// ```text
/// ArgumentEntry {
///     name: Cow::Borrowed { 0: "limit" },
///     title: None,
///     description: Cow::Borrowed { 0: "How many notes to return." },
///     ty: {
///         use AnyDecoding as _;
///         let integers = Decoding::<usize>::INTEGERS;
///         assert!(represents(integers, 1), "{}", "`1..=100` of `limit` exceeds the range of its type");
///         assert!(represents(integers, 100), "{}", "`1..=100` of `limit` exceeds the range of its type");
///         ArgumentType::of::<usize>(Decoding::<usize>::ENFORCES_SCHEMA)
///     },
///     default: Some(ArgumentDefault::Json("10")),
///     rules: &[Rule::Minimum(Bound::Integer(1)), Rule::Maximum(Bound::Integer(100))],
///     complete: None,
///     env: None,
///     flattened: false,
/// }
/// ```
pub(super) fn argument(argument: &Argument, private: &TokenStream) -> TokenStream {
    let Argument { name, ty, .. } = argument;
    let flattened = argument.flattened.is_some();
    let name = cow(name);
    let title = option(argument.title.as_ref().map(cow));
    let description = cow(docs(&argument.description));
    let json = |value| quote_spanned!(here()=> #private::default_json::<#ty>(#value));
    let default = option(argument.default.as_ref().map(|value| default(value, ty, json, private)));
    let rules = slice(argument.rules.iter().map(|one| rule(one, private)));
    let function = |path| server_function(path, &quote_spanned!(here()=> complete), private);
    let complete = option(argument.complete.as_ref().map(function));
    let env = option(argument.env.as_ref());
    let assertions = assertions(argument, private);
    quote_spanned! {here()=>
        #private::ArgumentEntry {
            name: #name,
            title: #title,
            description: #description,
            ty: {
                #[allow(unused_imports)]
                use #private::AnyDecoding as _;
                #assertions
                #private::ArgumentType::of::<#ty>(#private::Decoding::<#ty>::ENFORCES_SCHEMA)
            },
            default: #default,
            rules: #rules,
            complete: #complete,
            env: #env,
            flattened: #flattened,
        }
    }
}

/// Emits the check that the type of an argument can represent its bounds and its default. The macro itself checks only
/// types that it recognises by their tokens.
fn assertions(argument: &Argument, private: &TokenStream) -> TokenStream {
    let Argument { name, ty, .. } = argument;
    let bounds = argument.rules.iter().filter_map(|rule| match rule {
        Rule::Minimum(Bound::Integer(bound)) | Rule::Maximum(Bound::Integer(bound)) => Some(*bound),
        Rule::ExclusiveMaximum(Bound::Integer(bound)) => bound.checked_sub(1),
        _ => None,
    });
    let range = format!("`{}` of `{name}` exceeds the range of its type", range(&argument.rules));
    let default = match &argument.default {
        Some(Default::Json(json)) => json.parse().ok(),
        _ => None,
    };
    let default = default.map(|default: i128| {
        (default, format!("the default `{default}` of `{name}` is outside the range of its type"))
    });
    let integers = bounds.map(|bound| (bound, range.clone())).chain(default);
    let span = ty.clone().into_iter().next().map_or_else(here, |token| token.span().resolved_at(here()));
    let assertion = |(integer, message): (i128, String)| {
        let integer = Literal::i128_suffixed(integer);
        quote_spanned!(span=> ::core::assert!(#private::represents(integers, #integer), "{}", #message);)
    };
    let assertions: Vec<_> = integers.map(assertion).collect();
    if assertions.is_empty() {
        return TokenStream::new();
    }
    quote_spanned! {here()=>
        let integers = #private::Decoding::<#ty>::INTEGERS;
        #(#assertions)*
    }
}

/// Returns the range to which rules restrict a number, as it is written in the annotation.
fn range(rules: &[Rule]) -> String {
    let shown = |bound: &Bound| match bound {
        Bound::Integer(integer) => integer.to_string(),
        Bound::Float(float) => format!("{float:?}"),
    };
    let (mut low, mut dots, mut high) = (String::new(), "..", String::new());
    for rule in rules {
        match rule {
            Rule::Minimum(bound) => low = shown(bound),
            Rule::Maximum(bound) => (dots, high) = ("..=", shown(bound)),
            Rule::ExclusiveMaximum(bound) => high = shown(bound),
            _ => {}
        }
    }
    format!("{low}{dots}{high}")
}

/// Emits a default. `json` emits the call that writes the value of an expression as JSON.
pub(super) fn default(
    default: &Default,
    ty: &TokenStream,
    json: impl FnOnce(TokenStream) -> TokenStream,
    private: &TokenStream,
) -> TokenStream {
    match default {
        Default::Json(json) => quote_spanned!(here()=> #private::ArgumentDefault::Json(#json)),
        Default::Expression(value) => {
            let json = json(annotated(value, ty));
            quote_spanned!(here()=> #private::ArgumentDefault::Expression(|| #json))
        }
    }
}

pub(super) fn rule(rule: &Rule, private: &TokenStream) -> TokenStream {
    let (name, value) = match rule {
        Rule::Minimum(bound) => ("Minimum", self::bound(bound, private)),
        Rule::Maximum(bound) => ("Maximum", self::bound(bound, private)),
        Rule::ExclusiveMaximum(bound) => ("ExclusiveMaximum", self::bound(bound, private)),
        Rule::MinLength(length) => ("MinLength", Literal::u64_unsuffixed(*length).to_token_stream()),
        Rule::MaxLength(length) => ("MaxLength", Literal::u64_unsuffixed(*length).to_token_stream()),
        Rule::Pattern(pattern) => ("Pattern", pattern.to_token_stream()),
        Rule::Format(format) => ("Format", format.to_token_stream()),
        Rule::Examples(examples) => ("Examples", slice(examples)),
        Rule::Header(header) => ("Extension", quote_spanned!(here()=> "x-mcp-header", #header)),
    };
    let name = proc_macro2::Ident::new(name, here());
    quote_spanned!(here()=> #private::Rule::#name(#value))
}

fn bound(bound: &Bound, private: &TokenStream) -> TokenStream {
    match bound {
        Bound::Integer(integer) => {
            let integer = Literal::i128_unsuffixed(*integer);
            quote_spanned!(here()=> #private::Bound::Integer(#integer))
        }
        Bound::Float(float) => {
            let float = Literal::f64_unsuffixed(*float);
            quote_spanned!(here()=> #private::Bound::Float(#float))
        }
    }
}

/// Emits the static data of a function that lists resources or completes an argument.
///
/// ```text
/// ServerFnEntry {
///     function: "all_files",
///     dependencies: |into| list_dependencies(all_files, into),
///     call: |env| list(all_files, env),
/// }
/// ```
pub(super) fn server_function(function: &NamedFunction, call: &TokenStream, private: &TokenStream) -> TokenStream {
    let NamedFunction { name, path } = function;
    let dependencies = proc_macro2::Ident::new(&format!("{call}_dependencies"), here());
    quote_spanned! {here()=>
        #private::ServerFnEntry {
            function: #name,
            dependencies: |into| #private::#dependencies(#path, into),
            call: |env| #private::#call(#path, env),
        }
    }
}

/// Emits the slot into which an argument is decoded, such as `slot_or_json::<usize>("10")`.
pub(super) fn slot(argument: &Argument, private: &TokenStream) -> TokenStream {
    let ty = &argument.ty;
    match &argument.default {
        None => quote_spanned!(here()=> #private::slot::<#ty>()),
        Some(Default::Json(json)) => quote_spanned!(here()=> #private::slot_or_json::<#ty>(#json)),
        Some(Default::Expression(value)) => {
            let value = annotated(value, ty);
            quote_spanned!(here()=> #private::slot_or_else::<#ty>(|| #value))
        }
    }
}

/// Emits an expression with a type annotation.
///
/// The tokens are the same wherever the expression is emitted, so that the compiler reports an error in it only once.
fn annotated(value: &TokenStream, ty: &TokenStream) -> TokenStream {
    quote_spanned! {here()=>
        {
            let value: #ty = #value;
            value
        }
    }
}
