//! Macros and methods of features that are not enabled.
//!
//! Each method has a bound that is not satisfied, whose message names the feature. Without these methods, the compiler
//! would suggest a method with a similar name.

#![allow(unused_imports, unused_macros, reason = "the module is used for features that are not enabled")]

use std::{future::Ready, net::SocketAddr};

#[cfg(feature = "testing")]
use crate::testing::TestClient;
use crate::{
    error::{BuildError, Fault},
    handle::Handle,
    handler::{Caller, Context},
    server::{BuiltServer, Server},
};

/// Fails to compile, because pages require the feature `ui`.
#[cfg(not(feature = "ui"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __ui_member {
    // A second member of the same tool.
    (<$($any:tt)*) => {
        ""
    };
    ($($any:tt)*) => {
        ::core::compile_error!(
            "the options `ui` and `visibility` require the feature `ui` of `mcp-runtime`\n\
             help: run `cargo add mcp-runtime --features ui`"
        )
    };
}

/// Fails to compile, because it requires the feature `cluster`.
#[cfg(not(feature = "cluster"))]
#[macro_export]
macro_rules! backend_connector {
    ($($any:tt)*) => {
        ::core::compile_error!("`backend_connector!` requires the feature `cluster` of `mcp-runtime`");
    };
}

/// Fails to compile, because it requires the feature `testing`.
#[cfg(not(feature = "testing"))]
#[macro_export]
macro_rules! locked_test {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`locked_test!` requires the feature `testing` of `mcp-runtime`\n\
             help: enable it in `[dev-dependencies]`"
        );
    };
}

/// A bound that nothing satisfies, because the feature `http` is not enabled.
///
/// ```compile_fail,E0277
/// # use mcp_runtime::Server;
/// # fn mount(server: Server) -> Result<(), mcp_runtime::BuildError> {
/// server.build()?.into_http_service(Default::default())?;
/// # Ok(())
/// # }
/// ```
#[cfg(not(feature = "http"))]
#[diagnostic::on_unimplemented(
    message = "this method requires the feature `http` of `mcp-runtime`",
    label = "the feature `http` is not enabled",
    note = "run `cargo add mcp-runtime --features http`"
)]
pub trait HttpFeature {}

/// A bound that nothing satisfies, because the feature `ask` is not enabled.
#[cfg(not(feature = "ask"))]
#[diagnostic::on_unimplemented(
    message = "this method requires the feature `ask` of `mcp-runtime`",
    label = "the feature `ask` is not enabled",
    note = "run `cargo add mcp-runtime --features ask`"
)]
pub trait AskFeature {}

/// A bound that nothing satisfies, because the feature `cluster` is not enabled.
///
/// ```compile_fail,E0277
/// use mcp_runtime::{Server, backend::MemoryBackend};
///
/// Server::new("billing", "1.0.0").backend(MemoryBackend::default());
/// ```
#[cfg(not(feature = "cluster"))]
#[diagnostic::on_unimplemented(
    message = "this method requires the feature `cluster` of `mcp-runtime`",
    label = "the feature `cluster` is not enabled",
    note = "run `cargo add mcp-runtime --features cluster`, or add `mcp-runtime-redis`, which enables it"
)]
pub trait ClusterFeature {}

/// A bound that nothing satisfies, because the feature `log` is not enabled.
///
/// ```compile_fail,E0277
/// mcp_runtime::Server::new("billing", "1.0.0").forward_log();
/// ```
#[cfg(not(feature = "log"))]
#[diagnostic::on_unimplemented(
    message = "this method requires the feature `log` of `mcp-runtime`",
    label = "the feature `log` is not enabled",
    note = "run `cargo add mcp-runtime --features log`"
)]
pub trait LogFeature {}

/// A bound that nothing satisfies, because the feature `skills` is not enabled.
///
/// ```compile_fail,E0277
/// mcp_runtime::Server::new("billing", "1.0.0").with_skills("skills");
/// ```
#[cfg(not(feature = "skills"))]
#[diagnostic::on_unimplemented(
    message = "this method requires the feature `skills` of `mcp-runtime`",
    label = "the feature `skills` is not enabled",
    note = "run `cargo add mcp-runtime --features skills`"
)]
pub trait SkillsFeature {}

/// A bound that nothing satisfies, because the feature `tasks` is not enabled.
///
/// ```compile_fail,E0277
/// # async fn test(mut client: mcp_runtime::testing::TestClient) {
/// client.start_task("report", ()).await.unwrap();
/// # }
/// ```
#[cfg(all(feature = "testing", not(feature = "tasks")))]
#[diagnostic::on_unimplemented(
    message = "this method requires the feature `tasks` of `mcp-runtime`",
    label = "the feature `tasks` is not enabled",
    note = "run `cargo add mcp-runtime --features tasks`"
)]
pub trait TasksFeature {}

/// A bound that nothing satisfies, because the feature `testing` is not enabled.
#[cfg(not(feature = "testing"))]
#[diagnostic::on_unimplemented(
    message = "this function requires the feature `testing` of `mcp-runtime`",
    label = "the feature `testing` is not enabled",
    note = "run `cargo add mcp-runtime --features testing --dev`"
)]
pub trait TestingFeature {}

// The lifetime delays the check of a bound that is never satisfied until the method is called.
macro_rules! missing_methods {
    ($feature:ident, $type:ty: $($name:ident$(<$generic:ident>)?($($argument:ident),*) -> $output:ty),+ $(,)?) => {
        impl $type {
            $(#[doc(hidden)]
            pub fn $name$(<$generic>)?(&self, $($argument: impl Sized),*) -> $output
            where
                for<'a> &'a Self: $feature,
            {
                $(drop($argument);)*
                unreachable!("the bound is never satisfied")
            })+
        }
    };
}

#[cfg(not(feature = "ask"))]
type Answer = Ready<Result<(), Fault>>;

#[cfg(not(feature = "ask"))]
missing_methods!(AskFeature, Server: on_roots_changed(run) -> Self);
#[cfg(not(feature = "ask"))]
missing_methods!(AskFeature, Handle: sessions() -> Vec<()>);
#[cfg(not(feature = "ask"))]
missing_methods!(
    AskFeature, Context:
    ask(request) -> Answer,
    ask_all(requests) -> Answer,
    elicit<T>(key, message) -> Answer,
    elicit_url(key, url, message) -> Answer,
    once(key, future) -> Answer,
    ping() -> Answer,
    require(capability) -> Result<(), Fault>,
    roots() -> Answer,
    sample(request) -> Answer,
    session() -> Result<(), Fault>,
    supports(capability) -> bool,
    url_elicitation_required(pages) -> Ready<Fault>,
);
#[cfg(not(feature = "cluster"))]
missing_methods!(
    ClusterFeature, Server: backend(backend) -> Self, renamed_from(name) -> Self, lease(lease) -> Self
);
#[cfg(not(feature = "http"))]
missing_methods!(HttpFeature, Server: authenticate(authenticator) -> Self);
#[cfg(not(feature = "http"))]
missing_methods!(
    HttpFeature, Context:
    headers<T>() -> Option<&T>,
    extension<T>() -> Option<&T>,
    peer_addr() -> Option<SocketAddr>,
);
#[cfg(not(feature = "http"))]
missing_methods!(
    HttpFeature, Caller:
    headers<T>() -> Option<&T>,
    extension<T>() -> Option<&T>,
    peer_addr() -> Option<SocketAddr>,
);
#[cfg(all(feature = "testing", not(feature = "http")))]
missing_methods!(HttpFeature, TestClient: with_extension(value) -> Self, with_header(name, value) -> Self);
#[cfg(not(feature = "log"))]
missing_methods!(LogFeature, Server: forward_log() -> Self, forward_log_targets(targets) -> Self);
#[cfg(not(feature = "skills"))]
missing_methods!(SkillsFeature, Server: with_skills(directory) -> Self);
#[cfg(all(feature = "testing", not(feature = "tasks")))]
missing_methods!(
    TasksFeature, TestClient: start_task(name, arguments) -> Ready<Result<(), crate::testing::RpcError>>
);
#[cfg(not(feature = "testing"))]
missing_methods!(TestingFeature, Server: test_client(revision) -> Self);
#[cfg(not(feature = "testing"))]
missing_methods!(TestingFeature, BuiltServer: test_client(revision) -> Self);

#[cfg(not(feature = "http"))]
impl BuiltServer {
    // The type of the argument is stated, so that `Default::default()` is one.
    #[doc(hidden)]
    pub fn into_http_service(self, _: ()) -> Result<(), BuildError>
    where
        for<'a> &'a Self: HttpFeature,
    {
        unreachable!("the bound is never satisfied")
    }
}

#[cfg(not(feature = "testing"))]
impl Context {
    #[doc(hidden)]
    pub fn for_test() -> Self
    where
        for<'a> &'a Self: TestingFeature,
    {
        unreachable!("the bound is never satisfied")
    }
}
