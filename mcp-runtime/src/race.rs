//! Waiting for the first of two futures.

use std::{future::poll_fn, pin::pin, task::Poll};

/// Waits for the first of two futures to complete: `Ok` for the first, `Err` for the second. Polls the first one first.
pub(crate) async fn race<A: Future, B: Future>(first: A, second: B) -> Result<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => second.as_mut().poll(cx).map(Err),
    })
    .await
}
