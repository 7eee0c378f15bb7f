//! The attribute macros of `mcp-runtime`, which re-exports them.
//!
//! Each macro has three stages with one type each: `syntax` parses the attributes and the item, `model` checks them,
//! and `emit` turns the model into tokens and cannot fail. All stages add to one list of errors, so all mistakes in a
//! function are reported at once. The function itself is always emitted, with or without errors.

mod crate_name;
mod emit;
mod errors;
mod expand;
mod libraries;
mod model;
mod nearest;
mod syntax;

use proc_macro::TokenStream;

/// Turns a function into a tool that a model can call.
///
/// Parameters by value are arguments; parameters by reference are provided by the server. Doc comments become
/// descriptions.
///
/// Options: `name = "…"`, `title = "…"`, `description = "…"`, `read_only`, `destructive`, `idempotent`, `open_world`
/// (alone, or with `= true` or `= false`), `scopes("…")`, `tags("…")`, `icon = "https://…"`, `icons("…")`,
/// `timeout = "30s"` (units `ms`, `s`, `m`, `h`), `blocking` (runs the function on a thread where it may block),
/// `meta("key" = literal)`, `crate = path` (the path of `mcp_runtime`, if it is re-exported).
///
/// With `task`, a call of a long-running function becomes a task for clients that support tasks: the client polls for
/// the result instead of waiting. For all other clients it stays a plain call. In revisions that define tasks,
/// `task = "required"` rejects clients that do not use them. With `task = "deferred"`, a call becomes a task when the
/// function calls `ctx.become_task().await`, except that a client of 2025-11-25 that requests a task receives it at
/// once. The function must be `async` or `blocking`. Without a `timeout`, a task may run until it expires.
///
/// Options of a parameter, in `#[arg(…)]`: `default` or `default = …`, `range = 1..=9`, `length = 1..=9`,
/// `pattern = "…"`, `format = "…"`, `examples(…)`, `rename = "…"`, `title = "…"`, `description = "…"`, `header = "…"`.
///
/// With `#[arg(flatten)]`, the fields of the only argument become the arguments of the tool, and the schema of its type
/// becomes the schema of the tool. A schema with `$schema`, from a manual implementation of `JsonSchema`, is listed
/// unchanged. A schema with a keyword that cannot be enforced, such as `unevaluatedProperties`, is an error at startup.
///
/// The supported dialect of JSON Schema is [2020-12](https://json-schema.org/draft/2020-12), the default of the protocol:
/// a schema with another `$schema` is an error at startup.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(options.into(), item.into()).into()
}

/// Turns a function into a resource, or a template of resources, that a client can read.
///
/// The first option is a URI, or an RFC 6570 template (levels 1 to 3) whose variables are the arguments of the
/// function.
///
/// Further options: `mime = "…"`, `size = 1024`, `audience(user, assistant)`, `priority = 0.5`,
/// `last_modified = "2025-01-12T15:00:58Z"`, `list = function` (the function lists the resources of a template),
/// `complete(variable = function)`, and these options of [`macro@tool`]: `name`, `title`, `description`, `scopes`,
/// `tags`, `icon`, `icons`, `timeout`, `blocking`, `meta`, `crate`.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::resource(options.into(), item.into()).into()
}

/// Turns a function into a prompt that a user can choose.
///
/// Options, as in [`macro@tool`]: `name`, `title`, `description`, `scopes`, `tags`, `icon`, `icons`, `timeout`,
/// `blocking`, `meta`, `crate`. `#[arg(complete = function)]` adds completions to an argument.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::prompt(options.into(), item.into()).into()
}

/// Registers the methods of an `impl` block that are annotated with [`macro@tool`], [`macro@resource`] or
/// [`macro@prompt`].
///
/// The server provides `&self` like any other state. The attributes of the methods need not be imported. Option:
/// `crate = path`.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tools(options.into(), item.into()).into()
}

/// Turns a struct into a form that a user fills in, or an enum without data into the choices of a form field.
///
/// A form is flat: its fields are strings, numbers, `bool`, enums that derive `Elicit`, a `Vec` of such an enum, or an
/// `Option` of these. Doc comments become descriptions.
///
/// Options of a field, in `#[elicit(…)]`: `default` or `default = …`, `range = 1..=9`, `length = 1..=9`, `format = "…"`
/// (`email`, `uri`, `date` or `date-time`), `rename = "…"`, `title = "…"`, `description = "…"`. Options of a variant:
/// `rename = "…"`, `title = "…"`. Option of an enum: `legacy_names` (sends titles as `enumNames`, for clients that
/// support nothing else). Option of a struct or an enum: `crate = path`.
#[proc_macro_derive(Elicit, attributes(elicit))]
pub fn elicit(item: TokenStream) -> TokenStream {
    expand::elicit(item.into()).into()
}

/// Turns a function, synchronous or `async`, into the `main` of a server.
///
/// The function receives the server with all annotated functions of the program, and returns it configured. Further
/// parameters are command-line flags, with the options of `#[arg(…)]` and `env = "VARIABLE"`. Option: `crate = path`.
#[proc_macro_attribute]
pub fn server(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::server(options.into(), item.into()).into()
}

/// Expands to a slice of the names of local dependencies that have annotated functions. Not part of the public API.
#[doc(hidden)]
#[proc_macro]
pub fn libraries(_: TokenStream) -> TokenStream {
    let names = libraries::libraries();
    quote::quote!(&[#(#names),*]).into()
}
