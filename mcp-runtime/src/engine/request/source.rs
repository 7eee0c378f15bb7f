//! The source of a request, the entries that its sender sees, and what the sender may use.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    auth::{AccessRules, RequestHead, Scopes},
    error::Fault,
    handler::{Caller, Function, entry::EntryInfo},
    jsonrpc::RawJson,
    revision::Dialect,
    stdx::debug,
};

/// The capacity of a transport that a call occupies until the permit is dropped.
pub(crate) type Permit = Box<dyn Any + Send + Sync>;

/// The source of a message: what the transport knows about the message beyond its text.
pub(crate) trait RequestSource: RequestHead + std::fmt::Debug {
    /// Compares a stateless request with the fields that the transport repeats.
    ///
    /// # Errors
    ///
    /// Returns a fault that names the difference.
    fn check_request(&self, request: &MirroredFields<'_>) -> Result<(), Fault>;

    /// Checks that a message may omit its protocol version.
    ///
    /// # Errors
    ///
    /// Returns a fault if the transport names a version in which every request must contain its version.
    fn check_unversioned(&self) -> Result<(), Fault>;

    /// Returns the revision of a notification outside of a session, or `None` if the transport rejects it.
    fn notification_dialect(&self) -> Option<&'static Dialect>;

    /// Compares arguments with the copies that the transport carries, such as HTTP headers. Each argument is a name,
    /// and the JSON of its value if it has one.
    ///
    /// # Errors
    ///
    /// Returns a fault that names the difference.
    fn check_arguments(&self, arguments: &[(&str, Option<&str>)]) -> Result<(), Fault>;

    /// Reserves capacity for a call. Other messages need none, so responses and cancellations pass even at capacity.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if there is no capacity left.
    fn admit(&self) -> Result<Permit, Fault>;

    /// Checks that there is capacity for a call that completes in place and therefore need not reserve it.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if there is no capacity left.
    fn check_capacity(&self) -> Result<(), Fault>;

    /// Reserves capacity for a `subscriptions/listen` request.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if there is no capacity left.
    fn admit_listener(&self) -> Result<Permit, Fault>;
}

/// The fields of a stateless request that a transport may repeat outside the message.
#[derive(Debug)]
pub(crate) struct MirroredFields<'a> {
    /// The JSON of the protocol version.
    pub(crate) version: RawJson<'a>,
    pub(crate) method: &'a str,
    /// The JSON of the name of a tool or prompt, the URI of a resource, or the id of a task.
    pub(crate) subject: Option<RawJson<'a>>,
}

/// The scopes of a sender, for checks that outlive its request. A sender over a transport that does not identify
/// senders has all of them.
#[derive(Debug, Clone)]
pub(crate) struct SenderAccess(pub(super) Option<(Arc<AccessRules>, Arc<dyn RequestSource>)>);

impl SenderAccess {
    /// Returns whether the sender has scopes.
    pub(crate) fn grants(&self, scopes: &Scopes) -> bool {
        self.0.as_ref().is_none_or(|(rules, source)| rules.grants(source.identity(), scopes))
    }

    /// Checks that the sender has scopes. See [`check_scopes`].
    pub(crate) fn check(&self, scopes: &Scopes) -> Result<(), Fault> {
        self.0.as_ref().map_or(Ok(()), |(rules, source)| check_scopes(rules, &**source, scopes))
    }
}

/// Checks that the sender of a message has scopes.
///
/// # Errors
///
/// Returns [`Fault::InsufficientScope`] with these scopes and the scopes that every request requires.
pub(crate) fn check_scopes(rules: &AccessRules, source: &dyn RequestSource, scopes: &Scopes) -> Result<(), Fault> {
    let identity = source.identity();
    if rules.grants(identity, scopes) {
        return Ok(());
    }
    let required = rules.to_request(identity, scopes.clone());
    source.demand_scopes(&required);
    Err(Fault::InsufficientScope { required })
}

/// The author's rule that decides which entries a caller sees.
#[derive(Clone)]
pub(crate) struct Visibility(Arc<Decide>);

type Decide = dyn Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync;

impl Visibility {
    /// Adds a rule to those of a server: a caller sees the entries that no rule hides.
    pub(crate) fn add(
        rules: &mut Option<Self>,
        sees: impl Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync + 'static,
    ) {
        *rules = Some(Self(match rules.take() {
            None => Arc::new(sees),
            Some(earlier) => Arc::new(move |caller, info| earlier.decide(caller, info) && sees(caller, info)),
        }));
    }

    /// Returns what the rule says.
    pub(crate) fn decide(&self, caller: &Caller, info: &EntryInfo<'_>) -> bool {
        (self.0)(caller, info)
    }
}

debug!(Visibility, self);

/// The entries that a caller sees: all of them, unless the server has a [`Visibility`].
#[derive(Debug, Clone)]
pub(crate) struct VisibleTo(pub(super) Option<Arc<(Visibility, Caller)>>);

impl VisibleTo {
    /// Returns whether some entries may be hidden.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the caller sees a function. If the rule panics, the function is hidden.
    pub(crate) fn sees(&self, function: &Function) -> bool {
        self.sees_entry(&function.info())
    }

    /// Returns whether the caller sees an entry, which may also be a skill.
    pub(crate) fn sees_entry(&self, info: &EntryInfo<'_>) -> bool {
        let Some((visibility, caller)) = self.0.as_deref() else { return true };
        catch_unwind(AssertUnwindSafe(|| visibility.decide(caller, info))).unwrap_or_else(|_| {
            tracing::error!(name = info.name, "the function passed to `visible_to` panicked, so the entry is hidden");
            false
        })
    }
}
