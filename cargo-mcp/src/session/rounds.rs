//! Requests that a server answers with questions first.

use std::time::Duration;

use rmcp::model::{ClientRequest, ErrorData, InputRequiredResult, InputResponses, ServerResult};
use serde_json::Value;

use super::{Extras, Session};
use crate::failure::Failure;

/// How often a server may ask before it answers.
const ROUNDS: usize = 64;

/// The rounds of a request that the server answers with questions.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    count: usize,
    next: Round,
}

/// What goes with the next round beside what was asked for at first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    /// The answers to what the server asked.
    pub(crate) responses: Option<InputResponses>,
    /// What the server wants to have back.
    pub(crate) state: Option<String>,
}

impl Rounds {
    /// Sends a request, and again with answers as long as the server asks.
    ///
    /// # Errors
    ///
    /// The server asks too often; those of [`Session::request`] and [`Session::fulfil`].
    pub(crate) async fn request(
        &mut self,
        session: &Session,
        what: &str,
        extras: Extras,
        request: impl Fn(Round) -> ClientRequest,
    ) -> Result<Result<ServerResult, ErrorData>, Failure> {
        loop {
            match session.request(what, request(self.next.clone()), extras).await? {
                Ok(ServerResult::InputRequiredResult(asked)) => self.answer(session, what, asked).await?,
                answer => return Ok(answer),
            }
        }
    }

    async fn answer(&mut self, session: &Session, what: &str, asked: InputRequiredResult) -> Result<(), Failure> {
        self.count(what)?;
        let requests = asked.input_requests.unwrap_or_default();
        if requests.is_empty() {
            // It only wants to be called again, and not at once.
            session.pause(Duration::from_millis(100)).await?;
        }
        let responses = session.fulfil(what, requests).await?;
        self.next = Round { responses: (!responses.is_empty()).then_some(responses), state: asked.request_state };
        Ok(())
    }

    /// Sends the user to the pages that an error names; whether it is worth trying again.
    ///
    /// # Errors
    ///
    /// There were too many; the user cannot be asked, or has had enough.
    pub(crate) async fn visited(&mut self, session: &Session, what: &str, error: &ErrorData) -> Result<bool, Failure> {
        self.count(what)?;
        let pages = error.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Value::as_array);
        let pages = pages.cloned().unwrap_or_default();
        session.answer(what, async { Ok(session.host().visit(pages).await) }).await
    }

    fn count(&mut self, what: &str) -> Result<(), Failure> {
        self.count += 1;
        match self.count > ROUNDS {
            true => Err(Failure::connection(format_args!("{what}: the server asks without end ({ROUNDS} times)"))),
            false => Ok(()),
        }
    }
}
