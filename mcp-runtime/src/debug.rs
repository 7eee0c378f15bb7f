//! Implements `Debug` for types with fields that do not implement it.

/// Implements `Debug` for a type, which shows only the given values.
macro_rules! debug {
    ($type:ident $(<$generic:ident>)?, $this:ident $(, $name:ident: $value:expr)*) => {
        impl$(<$generic>)? std::fmt::Debug for $type$(<$generic>)? {
            fn fmt(&$this, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($name), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug;
