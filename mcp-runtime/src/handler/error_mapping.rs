//! Finds how the error of a function is mapped, from the type that the function returns.
//!
//! Rust has no specialization, so no `impl` can prefer [`IntoFailure`] to `Display`. Macro expansions know the concrete
//! type, and method lookup prefers the receiver with the most references:
//!
//! 1. `Result<_, E>` with `E: IntoFailure`
//! 2. `Result<_, E>` with an error that holds another one: `anyhow::Error`, `Box<dyn Error + Send + Sync>`
//! 3. `Result<_, Box<dyn Error>>`
//! 4. everything else

use std::{error::Error, fmt, marker::PhantomData};

use super::{HandlerError, IntoFailure, failure::Failure};

/// A function that returns the mapped error of a return value, or the value if its error is not mapped.
pub type ErrorMapping<T> = fn(T) -> Result<T, HandlerError>;

/// The return type of an annotated function.
pub struct Returned<T>(PhantomData<T>);

impl<T> Returned<T> {
    /// The only value.
    pub const TYPE: Self = Self(PhantomData);
}

impl<T> fmt::Debug for Returned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

/// The mapping of errors that implement [`IntoFailure`].
pub trait ByTrait<T> {
    /// Returns the mapping.
    fn error_mapping(&self) -> ErrorMapping<T>;
}

impl<T, E: IntoFailure> ByTrait<Result<T, E>> for &&&Returned<Result<T, E>> {
    fn error_mapping(&self) -> ErrorMapping<Result<T, E>> {
        |returned| match returned {
            Ok(value) => Ok(Ok(value)),
            Err(error) => Err(HandlerError::from_failure(error.into_failure())),
        }
    }
}

/// The mapping of errors that hold an error which can be sent between threads.
pub trait ByCause<T> {
    /// Returns the mapping.
    fn error_mapping(&self) -> ErrorMapping<T>;
}

impl<T, E: AsRef<dyn Error + Send + Sync>> ByCause<Result<T, E>> for &&Returned<Result<T, E>> {
    fn error_mapping(&self) -> ErrorMapping<Result<T, E>> {
        |returned| mapped_by_cause(returned, |error| error.as_ref())
    }
}

/// The mapping of errors that hold an error which cannot be sent between threads.
pub trait ByLocalCause<T> {
    /// Returns the mapping.
    fn error_mapping(&self) -> ErrorMapping<T>;
}

impl<T, E: AsRef<dyn Error>> ByLocalCause<Result<T, E>> for &Returned<Result<T, E>> {
    fn error_mapping(&self) -> ErrorMapping<Result<T, E>> {
        |returned| mapped_by_cause(returned, |error| error.as_ref())
    }
}

/// The mapping of values that are not errors, and of errors of all other types.
pub trait Unmapped<T> {
    /// Returns the mapping.
    fn error_mapping(&self) -> ErrorMapping<T>;
}

impl<T> Unmapped<T> for Returned<T> {
    fn error_mapping(&self) -> ErrorMapping<T> {
        Ok
    }
}

fn mapped_by_cause<T, E>(
    returned: Result<T, E>,
    cause: fn(&E) -> &(dyn Error + 'static),
) -> Result<Result<T, E>, HandlerError> {
    match returned.as_ref().err().and_then(|error| Failure::among(cause(error))) {
        Some(failure) => Err(HandlerError::from_failure(failure)),
        None => Ok(returned),
    }
}

/// Returns `$value` of type `$returned`, or returns its error from the surrounding function if the error is mapped.
#[doc(hidden)]
#[macro_export]
macro_rules! __mapped {
    ($returned:ty, $value:expr) => {{
        let returned = $value;
        #[allow(unused_imports)]
        use $crate::__private::{ByCause as _, ByLocalCause as _, ByTrait as _, Unmapped as _};
        let mapping: $crate::__private::ErrorMapping<$returned> =
            (&&&&$crate::__private::Returned::<$returned>::TYPE).error_mapping();
        mapping(returned)?
    }};
}
