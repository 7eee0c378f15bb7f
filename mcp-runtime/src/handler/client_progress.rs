/// Progress that the client reports about a request of the server.
///
/// ```
/// use mcp_runtime::{
///     Context, Fault,
///     ask::{Ask, SampleRequest, SampleResult},
/// };
///
/// # #[allow(dead_code)]
/// async fn ask(ctx: &Context) -> Result<SampleResult, Fault> {
///     let request = SampleRequest::new("Write a poem.").on_progress(|progress| {
///         tracing::debug!(done = progress.progress, total = progress.total, "the model is writing");
///     });
///     ctx.ask(request).await
/// }
/// ```
///
/// See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(not(feature = "ask"), allow(unreachable_pub, reason = "only questions report progress"))]
#[non_exhaustive]
pub struct ClientProgress {
    /// The progress so far. It increases with each report.
    pub progress: f64,
    /// The progress at which the request is complete, if known.
    pub total: Option<f64>,
    /// A message for the user, truncated to 1024 bytes.
    pub message: Option<String>,
}
