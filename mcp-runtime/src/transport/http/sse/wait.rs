use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// A future that a response polls until it is ready.
pub(crate) struct Wait(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Wait {
    pub(crate) fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}
