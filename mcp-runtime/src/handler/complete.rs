//! Functions of the server's own that an annotation names: completions of an argument, lists of resources.
//!
//! They take what they need by reference, like any annotated function: state, [`Context`](super::Context); a completion
//! also takes the text so far as `&str` and the arguments that are already filled in as [`EarlierArguments`].

use std::{any::Any, collections::BTreeMap, pin::Pin, sync::Arc};

use super::{ListOutput, OwnedEnv, Refusal, entry::Need};
use crate::model::ResourceLink;

/// The most values that one answer may hold.
///
/// See [Completion results](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion#completion-results).
const MOST: usize = 100;

/// The values of the arguments that a client has already filled in, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EarlierArguments(pub(crate) BTreeMap<String, String>);

impl EarlierArguments {
    /// The value of an argument, if the client told it. Clients do so from revision 2025-06-18 on.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// What a completion function takes beside state.
#[derive(Debug, Clone)]
pub(crate) struct Completing {
    pub(crate) value: Arc<str>,
    pub(crate) earlier: Arc<EarlierArguments>,
}

impl Completing {
    pub(crate) fn get<T: ?Sized + 'static>(&self) -> Option<&T> {
        let of = |value: &'_ dyn Any| value.is::<Arc<T>>();
        let found: &dyn Any = if of(&self.value) { &self.value } else { &self.earlier };
        found.downcast_ref::<Arc<T>>().map(|value| &**value)
    }
}

/// The answer to `completion/complete`: at most 100 values, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completions {
    pub(crate) values: Vec<String>,
    pub(crate) total: Option<usize>,
    pub(crate) has_more: bool,
}

impl Completions {
    /// Takes every match; what is over 100 is counted, not sent.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values = values.into_iter();
        let first: Vec<String> = values.by_ref().take(MOST).map(Into::into).collect();
        let total = first.len() + values.count();
        Self { has_more: total > first.len(), total: Some(total), values: first }
    }

    /// Says how many matches there are in all, where the values are only the first of them.
    #[must_use]
    pub fn with_total(mut self, total: usize) -> Self {
        self.has_more = total > self.values.len();
        self.total = Some(total);
        self
    }
}

/// What a completion function may return.
#[diagnostic::on_unimplemented(
    message = "a completion function cannot return `{Self}`",
    label = "expected strings, `Completions`, or a `Result` of them"
)]
pub trait CompletionsOutput {
    /// Turns it into an answer.
    #[doc(hidden)]
    fn completions(self) -> Result<Completions, Refusal>;
}

impl CompletionsOutput for Completions {
    fn completions(self) -> Result<Completions, Refusal> {
        Ok(self)
    }
}

impl<S: Into<String>> CompletionsOutput for Vec<S> {
    fn completions(self) -> Result<Completions, Refusal> {
        Ok(Completions::new(self))
    }
}

impl<S: Into<String>, const N: usize> CompletionsOutput for [S; N] {
    fn completions(self) -> Result<Completions, Refusal> {
        Ok(Completions::new(self))
    }
}

impl<T: CompletionsOutput, E: std::fmt::Display + 'static> CompletionsOutput for Result<T, E> {
    fn completions(self) -> Result<Completions, Refusal> {
        self.map_err(Refusal::of_error)?.completions()
    }
}

/// What a server function produces.
#[derive(Debug)]
pub enum Produced {
    /// Values for an argument.
    Completions(Completions),
    /// Resources that can be read.
    Resources(Vec<ResourceLink>),
}

/// The future of a server function.
pub type Producing = Pin<Box<dyn Future<Output = Result<Produced, Refusal>> + Send>>;

/// A function that takes references only, plain or async.
///
/// `K` is what it gives, values or links. `M` tells the shapes apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be named here: what it takes or what it returns does not fit",
    label = "expected a plain or async function of up to four `&T`: state, `&Context`, and for completions the text so far as `&str`",
    note = "a `list` function returns `Vec<ResourceLink>`, a `complete` function `Vec<String>` or `Completions`, or a `Result` of those"
)]
pub trait ServerFn<K, M>: Sized {
    /// What it returns.
    type Output: Gives<K>;

    /// Lists what it takes.
    #[doc(hidden)]
    fn needs(&self, into: &mut Vec<Need>);

    /// Calls it.
    #[doc(hidden)]
    fn call(self, env: OwnedEnv) -> impl Future<Output = Self::Output> + Send + 'static;
}

/// Marks functions that complete an argument.
#[derive(Debug)]
pub struct Values;
/// Marks functions that list resources.
#[derive(Debug)]
pub struct Links;

/// A type that a server function of one kind may return.
#[diagnostic::on_unimplemented(
    message = "a function that is named here cannot return `{Self}`",
    label = "a `list` function returns `Vec<ResourceLink>`, a `complete` function `Vec<String>` or `Completions`, or a `Result` of those"
)]
pub trait Gives<K> {
    /// Turns it into what was asked for.
    #[doc(hidden)]
    fn give(self) -> Result<Produced, Refusal>;
}

impl<T: CompletionsOutput> Gives<Values> for T {
    fn give(self) -> Result<Produced, Refusal> {
        self.completions().map(Produced::Completions)
    }
}

impl<T: ListOutput> Gives<Links> for T {
    fn give(self) -> Result<Produced, Refusal> {
        self.resources().map(Produced::Resources)
    }
}

/// Calls a completion function.
pub fn complete<M, F: ServerFn<Values, M> + Send + 'static>(function: F, env: OwnedEnv) -> Producing {
    let call = function.call(env);
    Box::pin(async move { call.await.give() })
}

/// Calls a list function.
pub fn list<M, F: ServerFn<Links, M> + Send + 'static>(function: F, env: OwnedEnv) -> Producing {
    let call = function.call(env);
    Box::pin(async move { call.await.give() })
}

/// Lists what a completion function takes.
pub fn complete_needs<M, F: ServerFn<Values, M>>(function: F, into: &mut Vec<Need>) {
    function.needs(into);
}

/// Lists what a list function takes.
pub fn list_needs<M, F: ServerFn<Links, M>>(function: F, into: &mut Vec<Need>) {
    function.needs(into);
}

/// Marks a plain function.
#[derive(Debug)]
pub struct Plain;
/// Marks an async function.
#[derive(Debug)]
pub struct Async;

macro_rules! server_fn {
    ($helper:ident: $($arg:ident),*) => {
        impl<K, F, R, $($arg: ?Sized + 'static),*> ServerFn<K, (Plain, fn($(&$arg),*) -> R)> for F
        where
            F: Fn($(&$arg),*) -> R + Send + 'static,
            R: Gives<K> + Send + 'static,
        {
            type Output = R;

            #[allow(unused_variables)]
            fn needs(&self, into: &mut Vec<Need>) {
                $(into.push(Need::of::<$arg>(std::any::type_name::<$arg>()));)*
            }

            #[allow(unused_variables)]
            fn call(self, env: OwnedEnv) -> impl Future<Output = R> + Send + 'static {
                async move { self($(env.get::<$arg>()),*) }
            }
        }

        /// The type of an async function of this many references, whose future borrows them.
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

        impl<K, F, R, $($arg: ?Sized + Sync + 'static),*> ServerFn<K, (Async, fn($(&$arg),*) -> R)> for F
        where
            F: for<'a> $helper<'a, $($arg,)* Output = R> + Sync,
            R: Gives<K> + Send + 'static,
        {
            type Output = R;

            #[allow(unused_variables)]
            fn needs(&self, into: &mut Vec<Need>) {
                $(into.push(Need::of::<$arg>(std::any::type_name::<$arg>()));)*
            }

            #[allow(unused_variables)]
            fn call(self, env: OwnedEnv) -> impl Future<Output = R> + Send + 'static {
                async move { self.start($(env.get::<$arg>()),*).await }
            }
        }
    };
}

server_fn!(Async0:);
server_fn!(Async1: A);
server_fn!(Async2: A, B);
server_fn!(Async3: A, B, C);
server_fn!(Async4: A, B, C, D);

#[cfg(test)]
mod tests {
    use super::*;

    struct Db;

    fn plain(_: &Db, prefix: &str) -> Vec<String> {
        vec![prefix.to_owned()]
    }

    async fn asynchronous(_: &Db) -> Result<Vec<&'static str>, std::io::Error> {
        Ok(vec!["a"])
    }

    fn nothing() -> [&'static str; 1] {
        ["x"]
    }

    async fn soon() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn every_shape_of_function_is_understood() {
        let mut needs = Vec::new();
        complete_needs(plain, &mut needs);
        complete_needs(asynchronous, &mut needs);
        complete_needs(nothing, &mut needs);
        complete_needs(soon, &mut needs);
        let ids: Vec<_> = needs.iter().map(|need| (need.type_id)()).collect();
        use std::any::TypeId;
        assert_eq!(ids, [TypeId::of::<Db>(), TypeId::of::<str>(), TypeId::of::<Db>()]);
        let _: [fn(OwnedEnv) -> Producing; 3] =
            [|env| complete(plain, env), |env| complete(asynchronous, env), |env| complete(nothing, env)];
    }

    #[test]
    fn a_hundred_values_are_sent_and_the_rest_is_counted() {
        let completions = Completions::new((0..250).map(|n| n.to_string()));
        assert_eq!((completions.values.len(), completions.total, completions.has_more), (100, Some(250), true));
    }
}
