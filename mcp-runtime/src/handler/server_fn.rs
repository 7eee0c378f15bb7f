//! Functions that an annotation refers to: `complete` functions of arguments, and `list` functions of resources.
//!
//! Like annotated functions, they take shared state and [`Context`](super::Context) by reference. A `complete` function
//! may also take the text to complete as `&str`, and the arguments already filled in as
//! [`EarlierArguments`](super::EarlierArguments).

use std::{
    any::{Any, TypeId, type_name},
    pin::Pin,
    sync::Arc,
};

use super::{
    Completions, CompletionsOutput, Context, Dependency, EarlierArguments, HandlerError, ListOutput, call,
    entry::ServerFnEntry,
};
use crate::model::ResourceLink;

/// The input of a `complete` or `list` function: the call and, to complete, the text and the earlier arguments.
#[derive(Debug, Clone)]
pub struct ServerFnInput {
    pub(crate) context: Context,
    pub(crate) completed: Option<(Arc<str>, Arc<EarlierArguments>)>,
}

impl ServerFnInput {
    /// Returns the value for a parameter of type `&T`.
    ///
    /// # Panics
    ///
    /// Panics if there is no value of type `T`, which is impossible once the server has been built.
    pub fn get<T: ?Sized + 'static>(&self) -> &T {
        let completed = self.completed.as_ref();
        let values = completed.into_iter().flat_map(|(text, earlier)| [text as &dyn Any, earlier as &dyn Any]);
        let found = values.into_iter().find_map(<dyn Any>::downcast_ref::<Arc<T>>);
        found.map_or_else(|| call::get(&self.context), |value| &**value)
    }
}

/// The result of a `complete` or `list` function.
#[derive(Debug)]
pub enum ServerFnOutput {
    /// Values for an argument.
    Completions(Completions),
    /// Resources that can be read.
    Resources(Vec<ResourceLink>),
}

/// The future of a `complete` or `list` function.
pub type ServerFnFuture = Pin<Box<dyn Future<Output = Result<ServerFnOutput, HandlerError>> + Send>>;

/// A `complete` or `list` function: sync or async, with parameters that are all references.
///
/// `K` is [`CompleteKind`] or [`ListKind`] and determines the return types. `M` distinguishes the signatures and is
/// always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used here: unsupported parameters or return type",
    label = "expected a sync or async function with up to four parameters of type `&T`: shared state, `&Context`, and for completions the text to complete as `&str`",
    note = "a `list` function returns `Vec<ResourceLink>`, a `complete` function `Vec<String>` or `Completions`, or a `Result` of those"
)]
pub trait ServerFn<K, M>: Sized {
    /// The return type.
    type Output: ServerFnReturn<K>;

    /// Appends the parameters.
    #[doc(hidden)]
    fn dependencies(&self, into: &mut Vec<Dependency>);

    /// Calls the function.
    #[doc(hidden)]
    fn call(self, input: ServerFnInput) -> impl Future<Output = Self::Output> + Send + 'static;
}

/// The kind of functions that complete an argument.
#[derive(Debug)]
pub struct CompleteKind;
/// The kind of functions that list resources.
#[derive(Debug)]
pub struct ListKind;

/// A type that a `complete` or `list` function may return.
#[diagnostic::on_unimplemented(
    message = "a `list` or `complete` function cannot return `{Self}`",
    label = "a `list` function returns `Vec<ResourceLink>`, a `complete` function `Vec<String>` or `Completions`, or a `Result` of those"
)]
pub trait ServerFnReturn<K> {
    /// Converts the return value into a result.
    #[doc(hidden)]
    fn into_output(self) -> Result<ServerFnOutput, HandlerError>;
}

impl<T: CompletionsOutput> ServerFnReturn<CompleteKind> for T {
    fn into_output(self) -> Result<ServerFnOutput, HandlerError> {
        self.completions().map(ServerFnOutput::Completions)
    }
}

impl<T: ListOutput> ServerFnReturn<ListKind> for T {
    fn into_output(self) -> Result<ServerFnOutput, HandlerError> {
        self.resources().map(ServerFnOutput::Resources)
    }
}

/// Calls a `complete` function.
pub fn complete<M, F: ServerFn<CompleteKind, M> + Send + 'static>(function: F, input: ServerFnInput) -> ServerFnFuture {
    let call = function.call(input);
    Box::pin(async move { call.await.into_output() })
}

/// Calls a `list` function.
pub fn list<M, F: ServerFn<ListKind, M> + Send + 'static>(function: F, input: ServerFnInput) -> ServerFnFuture {
    let call = function.call(input);
    Box::pin(async move { call.await.into_output() })
}

/// Appends the parameters of a `complete` function.
pub fn complete_dependencies<M, F: ServerFn<CompleteKind, M>>(function: F, into: &mut Vec<Dependency>) {
    function.dependencies(into);
}

/// Appends the parameters of a `list` function.
pub fn list_dependencies<M, F: ServerFn<ListKind, M>>(function: F, into: &mut Vec<Dependency>) {
    function.dependencies(into);
}

/// Returns `true` if a server function takes the context.
pub(crate) fn takes_context(function: &ServerFnEntry) -> bool {
    let mut dependencies = Vec::new();
    (function.dependencies)(&mut dependencies);
    uses_context(&dependencies)
}

/// Returns `true` if the context is one of the parameters that the server provides.
pub(crate) fn uses_context(dependencies: &[Dependency]) -> bool {
    dependencies.iter().any(|dependency| (dependency.type_id)() == TypeId::of::<Context>())
}

/// A marker for the signatures of sync functions.
#[derive(Debug)]
pub struct SyncFn;
/// A marker for the signatures of async functions.
#[derive(Debug)]
pub struct AsyncFn;

macro_rules! server_fn {
    ($helper:ident: $($arg:ident),*) => {
        impl<K, F, R, $($arg: ?Sized + 'static),*> ServerFn<K, (SyncFn, fn($(&$arg),*) -> R)> for F
        where
            F: Fn($(&$arg),*) -> R + Send + 'static,
            R: ServerFnReturn<K> + Send + 'static,
        {
            type Output = R;

            #[allow(unused_variables)]
            fn dependencies(&self, into: &mut Vec<Dependency>) {
                $(into.push(Dependency::of::<$arg>(type_name::<$arg>()));)*
            }

            #[allow(unused_variables)]
            fn call(self, input: ServerFnInput) -> impl Future<Output = R> + Send + 'static {
                async move { self($(input.get::<$arg>()),*) }
            }
        }

        /// An async function with this number of parameters, whose future borrows them.
        #[doc(hidden)]
        pub trait $helper<'a, $($arg: ?Sized + 'a),*>: Send + 'static {
            type Future: Future<Output = Self::Output> + Send + 'a;
            type Output;
            fn start(&self, $(_: &'a $arg),*) -> Self::Future;
        }

        impl<'a, F, U, $($arg: ?Sized + 'a),*> $helper<'a, $($arg),*> for F
        where
            F: Fn($(&'a $arg),*) -> U + Send + 'static,
            U: Future + Send + 'a,
        {
            type Future = U;
            type Output = U::Output;

            #[allow(non_snake_case)]
            fn start(&self, $($arg: &'a $arg),*) -> U {
                self($($arg),*)
            }
        }

        impl<K, F, R, $($arg: ?Sized + Sync + 'static),*> ServerFn<K, (AsyncFn, fn($(&$arg),*) -> R)> for F
        where
            F: for<'a> $helper<'a, $($arg,)* Output = R> + Sync,
            R: ServerFnReturn<K> + Send + 'static,
        {
            type Output = R;

            #[allow(unused_variables)]
            fn dependencies(&self, into: &mut Vec<Dependency>) {
                $(into.push(Dependency::of::<$arg>(type_name::<$arg>()));)*
            }

            #[allow(unused_variables)]
            fn call(self, input: ServerFnInput) -> impl Future<Output = R> + Send + 'static {
                async move { self.start($(input.get::<$arg>()),*).await }
            }
        }
    };
}

server_fn!(AsyncFn0:);
server_fn!(AsyncFn1: A);
server_fn!(AsyncFn2: A, B);
server_fn!(AsyncFn3: A, B, C);
server_fn!(AsyncFn4: A, B, C, D);

#[cfg(test)]
mod tests {
    use super::*;

    struct Db;

    fn sync_fn(_: &Db, prefix: &str) -> Vec<String> {
        vec![prefix.to_owned()]
    }

    async fn async_fn(_: &Db) -> Result<Vec<&'static str>, std::io::Error> {
        Ok(vec!["a"])
    }

    fn sync_fn_without_parameters() -> [&'static str; 1] {
        ["x"]
    }

    async fn async_fn_without_parameters() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn sync_and_async_functions_are_supported() {
        let mut dependencies = Vec::new();
        complete_dependencies(sync_fn, &mut dependencies);
        complete_dependencies(async_fn, &mut dependencies);
        complete_dependencies(sync_fn_without_parameters, &mut dependencies);
        complete_dependencies(async_fn_without_parameters, &mut dependencies);
        let ids: Vec<_> = dependencies.iter().map(|dependency| (dependency.type_id)()).collect();
        assert_eq!(ids, [TypeId::of::<Db>(), TypeId::of::<str>(), TypeId::of::<Db>()]);
        let _: [fn(ServerFnInput) -> ServerFnFuture; 3] = [
            |input| complete(sync_fn, input),
            |input| complete(async_fn, input),
            |input| complete(sync_fn_without_parameters, input),
        ];
    }
}
