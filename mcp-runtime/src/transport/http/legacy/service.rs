use std::{convert::Infallible, sync::Arc, task, time::Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode, request::Parts};
use http_body::Body;
use hyper::body::Incoming;
use tower_service::Service;

use super::clients::{Client, LegacySessions};
use crate::{
    engine::Connection,
    transport::http::{
        authorization::admit,
        endpoint::Endpoint,
        guard,
        peers::Remote,
        request_body::{self, linger},
        response::{self, HttpResponse},
        routing,
        service::ResponseFuture,
        session::new_id,
        sse::{
            body::{CancelOnDrop, SseBody, StreamConfig},
            events::StreamEvents,
            stream::EventStream,
        },
    },
};

const STREAM: &str = "/sse";
const MESSAGES: &str = "/message";

/// A service for both paths, without CORS.
#[derive(Debug, Clone)]
pub(in crate::transport::http) struct LegacyService {
    endpoint: Endpoint,
    sessions: LegacySessions,
}

impl LegacyService {
    pub(in crate::transport::http) fn new(endpoint: Endpoint, sessions: LegacySessions) -> Self {
        Self { endpoint, sessions }
    }

    /// Attributes subsequent requests to this sender.
    pub(in crate::transport::http) fn set_remote(&mut self, remote: Remote) {
        self.endpoint = self.endpoint.for_remote(remote);
    }

    /// Returns whether this service is responsible for a path.
    pub(in crate::transport::http) fn serves(path: &str) -> bool {
        matches!(path, STREAM | MESSAGES)
    }

    async fn handle<B>(self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if let Err(rejection) = guard::check(&parts, self.endpoint.options()) {
            return *rejection;
        }
        let (parts, body, response_headers) = match admit(&self.endpoint, parts, body, Instant::now()).await {
            Ok(admitted) => admitted.split(),
            Err(rejection) => return *rejection,
        };
        let response = match (parts.uri.path(), &parts.method) {
            (STREAM, &Method::GET) => self.open(&parts),
            (STREAM, _) => response::method_not_allowed("GET"),
            (_, &Method::POST) => self.receive(parts, body).await,
            _ => response::method_not_allowed("POST"),
        };
        response_headers.add_to(response)
    }

    /// Opens a client's event stream, which starts with the URL for its messages.
    fn open(&self, request: &Parts) -> HttpResponse {
        let Some(id) = new_id() else { return response::overloaded("no session id could be generated") };
        let sessions = self.endpoint.sessions();
        let Some(permit) = sessions.reserve(&self.endpoint.peer_of(request)) else {
            return response::overloaded("too many sessions");
        };
        let memory = sessions.memory().of_peer(permit.peer());
        let connection = Connection::new(Arc::clone(self.endpoint.engine()));
        let stream = Arc::new(EventStream::new(0, Arc::clone(connection.outbox()), false, &memory));
        let cancels = CancelOnDrop(connection.in_flight_table());
        let client = Arc::new(Client::new(&self.endpoint, request, connection, permit));
        let remove = self.sessions.insert(Arc::clone(&id), Arc::clone(&client));
        let config = StreamConfig { named: true, ..self.endpoint.stream_config() };
        let preamble = Bytes::from(format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        let body = SseBody::new(StreamEvents::local(stream.attach(), 0), config, self.endpoint.shutdown());
        let body = body.until(self.endpoint.stream_deadline(request));
        response::events(body.cancelling(Some(cancels)).preamble(preamble).draining(client).guarded_by(remove))
    }

    /// Receives a message. Its response is sent on the client's stream.
    async fn receive<B>(&self, request: Parts, body: B) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let client = match self.find(&request) {
            Ok(client) => client,
            Err(rejection) => {
                linger(&request, Box::pin(body), self.endpoint.options().max_body_bytes);
                return *rejection;
            }
        };
        // The stream may have been opened at another endpoint.
        let endpoint = client.endpoint().for_connection(&self.endpoint);
        let source = endpoint.request_source(request);
        let mut body = match request_body::read(&endpoint, &source, body, Instant::now()).await {
            Ok(body) => body,
            Err(rejection) => return *rejection,
        };
        source.keep_memory(body.take_memory());
        client.receive(source, body.bytes()).await
    }

    /// Finds the client that sends a message, and checks the headers before the body is read.
    fn find(&self, request: &Parts) -> Result<Arc<Client>, Box<HttpResponse>> {
        let client = self.sessions.get(session_id(request)).filter(|client| client.is_sender_of(request));
        let client = client.ok_or_else(|| Box::new(self.session_not_found()))?;
        routing::check_content(request)?;
        client.check_unread()?;
        Ok(client)
    }

    /// Returns the response to a message of a session without a stream in this process.
    fn session_not_found(&self) -> HttpResponse {
        if self.endpoint.engine().replica().is_none() {
            return routing::session_not_found();
        }
        let why = "session not found or expired. Sessions of this transport exist in one process only: if there are several \
                   behind a load balancer, it must send all requests of a client to the same one (sticky routing)";
        response::invalid_request(StatusCode::NOT_FOUND, why)
    }
}

/// Returns the id of the session that a request names, or an empty text.
fn session_id(request: &Parts) -> &str {
    let query = request.uri.query().unwrap_or_default();
    query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default()
}

impl Service<Request<Incoming>> for LegacyService {
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> ResponseFuture {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;
    use crate::{Server, transport::http::options::HttpOptions};

    const PRINCIPALS: [Option<&str>; 4] = [None, Some(""), Some("ada"), Some("eve")];

    fn request(method: Method, uri: &str, principal: Option<&str>, body: &'static str) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri(uri).header("host", "localhost");
        let mut request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        if let Some(name) = principal {
            request.extensions_mut().insert(crate::Principal::new(name));
        }
        request
    }

    /// To any other sender than the principal that opened the stream, its session does not exist.
    #[test]
    fn messages_are_accepted_only_from_the_principal_that_opened_the_stream() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_senders());
    }

    async fn check_senders() {
        let built = Server::empty("legacy", "1.0.0").build().unwrap();
        for opener in PRINCIPALS {
            let endpoint = Endpoint::new(Arc::clone(built.engine()), None, HttpOptions::default());
            let service = LegacyService::new(endpoint, LegacySessions::default());
            let mut stream = service.clone().handle(request(Method::GET, STREAM, opener, "")).await.into_body();
            let event = stream.frame().await.unwrap().unwrap().into_data().unwrap();
            let path = std::str::from_utf8(&event).unwrap().lines().find_map(|line| line.strip_prefix("data: "));
            for sender in PRINCIPALS {
                for (kind, body) in [
                    ("a request", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
                    (
                        "a cancellation",
                        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
                    ),
                    ("an answer", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
                    ("not JSON", "{"),
                ] {
                    let post = |path| service.clone().handle(request(Method::POST, path, sender, body));
                    let response = post(path.unwrap()).await;
                    if sender == opener {
                        assert_eq!(response.status(), StatusCode::ACCEPTED, "{kind} of {sender:?}");
                        continue;
                    }
                    let unknown = post("/message?sessionId=AAAA").await;
                    assert_eq!(response.status(), StatusCode::NOT_FOUND, "{kind} of {sender:?} to {opener:?}");
                    assert_eq!(response.headers(), unknown.headers());
                    let (body, unknown) = (response.into_body().collect().await, unknown.into_body().collect().await);
                    assert_eq!(body.unwrap().to_bytes(), unknown.unwrap().to_bytes());
                }
            }
        }
    }
}
