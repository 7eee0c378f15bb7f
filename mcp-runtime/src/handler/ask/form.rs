use super::{FormContent, FormField, InvalidAnswer};

/// A form that the user fills in: a struct that derives [`Elicit`](derive@crate::Elicit).
///
/// See [Form mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#form-mode-elicitation-requests).
///
/// ```
/// use mcp_runtime::{Elicit, Elicitation};
///
/// #[derive(Elicit)]
/// struct Booking {
///     /// The name of the guest.
///     #[elicit(length = 1..=80)]
///     name: String,
///     #[elicit(range = 1..=12, default = 2)]
///     guests: u8,
///     #[elicit(format = "date")]
///     day: Option<String>,
///     seat: Seat,
///     wishes: Vec<Wish>,
/// }
///
/// #[derive(Elicit)]
/// enum Seat {
///     Inside,
///     #[elicit(title = "On the terrace")]
///     Outside,
/// }
///
/// #[derive(Elicit)]
/// enum Wish {
///     Quiet,
///     HighChair,
/// }
///
/// let question = Elicitation::<Booking>::new("booking", "When would you like to come?");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Elicit`",
    label = "expected a struct that derives `Elicit`",
    note = "for a struct of your own, add `#[derive(mcp_runtime::Elicit)]`",
    note = "an enum, text or a number can only be a field of a form: make it a field of a struct"
)]
pub trait Elicit: Sized + Send + 'static {
    /// The fields, in order.
    #[doc(hidden)]
    const FIELDS: &'static [FormField];

    /// Creates the value from the content of a completed form.
    ///
    /// # Errors
    ///
    /// Returns an error if the content is invalid.
    #[doc(hidden)]
    fn read(content: &FormContent) -> Result<Self, InvalidAnswer>;
}
