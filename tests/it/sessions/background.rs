//! Requests to the client from code that outlives its call.

use mcp_runtime::{BuiltServer, Handle};
use tokio::sync::mpsc;

use super::*;

/// Receives what code in the background observes.
#[derive(Debug, Clone)]
pub(crate) struct Outcomes(mpsc::UnboundedSender<Result<String, String>>);

/// Ask for the roots after the call has ended.
#[tool]
fn asks_later(ctx: &Context, outcomes: &Outcomes) -> Result<&'static str, Fault> {
    let (session, Outcomes(outcomes)) = (ctx.session()?, outcomes.clone());
    tokio::spawn(async move {
        let outcome = session.roots().await.map(|roots| roots[0].uri.clone());
        // The test may have ended.
        let _ = outcomes.send(outcome.map_err(|fault| fault.to_string()));
    });
    Ok("later")
}

/// Ping every client.
#[tool]
async fn pings_everybody(handle: &Handle) -> String {
    let mut responsive = 0;
    for session in handle.sessions() {
        responsive += usize::from(session.ping().await.is_ok());
    }
    format!("{responsive} responsive")
}

/// Returns a server, and what its code in the background observes.
pub(crate) fn background_server() -> (Server, mpsc::UnboundedReceiver<Result<String, String>>) {
    let (sender, outcomes) = mpsc::unbounded_channel();
    (asking_later(server().with::<pings_everybody>(), sender), outcomes)
}

/// Adds a function that asks for the roots after its call has ended, and sends the outcome.
pub(crate) fn asking_later(server: Server, outcomes: mpsc::UnboundedSender<Result<String, String>>) -> Server {
    server.with::<asks_later>().with_state(Outcomes(outcomes))
}

#[tokio::test]
async fn a_session_outlives_the_call() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let (server, mut outcomes) = background_server();
        let mut client = Client::open(server, revision, &json!({"roots": {}}));
        client.notify("notifications/initialized");
        client.call(1, "asks_later");
        assert_eq!(client.text(1).await, "later", "{revision}");
        let question = client.request("roots/list").await;
        client.respond(&question, &json!({"roots": [{"uri": "file:///a"}]}));
        assert_eq!(outcomes.recv().await, Some(Ok("file:///a".to_owned())), "{revision}");
    }
}

#[tokio::test]
async fn questions_outside_of_calls_wait_until_the_client_is_initialized() {
    let (server, mut outcomes) = background_server();
    let mut client =
        Client::open(server.ask_timeout(Duration::from_millis(5)), Revision::V2025_11_25, &json!({"roots": {}}));
    client.call(1, "asks_later");
    assert_eq!(client.text(1).await, "later");
    let error = outcomes.recv().await.unwrap().unwrap_err();
    assert!(error.contains("has not sent `notifications/initialized` within 5ms"), "{error}");
}

#[tokio::test]
async fn questions_outside_of_calls_need_the_capability() {
    let (server, mut outcomes) = background_server();
    let mut client = Client::open(server, Revision::V2025_06_18, &json!({}));
    client.notify("notifications/initialized");
    client.call(1, "asks_later");
    let error = outcomes.recv().await.unwrap().unwrap_err();
    assert_eq!(error, "the client has not declared the capability `roots`");
}

#[tokio::test]
async fn questions_fail_when_their_session_ends() {
    let (server, mut outcomes) = background_server();
    let mut client = Client::open(server, Revision::V2025_11_25, &json!({"roots": {}}));
    client.notify("notifications/initialized");
    client.call(1, "asks_later");
    assert_eq!(client.text(1).await, "later");
    client.request("roots/list").await;
    drop(client);
    assert_eq!(outcomes.recv().await, Some(Err("the session ended before the client answered".to_owned())));
}

#[tokio::test]
async fn stateless_revisions_have_no_session() {
    let (server, _outcomes) = background_server();
    let mut client = server.test_client(Revision::V2026_07_28);
    let error = client.call("asks_later", ()).await.unwrap_err();
    assert!(error.message.starts_with("protocol version 2026-07-28 has no sessions"), "{error}");
}

#[tokio::test]
async fn a_handle_lists_the_open_sessions() {
    let built: BuiltServer = background_server().0.build().unwrap();
    let handle = built.handle();
    assert!(handle.sessions().is_empty());
    let (first, second) = (built.test_client(Revision::V2024_11_05), built.test_client(Revision::V2025_11_25));
    let stateless = built.test_client(Revision::V2026_07_28);
    let sessions = handle.sessions();
    let revisions: Vec<_> = sessions.iter().map(|session| session.revision()).collect();
    assert_eq!(revisions, [Revision::V2024_11_05, Revision::V2025_11_25]);
    assert_eq!(sessions[0].client().unwrap().name, "test-client");
    for session in &sessions {
        assert!(session.is_reachable().await && !session.has_ended());
    }
    let mut ended = std::pin::pin!(sessions[0].ended());
    assert!(tokio::time::timeout(Duration::ZERO, &mut ended).await.is_err(), "it is open");
    drop((first, stateless));
    ended.await;
    assert!(sessions[0].has_ended() && !sessions[0].is_reachable().await);
    assert_eq!(sessions[0].ping().await.unwrap_err().to_string(), "the session has ended");
    assert_eq!(handle.sessions().len(), 1);
    drop(second);
    assert!(handle.sessions().is_empty());
}

#[tokio::test]
async fn a_client_is_reachable_once_it_is_initialized() {
    let server = server();
    let handle = server.handle();
    let mut client = Client::open(server, Revision::V2025_11_25, &json!({}));
    for is_initialized in [false, true] {
        assert_eq!(handle.sessions()[0].is_reachable().await, is_initialized);
        client.notify("notifications/initialized");
    }
}

#[tokio::test]
async fn a_handle_pings_sessions() {
    let (server, _outcomes) = background_server();
    let mut client = Client::open(server, Revision::V2025_03_26, &json!({}));
    client.call(1, "pings_everybody");
    let ping = client.request("ping").await;
    client.respond(&ping, &json!({}));
    assert_eq!(client.text(1).await, "1 responsive");
}
