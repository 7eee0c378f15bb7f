//! The transmissions that are batches: which of them are accepted, and that all of their requests run or none.
//!
//! See [Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).

use std::sync::Arc;

use super::{
    call::{in_flight::Batch, response},
    connection::{Connection, ReceiveOutcome, RequestIds},
    request::{
        operation::{Ending, Operation},
        params::Params,
        source::check_scopes,
    },
};
use crate::{
    auth::Scopes,
    error::Fault,
    jsonrpc::{Incoming, Message, raw},
    revision::{self, Dialect, Feature},
};

impl Connection {
    /// Returns the dialect that decides whether a batch is accepted. Outside of a session, its requests name their own: one
    /// that names none is of an earlier revision.
    fn batch_dialect(&self, messages: raw::Elements<'_>) -> &'static Dialect {
        let has_no_batches = |message| {
            let Ok(Incoming::Request(message, _)) = Message::read(message) else { return None };
            match Params::read(message.params.as_ref()).meta.protocol_version {
                Some(version) => revision::stateless(&version.string()?),
                None => revision::newest_without(Feature::Batching),
            }
            .filter(|dialect| !dialect.has(Feature::Batching))
        };
        let named = || messages.take(self.context.engine.profile.limits.batch_messages).find_map(has_no_batches);
        self.session_dialect().or_else(named).unwrap_or_else(revision::newest)
    }

    pub(super) fn receive_batch(
        &mut self,
        messages: raw::Elements<'_>,
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let dialect = self.batch_dialect(messages.clone());
        if !dialect.has(Feature::Batching) {
            let message = format!("protocol version {} does not support batches", dialect.name());
            return self.reject(&Fault::InvalidRequest(message), out);
        }
        let limit = self.context.engine.profile.limits.batch_messages;
        match messages.clone().take(limit + 1).count() {
            0 => return self.reject(&Fault::InvalidRequest("a batch must not be empty".to_owned()), out),
            count if count > limit => {
                let message = format!("the batch is too large: the limit is {limit} messages");
                return self.reject(&Fault::InvalidRequest(message), out);
            }
            _ => {}
        }
        if let Err(fault) = self.check_batch_scopes(messages.clone()) {
            return self.reject_batch(messages, &fault, out);
        }
        let batch = Arc::new(Batch::new());
        let mut response = Vec::new();
        let mut outcome = ReceiveOutcome::default();
        for message in messages {
            response.clear();
            let received = self.handle(Message::read(message), Some(&batch), ids, &mut response);
            outcome.is_request |= received.is_request;
            outcome.fault = outcome.fault.or(received.fault);
            if !response.is_empty() {
                batch.add(&response);
            }
        }
        batch.skip(out);
        // The client learns about a rejected notification only from the status, which other responses determine if there
        // are any.
        if outcome.is_request {
            outcome.fault = None;
        }
        outcome
    }

    /// Checks that the sender has the scopes of all requests of a batch, so that either all of them run or none.
    fn check_batch_scopes(&self, messages: raw::Elements<'_>) -> Result<(), Fault> {
        let Some(source) = self.context.source.as_ref().filter(|_| self.context.engine.registry().requires_scopes())
        else {
            return Ok(());
        };
        let scopes = messages.fold(Scopes::default(), |all, message| all.and(self.scopes_of(Message::read(message))));
        check_scopes(&self.context.engine.profile.access, &**source, &scopes)
    }

    /// Responds to every request of a batch with the same error. Its other messages have no effect.
    fn reject_batch(&mut self, messages: raw::Elements<'_>, fault: &Fault, out: &mut Vec<u8>) -> ReceiveOutcome {
        let batch = Batch::new();
        let (mut response, mut is_request) = (Vec::new(), false);
        for message in messages {
            if let Ok(Incoming::Request(message, id)) = Message::read(message) {
                is_request = true;
                response.clear();
                let params = Params::read(message.params.as_ref());
                let operation = Operation::start(&self.context, &message.method, &params, Some(&id));
                let dialect = self.default_dialect();
                operation.set_dialect(dialect);
                response::write_error(&mut response, dialect, Some(&id), fault);
                operation.end(dialect, &Ending::Fault(fault.clone(), None));
                batch.add(&response);
            }
        }
        batch.skip(out);
        ReceiveOutcome { is_request, fault: fault.class(), ..ReceiveOutcome::default() }
    }
}
