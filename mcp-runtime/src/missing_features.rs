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

/// Defines a bound that nothing satisfies, with the message, the label and the note of its error, and methods that have
/// the bound. The first arm defines only methods.
macro_rules! missing_methods {
    ($feature:ident; $($type:ty: $($name:ident$(<$generic:ident>)?($($argument:ident),*) -> $output:ty),+;)+) => {
        $(impl $type {
            $(#[doc(hidden)]
            pub fn $name$(<$generic>)?(&self, $($argument: impl Sized),*) -> $output
            where
                // The lifetime delays the check of a bound that is never satisfied until the method is called.
                for<'a> &'a Self: $feature,
            {
                $(drop($argument);)*
                unreachable!("the bound is never satisfied")
            })+
        })+
    };
    // An error shows the line of the item, since the macro does not write it.
    ($trait:item $message:literal, $label:literal, $note:literal; $($methods:tt)+) => {
        #[diagnostic::on_unimplemented(message = $message, label = $label, note = $note)]
        $trait
        missing_methods!($($methods)+);
    };
}

#[cfg(not(feature = "http"))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `http` is not enabled.
    ///
    /// ```compile_fail,E0277
    /// # use mcp_runtime::Server;
    /// # fn mount(server: Server) -> Result<(), mcp_runtime::BuildError> {
    /// server.build()?.into_http_service(Default::default())?;
    /// # Ok(())
    /// # }
    /// ```
    pub trait HttpFeature {}
    "this method requires the feature `http` of `mcp-runtime`", "the feature `http` is not enabled",
    "run `cargo add mcp-runtime --features http`";
    HttpFeature;
    Server: authenticate(authenticator) -> Self;
    Context: headers<T>() -> Option<&T>, extension<T>() -> Option<&T>, peer_addr() -> Option<SocketAddr>;
    Caller: headers<T>() -> Option<&T>, extension<T>() -> Option<&T>, peer_addr() -> Option<SocketAddr>;
}

#[cfg(all(feature = "testing", not(feature = "http")))]
missing_methods!(HttpFeature; TestClient: with_extension(value) -> Self, with_header(name, value) -> Self;);

#[cfg(not(feature = "ask"))]
type Answer = Ready<Result<(), Fault>>;

#[cfg(not(feature = "ask"))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `ask` is not enabled.
    pub trait AskFeature {}
    "this method requires the feature `ask` of `mcp-runtime`", "the feature `ask` is not enabled",
    "run `cargo add mcp-runtime --features ask`";
    AskFeature;
    Server: on_roots_changed(run) -> Self;
    Handle: sessions() -> Vec<()>;
    Context:
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
        url_elicitation_required(pages) -> Ready<Fault>;
}

#[cfg(not(feature = "cluster"))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `cluster` is not enabled.
    ///
    /// ```compile_fail,E0277
    /// use mcp_runtime::{Server, backend::MemoryBackend};
    ///
    /// Server::new("billing", "1.0.0").backend(MemoryBackend::default());
    /// ```
    pub trait ClusterFeature {}
    "this method requires the feature `cluster` of `mcp-runtime`", "the feature `cluster` is not enabled",
    "run `cargo add mcp-runtime --features cluster`, or add `mcp-runtime-redis`, which enables it";
    ClusterFeature;
    Server: backend(backend) -> Self, renamed_from(name) -> Self, lease(lease) -> Self;
}

#[cfg(not(feature = "log"))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `log` is not enabled.
    ///
    /// ```compile_fail,E0277
    /// mcp_runtime::Server::new("billing", "1.0.0").forward_log();
    /// ```
    pub trait LogFeature {}
    "this method requires the feature `log` of `mcp-runtime`", "the feature `log` is not enabled",
    "run `cargo add mcp-runtime --features log`";
    LogFeature;
    Server: forward_log() -> Self, forward_log_targets(targets) -> Self;
}

#[cfg(not(feature = "skills"))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `skills` is not enabled.
    ///
    /// ```compile_fail,E0277
    /// mcp_runtime::Server::new("billing", "1.0.0").with_skills("skills");
    /// ```
    pub trait SkillsFeature {}
    "this method requires the feature `skills` of `mcp-runtime`", "the feature `skills` is not enabled",
    "run `cargo add mcp-runtime --features skills`";
    SkillsFeature;
    Server: with_skills(directory) -> Self;
}

#[cfg(all(feature = "testing", not(feature = "tasks")))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `tasks` is not enabled.
    ///
    /// ```compile_fail,E0277
    /// # async fn test(mut client: mcp_runtime::testing::TestClient) {
    /// client.start_task("report", ()).await.unwrap();
    /// # }
    /// ```
    pub trait TasksFeature {}
    "this method requires the feature `tasks` of `mcp-runtime`", "the feature `tasks` is not enabled",
    "run `cargo add mcp-runtime --features tasks`";
    TasksFeature;
    TestClient: start_task(name, arguments) -> Ready<Result<(), crate::testing::RpcError>>;
}

#[cfg(not(feature = "testing"))]
missing_methods! {
    /// A bound that nothing satisfies, because the feature `testing` is not enabled.
    pub trait TestingFeature {}
    "this function requires the feature `testing` of `mcp-runtime`", "the feature `testing` is not enabled",
    "run `cargo add mcp-runtime --features testing --dev`";
    TestingFeature;
    Server: test_client(revision) -> Self;
    BuiltServer: test_client(revision) -> Self;
}

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
