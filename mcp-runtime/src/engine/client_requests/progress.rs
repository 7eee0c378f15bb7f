//! Progress that the client reports about requests of the server.
//!
//! See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).

use tokio::sync::watch;

use crate::{engine::request::params::Params, handler::ask::ClientProgress, jsonrpc::RawJson};

/// The maximum size of a message in bytes. A longer one is truncated.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Holds the latest report only, so a client that reports faster than the function reads occupies no more memory.
pub(super) type ProgressSender = watch::Sender<Option<ClientProgress>>;
pub(super) type ProgressReceiver = watch::Receiver<Option<ClientProgress>>;

/// Creates the channel of a request whose client is asked for progress.
pub(super) fn channel() -> (ProgressSender, ProgressReceiver) {
    watch::channel(None)
}

/// Replaces the latest report. Returns `false` if the progress has not increased.
pub(super) fn update(latest: &ProgressSender, report: &ClientProgress) -> bool {
    latest.send_if_modified(|latest| {
        let increases = latest.as_ref().is_none_or(|latest| report.progress > latest.progress);
        if increases {
            *latest = Some(report.clone());
        }
        increases
    })
}

/// Decodes the parameters of a notification: the token, which is the id of a request, and the progress. Returns `None`
/// if they are invalid.
pub(in crate::engine) fn decode_progress(params: &Params<'_>) -> Option<(u64, ClientProgress)> {
    let number = |name| params.member(name)?.text().parse::<f64>().ok().filter(|number| number.is_finite());
    let token = params.member("progressToken")?.text().parse().ok()?;
    let message = params.member("message").and_then(RawJson::string).map(|message| truncated(&message[..]).to_owned());
    Some((token, ClientProgress { progress: number("progress")?, total: number("total"), message }))
}

fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
