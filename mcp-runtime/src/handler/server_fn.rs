//! Functions that an annotation refers to: `complete` functions of arguments, and `list` functions of resources.
//!
//! Like annotated functions, they take shared state and [`Context`](super::Context) by reference. A `complete` function
//! may also take the text to complete as `&str`, and the arguments already filled in as [`EarlierArguments`].

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{Context, Dependency, Encoding, ErrorOutput, HandlerError, ListOutput, call, entry::ServerFnEntry};
use crate::{
    jsonrpc::write,
    model::{ResourceLink, with_meta},
    revision::encode::{self, Object},
};

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

/// The maximum number of values in one result.
///
/// See [Completion results](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion#completion-results).
const MAX_VALUES: usize = 100;

/// The values of the arguments that the user has already filled in, by name.
///
/// ```
/// use mcp_runtime::function::EarlierArguments;
///
/// /// Completes a city of the country that was chosen first.
/// fn cities(earlier: &EarlierArguments, start: &str) -> Vec<&'static str> {
///     let cities = match earlier.get("country") {
///         Some("Switzerland") => ["Basel", "Bern"],
///         _ => ["Berlin", "Paris"],
///     };
///     cities.into_iter().filter(|city| city.starts_with(start)).collect()
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EarlierArguments(pub(crate) BTreeMap<String, String>);

impl EarlierArguments {
    /// Returns the value of an argument, if the client sent it. Only clients of revision 2025-06-18 or later do.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

/// The result of a completion: at most 100 values, ordered by relevance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completions {
    pub(crate) values: Vec<String>,
    pub(crate) total: Option<usize>,
    pub(crate) has_more: bool,
    pub(crate) meta: Map<String, Value>,
}

impl Completions {
    /// Creates a result from all matches. The first 100 are sent, the rest are only counted.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values = values.into_iter();
        let first: Vec<String> = values.by_ref().take(MAX_VALUES).map(Into::into).collect();
        let total = first.len() + values.count();
        Self { has_more: total > first.len(), total: Some(total), values: first, meta: Map::new() }
    }

    /// Creates a result from the candidates that match a value, regardless of case: first the candidates that start
    /// with it, then the candidates that contain it. This is how the values of enums are completed.
    ///
    /// ```
    /// # use mcp_runtime::Completions;
    /// let cities = ["New York", "York", "Yorktown", "Paris"];
    /// assert_eq!(Completions::matching("york", cities), Completions::new(["York", "Yorktown", "New York"]));
    /// ```
    pub fn matching(value: &str, candidates: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let value = value.to_lowercase();
        let (mut starting, mut containing) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let candidate = candidate.into();
            match candidate.to_lowercase().find(&value) {
                Some(0) => starting.push(candidate),
                Some(_) => containing.push(candidate),
                None => {}
            }
        }
        Self::new(starting.into_iter().chain(containing))
    }

    /// Sets the total number of matches if the values are only the first of them. `None` means that there are more matches,
    /// and that their number is unknown.
    #[must_use]
    pub fn with_total(mut self, total: impl Into<Option<usize>>) -> Self {
        self.total = total.into();
        self.has_more = self.total.is_none_or(|total| total > self.values.len());
        self
    }

    with_meta!();

    /// Writes the result of `completion/complete`.
    pub(crate) fn write(&self, encoding: &Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(br#"{"completion":"#);
        let mut completion = Object::begin(&mut out);
        encode::array(completion.key("values"), &self.values, |out, value| write::string(out, value));
        completion.value("total", self.total.as_ref());
        write::plain(completion.key("hasMore"), &self.has_more);
        completion.end();
        encoding.end_result(&mut out, Some(&self.meta));
        out
    }
}

/// A type that a completion function may return.
#[diagnostic::on_unimplemented(
    message = "a completion function cannot return `{Self}`",
    label = "expected strings, `Completions`, or a `Result` of them"
)]
pub trait CompletionsOutput {
    /// Converts the value into a result.
    #[doc(hidden)]
    fn completions(self) -> Result<Completions, HandlerError>;
}

impl CompletionsOutput for Completions {
    fn completions(self) -> Result<Completions, HandlerError> {
        Ok(self)
    }
}

impl<S: Into<String>> CompletionsOutput for Vec<S> {
    fn completions(self) -> Result<Completions, HandlerError> {
        Ok(Completions::new(self))
    }
}

impl<S: Into<String>, const N: usize> CompletionsOutput for [S; N] {
    fn completions(self) -> Result<Completions, HandlerError> {
        Ok(Completions::new(self))
    }
}

impl<T: CompletionsOutput, E: ErrorOutput> CompletionsOutput for Result<T, E> {
    fn completions(self) -> Result<Completions, HandlerError> {
        self.map_err(HandlerError::from_error)?.completions()
    }
}

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

    #[test]
    fn at_most_100_values_are_sent_and_all_are_counted() {
        let numbers = |count: usize| Completions::new((0..count).map(|number| number.to_string()));
        for (completions, sent, total, has_more) in [
            (numbers(250), 100, Some(250), true),
            (numbers(100), 100, Some(100), false),
            (numbers(2).with_total(2), 2, Some(2), false),
            (numbers(2).with_total(3), 2, Some(3), true),
            (numbers(2).with_total(None), 2, None, true),
            (numbers(101).with_total(100), 100, Some(100), false),
        ] {
            let found = (completions.values.len(), completions.total, completions.has_more);
            assert_eq!(found, (sent, total, has_more));
        }
    }

    #[test]
    fn values_that_start_with_the_text_precede_those_that_contain_it() {
        let candidates = ["Zürich", "Bad Ragaz", "ragout", "RAGTIME", "Bern"];
        for (text, expected) in [
            ("", &candidates[..]),
            ("rag", &["ragout", "RAGTIME", "Bad Ragaz"]),
            ("RAGO", &["ragout"]),
            ("ÜRICH", &["Zürich"]),
            ("d r", &["Bad Ragaz"]),
            ("x", &[]),
        ] {
            assert_eq!(Completions::matching(text, candidates).values, expected, "{text:?}");
        }
    }
}
