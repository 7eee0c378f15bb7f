use std::{future::ready, sync::Arc, time::Duration};

use crate::{
    error::Fault,
    handler::{
        AnswerFuture, Caller, CheckAnswer, ClientRequester, Context, ContextParts, LogThreshold, OnceValues, Peer,
        ask::Question,
    },
    jsonrpc::Id,
    model::Level,
    revision::{Revision, dialect_of},
};

/// The connection of a call that no client has made.
struct NoPeer;

impl Peer for NoPeer {
    fn notify(&self, _: &[u8]) -> bool {
        true
    }

    fn session_level(&self) -> Level {
        Level::Emergency
    }

    fn admits_log_message(&self) -> bool {
        false
    }

    fn close_sse_stream(&self, _: Duration) {}
}

/// The requests to a client without capabilities.
#[derive(Debug, Default)]
struct NoAnswers(OnceValues);

impl ClientRequester for NoAnswers {
    fn capabilities(&self) -> &str {
        "{}"
    }

    fn ask(&self, question: Question, _: &CheckAnswer<'_>) -> AnswerFuture {
        let missing = question.check_capabilities(self.capabilities());
        Box::pin(ready(missing.and(Err(Fault::internal("a context for tests has no client")))))
    }

    fn once_values(&self) -> &OnceValues {
        &self.0
    }
}

/// Unit tests.
impl Context {
    /// Creates a context for a unit test that calls an annotated function like any other.
    ///
    /// It is that of a call in the newest revision by a client without any capabilities: progress and log messages have no
    /// receiver, a question to the client is a [`Fault::MissingCapability`](crate::Fault::MissingCapability), and the
    /// caller is unknown, but may do everything, as over stdio. For callers, answers and notifications, call the function through a
    /// [`TestClient`](crate::TestClient).
    ///
    /// ```
    /// use mcp_runtime::{Context, tool};
    ///
    /// /// Count the words of a text.
    /// #[tool(read_only)]
    /// fn count(ctx: &Context, text: String) -> usize {
    ///     let words = text.split_whitespace().count();
    ///     ctx.progress(words, words, "done");
    ///     words
    /// }
    ///
    /// assert_eq!(count(&Context::for_test(), "to be or not to be".to_owned()), 6);
    /// ```
    pub fn for_test() -> Self {
        let newest = Revision::ALL[Revision::ALL.len() - 1];
        Self::new(ContextParts {
            peer: Arc::new(NoPeer),
            dialect: dialect_of(newest),
            id: Id::from_json("1").expect("an integer"),
            name: "test".into(),
            progress_token: None,
            log: LogThreshold::Request(None),
            log_targets: None,
            meta: None,
            caller: Caller { principal: None, client: None, revision: newest, local_identity: None, head: None },
            capabilities: None,
            requester: Some(Arc::new(NoAnswers::default())),
            task_status: None,
            handoff: None,
            scopes: None,
            access: None,
        })
    }
}
