use std::any::Any;

use crate::{error::Fault, handler::RequestHead};

/// A call's place among those that a transport lets be in work: free again when it is dropped, at the call's end.
pub(crate) type Permit = Box<dyn Any + Send + Sync>;

/// What a transport knows of a message beside its text.
pub(crate) trait RequestSource: RequestHead + std::fmt::Debug {
    /// Compares what a stateless request says with what the transport says of it.
    ///
    /// # Errors
    ///
    /// A fault that says what differs.
    fn check_request(&self, request: &Mirrored<'_>) -> Result<(), Fault>;

    /// Says whether a message may leave open which version it is in.
    ///
    /// # Errors
    ///
    /// A fault that says which version the transport names, where that one cannot be meant.
    fn check_unversioned(&self) -> Result<(), Fault>;

    /// Compares arguments with what the transport says of them: each a name, and the JSON of the value if it is given.
    ///
    /// # Errors
    ///
    /// A fault that says what differs.
    fn check_arguments(&self, arguments: &[(&str, Option<&str>)]) -> Result<(), Fault>;

    /// Gives a call its place among those in work. What is no call needs none, so that answers and cancellations get through
    /// when there is no more place.
    ///
    /// # Errors
    ///
    /// A fault that says that there is none.
    fn admit(&self) -> Result<Permit, Fault>;

    /// Says whether there is a place. A call that ends where it began takes none, but is refused like the others.
    ///
    /// # Errors
    ///
    /// A fault that says that there is none.
    fn check_room(&self) -> Result<(), Fault>;

    /// Whom the transport, or whoever stands before it, has found the sender to be.
    fn principal(&self) -> Option<&str>;
}

/// The parts of a stateless request that a transport may repeat.
#[derive(Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP repeats parts of a request"))]
pub(crate) struct Mirrored<'a> {
    /// The JSON of the protocol version.
    pub(crate) version: &'a str,
    pub(crate) method: &'a str,
    /// The JSON of what the request is about: a tool's or prompt's name, a resource's URI, a task's id.
    pub(crate) subject: Option<&'a str>,
}
