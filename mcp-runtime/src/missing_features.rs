//! Methods of features that are not enabled.
//!
//! Each of them has a bound that is not satisfied, whose message names the feature. Without these methods, the compiler
//! would suggest a method with a similar name.

#![allow(unused_imports, unused_macros, reason = "the module is used for features that are not enabled")]

use std::future::{Ready, ready};

#[cfg(feature = "testing")]
use crate::testing::TestClient;
use crate::{
    error::{BuildError, Fault},
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
macro_rules! builder_methods {
    ($feature:ident, $type:ty: $($name:ident($($argument:ident),*)),+) => {
        impl $type {
            $(#[doc(hidden)]
            pub fn $name<$($argument),*>(self, $(_: $argument),*) -> Self
            where
                for<'a> &'a Self: $feature,
            {
                self
            })+
        }
    };
}

#[cfg(not(feature = "ask"))]
builder_methods!(AskFeature, Server: on_roots_changed(F));
#[cfg(not(feature = "cluster"))]
builder_methods!(ClusterFeature, Server: backend(B), renamed_from(N), lease(D));
#[cfg(not(feature = "http"))]
builder_methods!(HttpFeature, Server: authenticate(A));
#[cfg(all(feature = "testing", not(feature = "http")))]
builder_methods!(HttpFeature, TestClient: with_extension(T), with_header(N, V));
#[cfg(not(feature = "log"))]
builder_methods!(LogFeature, Server: forward_log(), forward_log_targets(T));
#[cfg(not(feature = "skills"))]
builder_methods!(SkillsFeature, Server: with_skills(D));
#[cfg(not(feature = "testing"))]
builder_methods!(TestingFeature, Server: test_client(R));
#[cfg(not(feature = "testing"))]
builder_methods!(TestingFeature, BuiltServer: test_client(R));

#[cfg(not(feature = "http"))]
impl BuiltServer {
    #[doc(hidden)]
    pub fn into_http_service(self, _: ()) -> Result<(), BuildError>
    where
        for<'a> &'a Self: HttpFeature,
    {
        Ok(())
    }
}

#[cfg(not(feature = "ask"))]
macro_rules! asking_methods {
    ($receiver:ty: $($name:ident$(<$type:ident>)?($($argument:ident),*) -> $output:ty = $value:expr),+ $(,)?) => {
        impl $receiver {
            $(#[doc(hidden)]
            pub fn $name$(<$type>)?(&self, $($argument: impl Sized),*) -> $output
            where
                for<'a> &'a Self: AskFeature,
            {
                $(drop($argument);)*
                $value
            })+
        }
    };
}

#[cfg(not(feature = "ask"))]
type Answer = Ready<Result<(), Fault>>;

#[cfg(not(feature = "ask"))]
asking_methods!(
    Context:
    ask(request) -> Answer = ready(Ok(())),
    ask_all(requests) -> Answer = ready(Ok(())),
    elicit<T>(key, message) -> Answer = ready(Ok(())),
    elicit_url(key, url, message) -> Answer = ready(Ok(())),
    once(key, future) -> Answer = ready(Ok(())),
    ping() -> Answer = ready(Ok(())),
    require(capability) -> Result<(), Fault> = Ok(()),
    roots() -> Answer = ready(Ok(())),
    sample(request) -> Answer = ready(Ok(())),
    session() -> Result<(), Fault> = Ok(()),
    supports(capability) -> bool = false,
    url_elicitation_required(pages) -> Ready<Fault> = ready(Fault::internal("")),
);
#[cfg(not(feature = "ask"))]
asking_methods!(crate::handle::Handle: sessions() -> Vec<()> = Vec::new());

#[cfg(not(feature = "http"))]
macro_rules! of_requests {
    ($($request:ty),+) => {
        $(impl $request {
            #[doc(hidden)]
            pub fn headers<T>(&self) -> Option<&T>
            where
                for<'a> &'a Self: HttpFeature,
            {
                None
            }

            #[doc(hidden)]
            pub fn extension<T>(&self) -> Option<&T>
            where
                for<'a> &'a Self: HttpFeature,
            {
                None
            }

            #[doc(hidden)]
            pub fn peer_addr(&self) -> Option<std::net::SocketAddr>
            where
                for<'a> &'a Self: HttpFeature,
            {
                None
            }
        })+
    };
}

#[cfg(not(feature = "http"))]
of_requests!(Context, Caller);

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

#[cfg(all(feature = "testing", not(feature = "tasks")))]
impl TestClient {
    #[doc(hidden)]
    pub fn start_task<A>(&mut self, _: &str, _: A) -> Ready<Result<(), crate::testing::RpcError>>
    where
        for<'a> &'a Self: TasksFeature,
    {
        unreachable!("the bound is never satisfied")
    }
}
