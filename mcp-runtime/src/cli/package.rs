/// The metadata of a crate that Cargo provides at compile time.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// `CARGO_PKG_NAME`
    pub name: &'static str,
    /// `CARGO_PKG_VERSION`
    pub version: &'static str,
    /// `CARGO_PKG_DESCRIPTION`
    pub description: &'static str,
    /// `CARGO_PKG_HOMEPAGE`
    pub homepage: &'static str,
    /// The dependencies with a path that have annotated functions.
    pub libraries: &'static [&'static str],
}

/// Returns the [`Package`] of the crate that invokes the macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __package {
    () => {
        $crate::__private::Package {
            name: ::core::env!("CARGO_PKG_NAME"),
            version: ::core::env!("CARGO_PKG_VERSION"),
            description: ::core::env!("CARGO_PKG_DESCRIPTION"),
            homepage: ::core::env!("CARGO_PKG_HOMEPAGE"),
            libraries: $crate::__private::libraries!(),
        }
    };
}
