//! The attribute macros of `mcp-runtime`, which re-exports and documents them for use.
//!
//! Each macro works in three stages with three types: `syntax` is what the author wrote, `model` is what was found
//! to be sound, and `emit` turns that into tokens and cannot fail. Whatever a stage finds wrong goes into one list, so
//! that every mistake of a function is reported at once, and the function itself survives all of them.

mod crate_name;
mod emit;
mod errors;
mod expand;
mod model;
mod nearest;
mod syntax;

use proc_macro::TokenStream;

/// Makes a function a tool that a model can call.
///
/// Parameters by value are arguments, parameters by reference are given by the server. The doc comments are the
/// descriptions.
///
/// Options: `name = "…"`, `title = "…"`, `description = "…"`, `read_only`, `destructive`, `idempotent`, `open_world` (bare
/// or `= true`, `= false`), `scopes("…")`, `tags("…")`, `icon = "https://…"`, `icons("…")`, `timeout = "30s"` (`ms`, `s`, `m`,
/// `h`), `blocking` (runs on a thread that may block), `meta("key" = literal)`, `crate = path` (where `mcp_runtime` is, if
/// it is re-exported).
///
/// A function that takes minutes or more need not keep its client waiting: with `task` a call is a task for a client that can
/// have one, which asks for the result later, and a plain call for all others. With `task = "required"` whoever can have no
/// tasks is refused, where the protocol has them; with `task = "deferred"` a call becomes a task only when the function says
/// `ctx.become_task().await`. The function must be `async` or `blocking`. Unless it has a `timeout`, a task may take as long as
/// it is kept.
///
/// Options of a parameter, in `#[arg(…)]`: `default` or `default = …`, `range = 1..=9`, `length = 1..=9`, `pattern = "…"`,
/// `format = "…"`, `examples(…)`, `rename = "…"`, `title = "…"`, `description = "…"`, `header = "…"`. Or `flatten`, of an only
/// argument: its fields are the tool's arguments, and its schema is the tool's. A schema with `$schema`, from a `JsonSchema`
/// implementation of the author's own, is shown as it is; it is enforced but for `unevaluatedProperties`, `unevaluatedItems`
/// and `$dynamicRef`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(options.into(), item.into()).into()
}

/// Makes a function a resource, or a template of resources, that a client can read.
///
/// The first option is the URI, or an RFC 6570 template of level 1 to 3, whose variables are the function's arguments.
///
/// Further options: `mime = "…"`, `size = 1024`, `audience(user, assistant)`, `priority = 0.5`, `list = function` (lists what
/// a template covers), `complete(variable = function)`, and of those of [`macro@tool`]: `name`, `title`, `description`,
/// `scopes`, `tags`, `icon`, `icons`, `timeout`, `blocking`, `meta`, `crate`.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::resource(options.into(), item.into()).into()
}

/// Makes a function a prompt that a person can choose.
///
/// Options, as those of [`macro@tool`]: `name`, `title`, `description`, `scopes`, `tags`, `icon`, `icons`, `timeout`,
/// `blocking`, `meta`, `crate`. An argument is completed by `#[arg(complete = function)]`.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::prompt(options.into(), item.into()).into()
}

/// Collects the methods of an impl block that are annotated with [`macro@tool`], [`macro@resource`] or [`macro@prompt`].
///
/// `&self` is given by the server, as any state is. The attributes of the methods need no import. Option: `crate = path`.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tools(options.into(), item.into()).into()
}

/// Makes a struct a form that a person fills in, and an enum without data the choices of one of its fields.
///
/// A form is flat: its fields are text, numbers, `bool`, such enums, a `Vec` of such an enum, or an `Option` of these. The doc
/// comments are the descriptions.
///
/// Options of a field, in `#[elicit(…)]`: `default` or `default = …`, `range = 1..=9`, `length = 1..=9`, `format = "…"` (`email`,
/// `uri`, `date` or `date-time`), `rename = "…"`, `title = "…"`, `description = "…"`; of a variant: `rename = "…"`, `title = "…"`;
/// of the enum: `legacy_names` (titles go out as `enumNames`, for clients that know no others). Option of either:
/// `crate = path`.
#[proc_macro_derive(Elicit, attributes(elicit))]
pub fn elicit(item: TokenStream) -> TokenStream {
    expand::elicit(item.into()).into()
}

/// Makes a function, plain or async, the `main` of a server.
///
/// It takes the server with every annotated function of the program, and returns it configured. Further parameters are
/// flags of the command line, with the options of `#[arg(…)]`, and `env = "VARIABLE"`. Option: `crate = path`.
#[proc_macro_attribute]
pub fn server(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::server(options.into(), item.into()).into()
}
