//! The HTTP client, which reads lists of tools before `rmcp` drops a part of them.

use std::{collections::HashMap, io, sync::Arc};

use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{HeaderName, HeaderValue, header::ACCEPT};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage},
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
        },
    },
};
use sse_stream::SseStream;

use crate::{tasks::keep_execution, transport::Listener};

type Headers = HashMap<HeaderName, HeaderValue>;
type Error = StreamableHttpError<reqwest::Error>;
type Result<T> = std::result::Result<T, Error>;

/// Removes the URL from an error, since `rmcp` logs errors, and the query of a URL may be secret.
fn without_url(error: Error) -> Error {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        other => other,
    }
}

#[derive(Clone)]
pub(crate) struct HttpClient {
    pub(crate) client: reqwest::Client,
    /// Notified of streams of announcements. `None` for a connection of a single caller.
    pub(crate) listener: Option<Arc<dyn Listener>>,
}

impl HttpClient {
    /// Sends a request for a list of tools. Returns `None` if it is rejected, or its response is invalid.
    async fn list(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session_id: Option<&str>,
        headers: Headers,
        limits: &StreamableHttpResponseLimits,
    ) -> Option<StreamableHttpPostResponse> {
        let mut request = self.client.post(uri).header(ACCEPT, "text/event-stream, application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(id) = session_id {
            request = request.header("mcp-session-id", id);
        }
        let response = request.json(message).send().await.ok()?.error_for_status().ok()?;
        let content_type = response.headers().get(http::header::CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
        let is_stream = content_type.starts_with("text/event-stream");
        let mut left = if is_stream { limits.max_sse_event_size } else { limits.max_json_response_size };
        let mut body = response.bytes_stream().map(move |chunk| -> io::Result<_> {
            let chunk = chunk.map_err(io::Error::other)?;
            left = left.checked_sub(chunk.len()).ok_or_else(|| io::Error::other("the list is too long"))?;
            Ok(chunk)
        });
        if is_stream {
            let events = SseStream::from_bytes_stream(body).map_ok(|mut event| {
                event.data = event.data.map(|data| keep_execution(&data).into_owned());
                event
            });
            return Some(StreamableHttpPostResponse::Sse(events.boxed(), None));
        }
        let mut text = Vec::new();
        while let Some(chunk) = body.next().await {
            text.extend_from_slice(&chunk.ok()?);
        }
        let message = serde_json::from_str(&keep_execution(str::from_utf8(&text).ok()?)).ok()?;
        Some(StreamableHttpPostResponse::Json(message, None))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse> {
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::ListToolsRequest(_))
            && let Some(listed) = self.list(&uri, &message, session_id.as_deref(), headers.clone(), &limits).await
        {
            return Ok(listed);
        }
        // The errors are those of `rmcp`.
        let posted =
            self.client.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await;
        posted.map_err(without_url)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<()> {
        self.client.delete_session(uri, session_id, auth_header, headers).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse> {
        let max = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, max).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<BoxedSseResponse> {
        let is_resumed = last_event_id.is_some();
        let stream = self
            .client
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, max)
            .await
            .map_err(without_url)?;
        if let Some(listener) = self.listener.as_ref().filter(|_| !is_resumed) {
            listener.stream_opened();
        }
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use rmcp::model::{PaginatedRequestParams, RequestId, RequestOptionalParam};

    use super::*;
    use crate::upstream::http_client;

    /// Serves the same response to every request.
    fn serve(response: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(io::Result::ok) {
                let response = response.clone();
                thread::spawn(move || {
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(response.as_bytes());
                    // Until the client closes the connection.
                    let _ = stream.read_to_end(&mut Vec::new());
                });
            }
        });
        url
    }

    /// The body may look like the response to the request.
    #[tokio::test]
    async fn the_status_of_a_list_that_is_refused_is_reported() {
        let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}"#;
        for (status, expected) in
            [("401 Unauthorized", "HTTP 401"), ("403 Forbidden", "HTTP 403"), ("404 Not Found", "SessionExpired")]
        {
            let url = serve(format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            ));
            let list = RequestOptionalParam::with_param(PaginatedRequestParams::default());
            let request = ClientJsonRpcMessage::request(ClientRequest::ListToolsRequest(list), RequestId::Number(1));
            let client = HttpClient { client: http_client().unwrap(), listener: None };
            let session = Some(Arc::from("session"));
            let posted = client.post_message(Arc::from(url), request, session, None, HashMap::new()).await;
            let error = posted.unwrap_err();
            assert!(format!("{error:?}").contains(expected), "{status}: {error:?}");
        }
    }

    /// `rmcp` logs the error.
    #[tokio::test]
    async fn errors_do_not_name_the_url() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url: Arc<str> = format!("http://{free}/mcp?key=secret").into();
        let client = HttpClient { client: http_client().unwrap(), listener: None };
        let request = ClientRequest::PingRequest(rmcp::model::PingRequest::default());
        let request = ClientJsonRpcMessage::request(request, RequestId::Number(1));
        let (session, headers) = (Arc::<str>::from("session"), HashMap::new);
        for error in [
            client.post_message(Arc::clone(&url), request, None, None, headers()).await.unwrap_err(),
            client.get_stream(Arc::clone(&url), None, None, None, headers()).await.err().unwrap(),
            client.delete_session(url, session, None, headers()).await.unwrap_err(),
        ] {
            assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        }
    }
}
