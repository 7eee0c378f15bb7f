/// A number passed to [`Context::progress`](crate::Context::progress), or `()` for an unknown total.
///
/// ```
/// # fn report(ctx: &mcp_runtime::Context) {
/// ctx.progress(3, 10, "3 of 10 files");
/// ctx.progress(0.5, 1.0, "half");
/// ctx.progress(3, (), "3 files so far");
/// # }
/// ```
pub trait Amount {
    /// Returns the number, if there is one.
    fn amount(self) -> Option<f64>;
}

impl Amount for () {
    fn amount(self) -> Option<f64> {
        None
    }
}

impl<T: Amount> Amount for Option<T> {
    fn amount(self) -> Option<f64> {
        self.and_then(T::amount)
    }
}

macro_rules! amounts {
    ($($number:ty),+) => {
        $(impl Amount for $number {
            fn amount(self) -> Option<f64> {
                Some(self as f64)
            }
        })+
    };
}

amounts!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);
