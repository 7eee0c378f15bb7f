//! Requests for which a server first requires input.

use std::time::Duration;

use rmcp::model::{ClientRequest, ErrorData, InputRequiredResult, InputResponses, ServerResult};
use serde_json::Value;

use super::{RequestOptions, Session};
use crate::failure::Failure;

/// The maximum number of rounds.
const MAX_ROUNDS: usize = 64;

/// The rounds of a request, each of which answers the input requests of the previous one.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    count: usize,
    next: Round,
}

/// The members that a round adds to the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    /// The responses to the input requests.
    pub(crate) responses: Option<InputResponses>,
    /// The state that the server expects back.
    pub(crate) state: Option<String>,
}

impl Rounds {
    /// Sends a request, and repeats it with responses for as long as the server requires input.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many rounds, or as [`Session::request`] and [`Session::fulfil`] do.
    pub(crate) async fn request(
        &mut self,
        session: &Session,
        what: &str,
        options: RequestOptions,
        request: impl Fn(Round) -> ClientRequest,
    ) -> Result<Result<ServerResult, ErrorData>, Failure> {
        loop {
            match session.request(what, request(self.next.clone()), options).await? {
                Ok(ServerResult::InputRequiredResult(asked)) => self.answer(session, what, asked).await?,
                response => return Ok(response),
            }
        }
    }

    async fn answer(&mut self, session: &Session, what: &str, asked: InputRequiredResult) -> Result<(), Failure> {
        self.count(what)?;
        let requests = asked.input_requests.unwrap_or_default();
        if requests.is_empty() {
            // The server asks the client to try again later.
            session.pause(Duration::from_millis(100)).await?;
        }
        let responses = session.fulfil(what, requests).await?;
        self.next = Round { responses: (!responses.is_empty()).then_some(responses), state: asked.request_state };
        Ok(())
    }

    /// Asks the user to visit the pages that an error names. Returns whether to send the request again.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many rounds, if the user cannot be asked, or on Ctrl-C.
    pub(crate) async fn visit_pages(
        &mut self,
        session: &Session,
        what: &str,
        error: &ErrorData,
    ) -> Result<bool, Failure> {
        self.count(what)?;
        let pages = error.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Value::as_array);
        let pages = pages.cloned().unwrap_or_default();
        session.answer(what, async { Ok(session.host().visit(pages).await) }).await
    }

    fn count(&mut self, what: &str) -> Result<(), Failure> {
        self.count += 1;
        if self.count > MAX_ROUNDS {
            return Err(Failure::connection(format_args!(
                "{what}: the server required input {MAX_ROUNDS} times without a result"
            )));
        }
        Ok(())
    }
}
