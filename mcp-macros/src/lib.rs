//! The attribute macros of `mcp-runtime`, which re-exports them.
//!
//! Each macro has three stages with one type each: `syntax` parses the attributes and the item, `model` checks them,
//! and `emit` turns the model into tokens and cannot fail. All stages add to one list of errors, so all mistakes in a
//! function are reported at once. The function itself is always emitted, with or without errors.
//!
//! The re-exports in `mcp-runtime` add an introduction and an example to the page of each macro.

mod emit;
mod errors;
mod expand;
mod manifest;
mod model;
mod syntax;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

use syntax::Kind;

/// # Options
///
/// | option | effect |
/// | --- | --- |
/// | `name = "…"` | the name for programs; by default the name of the function |
/// | `title = "…"` | the name for people |
/// | `description = "…"` | the description, instead of the doc comment; also `include_str!("…")` |
/// | `read_only` | the tool changes nothing |
/// | `destructive` | the tool may delete or overwrite, as clients assume by default; `= false`: it only adds |
/// | `idempotent` | repeating a call with the same arguments has no further effect |
/// | `open_world` | the tool reaches other systems, as clients assume by default; `= false`: it does not |
/// | `task` | calls may become tasks: alone, `= "required"` or `= "deferred"`; see below |
/// | `ui = path::to::page` | the page that shows the results, a function with `#[ui]`; requires the feature `ui` |
/// | `visibility = [model, app]` | who calls the tool: the model, the page, or both, as by default; requires the feature `ui` |
/// | `scopes("…", …)` | the OAuth scopes that a caller needs over HTTP; `any("…", …)` for one of several |
/// | `tags("…", …)` | labels for selecting functions in the server; clients do not see them |
/// | `icon = "https://…"` | an icon, as an `https:` or `data:image/…;base64,…` URI; with `mime`, `sizes` and `theme`: `icon("https://…", mime = "image/png", sizes("48x48"), theme = dark)` |
/// | `icons("https://…", icon(…), …)` | several icons |
/// | `timeout = "30s"` | the timeout of a call, in `ms`, `s`, `m` or `h`; by default the server's |
/// | `blocking` | runs the function on a thread where it may block |
/// | `meta("key" = 1, …)` | members of the `_meta` of the listed entry, as JSON: `meta("com.example/view" = {"columns": ["name", null]})` |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
///
/// An option that is on or off may have a value: `read_only` is `read_only = true`.
///
/// If the function is `#[deprecated]`, the note becomes the last paragraph of the description, since the protocol has no
/// other place for it: `Deprecated since 2.0.0: use …`. The same holds for resources and prompts.
///
/// # Options of parameters
///
/// In `#[arg(…)]`, on parameters by value:
///
/// | option | effect |
/// | --- | --- |
/// | `default`, `default = 10` | makes the argument optional: `Default`, a literal, or an expression |
/// | `range = 1..=100` | the values that a number may have, as a Rust range |
/// | `length = 1..=80` | the number of characters of a string, or of elements of a list |
/// | `pattern = "^[a-z]+$"` | a regular expression that a string must match |
/// | `format = "date-time"` | the format that a string must have: `date`, `date-time`, `email`, `hostname`, `ipv4`, `ipv6`, `time`, `uri` or `uuid` |
/// | `examples("one", …)` | examples for the model |
/// | `rename = "aName"` | the name of the argument in requests |
/// | `title = "…"` | the name for people |
/// | `description = "…"` | the description, in place of the doc comment |
/// | `header = "Region"` | clients also send the argument in the HTTP header `Mcp-Param-Region`; only tools |
/// | `complete = function` | a function that completes the argument; only prompts and resources |
/// | `env = "VARIABLE"` | the environment variable that provides the value; only flags of `#[server]` |
/// | `flatten` | the fields of the only argument become the arguments of the tool; only tools |
///
/// With `flatten`, the schema of the type becomes the schema of the tool. A schema with `$schema`, from a manual
/// implementation of `JsonSchema`, is listed unchanged. A schema with a keyword that cannot be enforced, such as
/// a `$ref` to another document, is an error of `Server::check`, and of the start in debug builds. So is a schema with
/// another `$schema` than [2020-12](https://json-schema.org/draft/2020-12), the default of the protocol.
///
/// # Tasks
///
/// With `task`, a call of a long-running function becomes a task for clients that support tasks: the client polls for
/// the result instead of waiting. For all other clients it stays a plain call. In revisions that define tasks,
/// `task = "required"` rejects clients that do not use them. With `task = "deferred"`, a call becomes a task when the
/// function calls `ctx.become_task().await`, except that a client of 2025-11-25 that requests a task receives it at
/// once. The function must be `async` or `blocking`. Without a `timeout`, a task may run until it expires. The option
/// requires the feature `tasks` of `mcp-runtime`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::entry(Kind::Tool, options.into(), item.into()).into()
}

/// # Options
///
/// After the URI or template:
///
/// | option | effect |
/// | --- | --- |
/// | `name = "…"` | the name for programs; by default the name of the function |
/// | `title = "…"` | the name for people |
/// | `description = "…"` | the description, instead of the doc comment; also `include_str!("…")` |
/// | `mime = "text/plain"` | the media type |
/// | `size = 1024` | the size in bytes, if it is known; only without variables |
/// | `audience(user, assistant)` | for whom the contents are intended |
/// | `priority = 0.5` | the importance, from 0 to 1 |
/// | `last_modified = "2025-01-12T15:00:58Z"` | the time of the last change; sent since revision 2025-06-18 |
/// | `ttl = "5m"` | how long clients may cache the contents; sent since revision 2026-07-28, by default 0 |
/// | `public` | caches may give the contents to other callers, unless the server has authorization or visibility rules |
/// | `list = function` | a function that returns the resources of a template as `Vec<ResourceLink>` |
/// | `complete(variable = function, …)` | functions that complete variables |
/// | `scopes("…", …)` | the OAuth scopes that a caller needs over HTTP; `any("…", …)` for one of several |
/// | `tags("…", …)` | labels for selecting functions in the server; clients do not see them |
/// | `icon = "https://…"` | an icon, as an `https:` or `data:image/…;base64,…` URI; with `mime`, `sizes` and `theme`: `icon("https://…", mime = "image/png", sizes("48x48"), theme = dark)` |
/// | `icons("https://…", icon(…), …)` | several icons |
/// | `timeout = "30s"` | the timeout of a call, in `ms`, `s`, `m` or `h`; by default the server's |
/// | `blocking` | runs the function on a thread where it may block |
/// | `meta("key" = 1, …)` | members of the `_meta` of the listed entry, as JSON: `meta("com.example/view" = {"columns": ["name", null]})` |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
///
/// The options of [parameters](macro@tool#options-of-parameters) apply, except for `header`, `env` and `flatten`.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::entry(Kind::Resource, options.into(), item.into()).into()
}

/// # Options
///
/// After the URI:
///
/// | option | effect |
/// | --- | --- |
/// | `name = "…"` | the name for programs; by default the name of the function |
/// | `title = "…"` | the name for people |
/// | `description = "…"` | the description, instead of the doc comment; also `include_str!("…")` |
/// | `file = "board.html"` | the file with the text of the page, relative to the source file; the function has no body |
/// | `connect = ["https://…", …]` | the origins to which the page may connect, also `wss://…` |
/// | `resources = ["https://…", …]` | the origins of its scripts, styles, fonts, images and media; subdomains as `https://*.example.com` |
/// | `frames = ["https://…", …]` | the origins of its frames |
/// | `base_uris = ["https://…", …]` | the origins that `<base>` may name |
/// | `permissions = [camera, …]` | the permissions it requests: `camera`, `microphone`, `geolocation` and `clipboard_write` |
/// | `domain = "…"` | the origin in which the host shows it, in the form that the host documents |
/// | `prefers_border` | it is shown with a border and a background; `= false`: without; by default the host decides |
/// | `ttl = "5m"` | how long clients may cache it; sent since revision 2026-07-28, by default 0 |
/// | `public` | caches may give it to other callers, unless the server has authorization or visibility rules |
/// | `scopes("…", …)` | the OAuth scopes that a caller needs over HTTP; `any("…", …)` for one of several |
/// | `tags("…", …)` | labels for selecting functions in the server; clients do not see them |
/// | `icon = "https://…"` | an icon, as an `https:` or `data:image/…;base64,…` URI; with `mime`, `sizes` and `theme`: `icon("https://…", mime = "image/png", sizes("48x48"), theme = dark)` |
/// | `icons("https://…", icon(…), …)` | several icons |
/// | `timeout = "30s"` | the timeout of a call, in `ms`, `s`, `m` or `h`; by default the server's |
/// | `blocking` | runs the function on a thread where it may block |
/// | `meta("key" = 1, …)` | members of the `_meta` of the listed entry, as JSON: `meta("com.example/view" = {"columns": ["name", null]})` |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
#[cfg(feature = "ui")]
#[proc_macro_attribute]
pub fn ui(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::ui(options.into(), item.into()).into()
}

/// # Options
///
/// | option | effect |
/// | --- | --- |
/// | `name = "…"` | the name for programs; by default the name of the function |
/// | `title = "…"` | the name for people |
/// | `description = "…"` | the description, instead of the doc comment; also `include_str!("…")` |
/// | `scopes("…", …)` | the OAuth scopes that a caller needs over HTTP; `any("…", …)` for one of several |
/// | `tags("…", …)` | labels for selecting functions in the server; clients do not see them |
/// | `icon = "https://…"` | an icon, as an `https:` or `data:image/…;base64,…` URI; with `mime`, `sizes` and `theme`: `icon("https://…", mime = "image/png", sizes("48x48"), theme = dark)` |
/// | `icons("https://…", icon(…), …)` | several icons |
/// | `timeout = "30s"` | the timeout of a call, in `ms`, `s`, `m` or `h`; by default the server's |
/// | `blocking` | runs the function on a thread where it may block |
/// | `meta("key" = 1, …)` | members of the `_meta` of the listed entry, as JSON: `meta("com.example/view" = {"columns": ["name", null]})` |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
///
/// The options of [parameters](macro@tool#options-of-parameters) apply, except for `header`, `env` and `flatten`.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::entry(Kind::Prompt, options.into(), item.into()).into()
}

/// # Options
///
/// | option | effect |
/// | --- | --- |
/// | `scopes("…", …)` | the OAuth scopes that every method requires, in addition to its own |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tools(options.into(), item.into()).into()
}

/// # Options of the type
///
/// | option | effect |
/// | --- | --- |
/// | `legacy_names` | on an enum: sends titles as `enumNames`, for clients that support nothing else |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
///
/// # Options of fields
///
/// | option | effect |
/// | --- | --- |
/// | `default`, `default = 10` | the value that the client fills in: `Default`, a literal, or an expression |
/// | `range = 1..=9` | the values that a number may have, as a Rust range |
/// | `length = 1..=9` | the number of characters of a string, or of choices |
/// | `format = "email"` | the format of a string: `email`, `uri`, `date` or `date-time` |
/// | `rename = "aName"` | the name of the field in answers |
/// | `title = "…"` | the label of the field |
/// | `description = "…"` | the description, in place of the doc comment |
///
/// # Options of variants
///
/// | option | effect |
/// | --- | --- |
/// | `rename = "aName"` | the value of the choice in answers |
/// | `title = "…"` | the label of the choice |
#[cfg(feature = "ask")]
#[proc_macro_derive(Elicit, attributes(elicit))]
pub fn elicit(item: TokenStream) -> TokenStream {
    expand::elicit(item.into()).into()
}

/// # Options
///
/// | option | effect |
/// | --- | --- |
/// | `crate = path` | the path of `mcp_runtime`, if it is re-exported |
///
/// The options of [parameters](macro@tool#options-of-parameters) apply to flags, and `env = "VARIABLE"` names the
/// environment variable that sets a flag which is not on the command line.
#[proc_macro_attribute]
pub fn server(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::server(options.into(), item.into()).into()
}

/// Expands to a slice of the names of local dependencies that have annotated functions. Not part of the public API.
#[doc(hidden)]
#[proc_macro]
pub fn libraries(_: TokenStream) -> TokenStream {
    let names = manifest::libraries();
    quote::quote!(&[#(#names),*]).into()
}
