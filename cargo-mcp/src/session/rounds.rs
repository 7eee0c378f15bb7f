//! Requests that a server answers with questions first.

use std::time::Duration;

use rmcp::model::{ErrorData, InputRequiredResult, InputResponses};
use serde_json::Value;

use super::Session;
use crate::failure::Failure;

/// How often a server may ask before it answers.
const ROUNDS: usize = 64;

/// The rounds of a request that the server answers with questions.
#[derive(Debug, Default)]
pub(crate) struct Rounds(usize);

impl Rounds {
    /// What to send with the next round.
    ///
    /// # Errors
    ///
    /// There were too many; those of [`Session::fulfil`].
    pub(crate) async fn answered(
        &mut self,
        session: &Session,
        what: &str,
        asked: InputRequiredResult,
    ) -> Result<(Option<InputResponses>, Option<String>), Failure> {
        self.count(what)?;
        let requests = asked.input_requests.unwrap_or_default();
        if requests.is_empty() {
            // It only wants to be called again, and not at once.
            session.pause(Duration::from_millis(100)).await?;
        }
        let responses = session.fulfil(what, requests).await?;
        Ok(((!responses.is_empty()).then_some(responses), asked.request_state))
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
        self.0 += 1;
        match self.0 > ROUNDS {
            true => Err(Failure::connection(format_args!("{what}: the server asks without end ({ROUNDS} times)"))),
            false => Ok(()),
        }
    }
}
