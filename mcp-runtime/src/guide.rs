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

/// Declares chapters that consist of the file with their name.
macro_rules! chapters {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        pub mod $name {
            #![doc = include_str!(concat!("../docs/", stringify!($name), ".md"))]
        }
    )*};
}

chapters! {
    first_server
    arguments
    results
    state
    resources
    prompts
    asking
    long_calls
    #[cfg(any(feature = "cluster", not(doctest)))]
    tasks
    pagination
    testing
    organizing
    composing
    versions
    #[cfg(any(feature = "log", not(doctest)))]
    logging
    #[cfg(any(feature = "http", not(doctest)))]
    http
    authorization
    #[cfg(any(feature = "http", not(doctest)))]
    tenants
    observability
    tool_design
    limits
    stability
    from_rmcp
    #[allow(rustdoc::bare_urls, reason = "the tables are generated from data that contains plain addresses")]
    frameworks
}

#[cfg(any(feature = "ui", not(doctest)))]
pub mod pages {
    #![doc = include_str!("../docs/pages.md")]
    #![doc = include_str!("../docs/page_notes.svg")]
    #![doc = include_str!("../docs/page_dashboard.svg")]
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
