//! A call that goes on as a task when its client no longer waits for it.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{self, Poll},
};

use super::{Context, Running};

/// Where a task says how far it is.
pub(crate) trait Notes: Send + Sync {
    /// Takes a line for people, in place of the one before.
    fn note(&self, message: &str);
}

/// How a call becomes a task in its midst.
pub(crate) trait TaskHandoff: Send + Sync {
    /// Has the call become a task when it next waits; ready when it is one.
    fn depart(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Ready when the call is to become a task.
    fn poll_wanted(&self, cx: &mut task::Context<'_>) -> Poll<()>;

    /// Takes the rest of the function, and gives what the call ends with in its place.
    fn take(&self, rest: Running, context: Arc<Context>) -> Running;
}

impl Context {
    /// Becomes a task from here on, in a tool with `#[tool(task = "deferred")]`: the client gets the task in place of the result
    /// that it waits for, and asks for the result later. For a client that cannot have tasks, and in a call that is a task
    /// already, it does nothing; the lines behind it are the same either way.
    ///
    /// What is asked before it is asked in the ordinary way, see [`elicit`](Self::elicit); what is asked after it belongs to the task.
    ///
    /// ```
    /// use mcp_runtime::{Answer, Context, Elicit, Fault, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     sure: bool,
    /// }
    ///
    /// /// Rebuild the index.
    /// #[tool(task = "deferred")]
    /// async fn rebuild(ctx: &Context) -> Result<String, Fault> {
    ///     let Answer::Accept(Confirm { sure: true }) = ctx.elicit("confirm", "This takes an hour. Begin?").await? else {
    ///         return Ok("nothing was done".to_owned());
    ///     };
    ///     ctx.become_task().await;
    ///     // … the hour …
    ///     Ok("rebuilt".to_owned())
    /// }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// A call whose future of this is dropped may still become a task.
    pub async fn become_task(&self) {
        let Some(handoff) = &self.parts().handoff else { return };
        let (mut departing, mut ended) = (handoff.depart(), pin!(self.ended()));
        // Code that runs beside the call must not wait for ever.
        poll_fn(|cx| match departing.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => ended.as_mut().poll(cx),
        })
        .await;
    }

    /// How the call becomes a task, if it can.
    pub(crate) fn handoff(&self) -> Option<&Arc<dyn TaskHandoff>> {
        self.parts().handoff.as_ref()
    }
}
