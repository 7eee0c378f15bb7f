//! The browser of the user, and the loopback address to which the authorization server redirects it.
//!
//! See [RFC 8252, section 7.3](https://www.rfc-editor.org/rfc/rfc8252#section-7.3).

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, Uri},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, sync::oneshot};
use url::Url;

use crate::output::{errln, escape_line};

/// The path to which the browser is redirected.
const PATH: &str = "/callback";

/// The time to send the browser its page.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A listener on the loopback interface that waits for the browser.
#[derive(Debug)]
pub(crate) struct Callback {
    listener: TcpListener,
    /// The URI to which the authorization server redirects the browser.
    pub(super) redirect_uri: String,
}

/// The redirection that is expected.
struct Expected {
    /// The `state` of the authorization request.
    state: String,
    /// Receives the redirection, once.
    redirected: Mutex<Option<oneshot::Sender<Uri>>>,
}

impl Callback {
    /// Listens on a port; 0 chooses a free one.
    ///
    /// # Errors
    ///
    /// Fails if the port is in use.
    pub(crate) async fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let redirect_uri = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, redirect_uri })
    }

    /// Shows an authorization request to the user, and returns the URL to which the browser is redirected.
    ///
    /// # Errors
    ///
    /// Fails if the user does not log in in time.
    pub(crate) async fn authorize(self, request: &str, limit: Duration) -> io::Result<Url> {
        let state = parameter(request, "state").unwrap_or_default();
        errln!("log in with your browser at:\n  {}", escape_line(request));
        open(request);
        self.wait(state, limit).await
    }

    /// Waits for the redirection with this `state`. Other requests are rejected and do not end the wait.
    async fn wait(self, state: String, limit: Duration) -> io::Result<Url> {
        let (sender, receiver) = oneshot::channel();
        let expected = Arc::new(Expected { state, redirected: Mutex::new(Some(sender)) });
        let app = Router::new().route(PATH, get(receive)).with_state(expected);
        let (stop, stopped) = oneshot::channel::<()>();
        let server = axum::serve(self.listener, app).with_graceful_shutdown(async { drop(stopped.await) });
        let server = tokio::spawn(server.into_future());
        let redirected = tokio::time::timeout(limit, receiver).await;
        drop(stop);
        let _ = tokio::time::timeout(RESPONSE_TIMEOUT, server).await;
        let Ok(Ok(uri)) = redirected else {
            let message = format!("no login within {} s", limit.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        };
        let base = Url::parse(&self.redirect_uri).map_err(io::Error::other)?;
        base.join(&uri.to_string()).map_err(io::Error::other)
    }
}

/// Responds to a browser.
async fn receive(State(expected): State<Arc<Expected>>, uri: Uri) -> Response {
    let url = format!("http://localhost{uri}");
    let mut redirected = expected.redirected.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = (parameter(&url, "state").as_ref() == Some(&expected.state)).then(|| redirected.take()).flatten();
    let Some(sender) = sender else {
        return (StatusCode::NOT_FOUND, page("This page belongs to no login that is in progress.")).into_response();
    };
    let _ = sender.send(uri);
    let text = match parameter(&url, "code") {
        Some(_) => "You are logged in. You can close this page.",
        None => "You are not logged in. The terminal shows the reason. You can close this page.",
    };
    ([("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer")], page(text)).into_response()
}

fn page(text: &str) -> Html<String> {
    Html(format!("<!doctype html><title>cargo mcp</title><p>{text}</p>\n"))
}

/// Returns a parameter of a URL's query.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Opens a page with the program that the variable `BROWSER` names, otherwise with the default browser.
pub(crate) fn open(url: &str) {
    let opened = match std::env::var("BROWSER") {
        Ok(program) if !program.is_empty() => open::with_detached(url, program),
        _ => open::that_detached(url),
    };
    if opened.is_err() {
        errln!("no browser could be started: open the page yourself, on this machine");
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, time::Duration};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::Callback;

    /// Sends a request and returns the response.
    async fn get(address: SocketAddr, target: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn only_the_redirection_of_this_login_ends_the_wait() {
        let callback = Callback::listen(0).await.unwrap();
        let address = callback.listener.local_addr().unwrap();
        let client = async {
            for (target, expected) in [
                ("/favicon.ico", "HTTP/1.1 404 Not Found"),
                ("/callback?code=stolen&state=other", "HTTP/1.1 404 Not Found"),
                ("/callback?code=stolen", "HTTP/1.1 404 Not Found"),
                ("/callback?code=mine&state=this", "HTTP/1.1 200 OK"),
            ] {
                let response = get(address, target).await;
                assert_eq!(response.lines().next(), Some(expected), "{target}");
                if target.ends_with("state=this") {
                    // The URL contains a code.
                    for header in ["cache-control: no-store\r\n", "referrer-policy: no-referrer\r\n"] {
                        assert!(response.contains(header), "{response}");
                    }
                    assert!(response.contains("You are logged in."), "{response}");
                }
            }
        };
        let wait = callback.wait("this".to_owned(), Duration::from_secs(60));
        let ((), url) = tokio::join!(client, wait);
        assert_eq!(url.unwrap().query(), Some("code=mine&state=this"));
    }

    #[tokio::test]
    async fn a_denial_does_not_log_in() {
        let callback = Callback::listen(0).await.unwrap();
        let client = get(callback.listener.local_addr().unwrap(), "/callback?error=access_denied&state=this");
        let wait = callback.wait("this".to_owned(), Duration::from_secs(60));
        let (response, url) = tokio::join!(client, wait);
        assert!(response.contains("You are not logged in."), "{response}");
        assert_eq!(url.unwrap().query(), Some("error=access_denied&state=this"));
    }

    #[tokio::test]
    async fn the_wait_is_bounded() {
        let callback = Callback::listen(0).await.unwrap();
        let error = callback.wait("this".to_owned(), Duration::ZERO).await.unwrap_err();
        assert_eq!(error.to_string(), "no login within 0 s");
    }
}
