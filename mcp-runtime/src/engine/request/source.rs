use std::any::Any;

use crate::{error::Fault, handler::RequestHead, jsonrpc::RawJson};

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

    /// Returns the authenticated sender of the message.
    fn principal(&self) -> Option<&str>;
}

/// The fields of a stateless request that a transport may repeat outside the message.
#[derive(Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP repeats fields of a request"))]
pub(crate) struct MirroredFields<'a> {
    /// The JSON of the protocol version.
    pub(crate) version: RawJson<'a>,
    pub(crate) method: &'a str,
    /// The JSON of the name of a tool or prompt, the URI of a resource, or the id of a task.
    pub(crate) subject: Option<RawJson<'a>>,
}
