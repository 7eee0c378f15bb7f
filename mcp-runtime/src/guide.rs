//! A guide to writing servers, in chapters that can be read in order or on their own.
//!
//! Each chapter begins with a small complete example. All examples are compiled, and most of them run, with the tests
//! of this crate.
//!
#![doc = include_str!("../docs/tour.svg")]
//!
//! **Functions**
//!
//! - [First server](first_server): a complete program, how to try it, and how to connect a client.
//! - [Arguments](arguments): types, optional arguments, constraints, and what a model reads about invalid values.
//! - [Results and errors](results): return types, and what the model, the client and the log see of an error.
//! - [State](state): what functions share, and flags on the command line.
//! - [Resources](resources): data that clients read by URI, and templates.
//! - [Prompts](prompts): messages that a user chooses, and completion.
//!
//! **Calls**
//!
//! - [Asking the client](asking): forms, web pages, and the client's model, in both eras of the protocol.
//! - [Long calls](long_calls): progress, cancellation, timeouts, streaming.
//! - [Tasks](tasks): calls that clients poll.
//! - [Pages](pages): HTML pages that clients show with results, as MCP Apps.
//! - [Pagination](pagination): results in pages, and contents by reference.
//!
//! **Programs**
//!
//! - [Testing](testing): calls in memory, questions to the client, lock files.
//! - [Organizing](organizing): tools over modules and crates.
//! - [Composing](composing): functions of other servers, REST services, command lines and definitions, with a chapter for each:
//!   [Other servers](https://docs.rs/mcp-runtime-proxy), [OpenAPI](https://docs.rs/mcp-runtime-openapi),
//!   [Command lines](https://docs.rs/mcp-runtime-clap), [Definitions](https://docs.rs/mcp-runtime-config).
//! - [Versions](versions): changes that do not break callers, and deprecation.
//! - [HTTP](http): one server for many clients, alone or inside axum; authentication.
//! - [Authorization](authorization): who may call, and with which scopes.
//! - [Tenants](tenants): many users or organizations, and their data.
//! - [Logging and tracing](logging): events, spans, JSON, and your own subscriber.
//! - [Observability](observability): traces, metrics and health checks, in the names of OpenTelemetry.
//! - [Deploying](deploying): a container, a systemd service, nginx.
//! - [Replicas](replicas): several processes of one server, with Redis, on Kubernetes.
//!
//! **Advice**
//!
//! - [Tool design](tool_design): tools that models use correctly.
//! - [Limits](limits): what is not possible, and what to do instead.
//! - [Stability](stability): what may change in which release.
//! - [From rmcp](from_rmcp): the same server side by side.
//!
//! **Appendix**
//!
//! - [Frameworks](frameworks): what agent frameworks make of schemas and results.

pub mod first_server {
    #![doc = include_str!("../docs/first_server.md")]
}
pub mod arguments {
    #![doc = include_str!("../docs/arguments.md")]
}
pub mod results {
    #![doc = include_str!("../docs/results.md")]
}
pub mod state {
    #![doc = include_str!("../docs/state.md")]
}
pub mod resources {
    #![doc = include_str!("../docs/resources.md")]
}
pub mod prompts {
    #![doc = include_str!("../docs/prompts.md")]
}
#[cfg(any(feature = "ui", not(doctest)))]
pub mod pages {
    #![doc = include_str!("../docs/pages.md")]
    #![doc = include_str!("../docs/page_notes.svg")]
    #![doc = include_str!("../docs/page_dashboard.svg")]
}
pub mod asking {
    #![doc = include_str!("../docs/asking.md")]
}
pub mod long_calls {
    #![doc = include_str!("../docs/long_calls.md")]
}
#[cfg(any(feature = "cluster", not(doctest)))]
pub mod tasks {
    #![doc = include_str!("../docs/tasks.md")]
}
pub mod pagination {
    #![doc = include_str!("../docs/pagination.md")]
}
pub mod testing {
    #![doc = include_str!("../docs/testing.md")]
}
pub mod organizing {
    #![doc = include_str!("../docs/organizing.md")]
}
pub mod composing {
    #![doc = include_str!("../docs/composing.md")]
}
pub mod versions {
    #![doc = include_str!("../docs/versions.md")]
}
#[cfg(any(feature = "log", not(doctest)))]
pub mod logging {
    #![doc = include_str!("../docs/logging.md")]
}
#[cfg(any(feature = "http", not(doctest)))]
pub mod http {
    #![doc = include_str!("../docs/http.md")]
}
pub mod authorization {
    #![doc = include_str!("../docs/authorization.md")]
}
#[cfg(any(feature = "http", not(doctest)))]
pub mod tenants {
    #![doc = include_str!("../docs/tenants.md")]
}
pub mod observability {
    #![doc = include_str!("../docs/observability.md")]
}
pub mod deploying {
    #![doc = include_str!("../docs/deploying.md")]
    //!
    //! # Dockerfile
    //!
    //! ```dockerfile
    #![doc = include_str!("../docs/deploy/Dockerfile")]
    //! ```
    //!
    //! # Unit
    //!
    //! ```ini
    #![doc = include_str!("../docs/deploy/my-server.service")]
    //! ```
    //!
    //! # Site
    //!
    //! ```nginx
    #![doc = include_str!("../docs/deploy/nginx.conf")]
    //! ```
    //!
    //! # Next
    //!
    //! [Replicas](super::replicas): several processes of one server.
}
#[cfg(any(feature = "cluster", not(doctest)))]
pub mod replicas {
    #![doc = include_str!("../docs/replicas.md")]
    //!
    //! # Manifests
    //!
    //! ```yaml
    #![doc = include_str!("../docs/deploy/kubernetes.yaml")]
    //! ```
    //!
    //! # Next
    //!
    //! [Tool design](super::tool_design): tools that models use correctly.
}
pub mod tool_design {
    #![doc = include_str!("../docs/tool_design.md")]
}
pub mod limits {
    #![doc = include_str!("../docs/limits.md")]
}
pub mod stability {
    #![doc = include_str!("../docs/stability.md")]
}

pub mod from_rmcp {
    #![doc = include_str!("../docs/from_rmcp.md")]
}
pub mod frameworks {
    #![allow(rustdoc::bare_urls, reason = "the tables are generated from data that contains plain addresses")]
    #![doc = include_str!("../docs/frameworks.md")]
}
