//! Checks authorization with rmcp's client.
//!
//! ```text
//! authorize '{"url": …, "user": …, "clients": …}'
//! ```
//!
//! `user` opens authorization requests in a browser. `clients` is the base of the URLs of clients with a metadata document, or empty if
//! no client has one.

#![allow(clippy::print_stdout, reason = "clients report what they have checked")]

use std::error::Error;

use rmcp::{
    RoleClient, ServiceError,
    model::{CallToolRequestParams, ClientConfig, Implementation},
    service::{RunningService, ServiceExt},
    transport::{
        AuthClient, StreamableHttpClientTransport,
        auth::{AuthorizationCallback, AuthorizationRequest, OAuthState},
        streamable_http_client::{InsufficientScopeError, StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::{Value, json};

/// Nothing listens there, since the user passes the redirection on.
const REDIRECT: &str = "http://127.0.0.1:65000/callback";

type Failure = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let target: Value = serde_json::from_str(&std::env::args().nth(1).ok_or("usage: authorize TARGET")?)?;
    let text = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
    let kinds: &[bool] = if text("clients").is_empty() { &[false] } else { &[false, true] };
    for &has_document in kinds {
        let redirect = url::form_urlencoded::byte_serialize(REDIRECT.as_bytes()).collect::<String>();
        let document = has_document.then(|| format!("{}client?redirect={redirect}", text("clients")));
        check(&text("url"), &text("user"), document).await?;
        let way = if has_document { "metadata document" } else { "dynamic registration" };
        println!("rmcp 3.9.0: {way}: authorized, stepped up");
    }
    Ok(())
}

async fn check(url: &str, user: &str, document: Option<String>) -> Result<(), Failure> {
    let challenge = challenge(url).await?;
    let mut request = AuthorizationRequest::new(REDIRECT)
        .with_client_name("An rmcp client")
        .with_initial_scope_selection()
        .with_challenge(challenge);
    if let Some(document) = document {
        request = request.with_client_metadata_url(document);
    }
    let mut state = OAuthState::new(url, None).await?;
    state.start_authorization(request).await?;
    let redirected = open(user, &state.get_authorization_url().await?).await?;
    state.handle_callback_url(&redirected).await?;
    let manager = state.into_authorization_manager().ok_or("not authorized")?;
    let granted = manager.get_current_scopes().await;
    expect(granted.contains(&"notes:read".to_owned()) && !granted.contains(&"notes:write".to_owned()), &granted)?;

    let client = AuthClient::new(reqwest::Client::new(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
    let info = ClientConfig::new(Default::default(), Implementation::new("auth", "1.0.0"));
    let service = info.serve(transport).await?;
    call(&service, "list_notes", json!({})).await?;

    let refused = call(&service, "add_note", json!({ "text": "from rmcp" })).await.err().ok_or("not refused")?;
    let missing = insufficient_scope(&refused).ok_or_else(|| format!("another error: {refused:?}"))?;
    let scope = missing.required_scope.clone().ok_or("the challenge names no scope")?;
    let manager = client.auth_manager.lock().await;
    let redirected = open(user, &manager.request_scope_upgrade(&scope).await?).await?;
    let response = AuthorizationCallback::from_redirect_url(&redirected)?;
    let issuer = response.issuer.as_deref();
    manager.exchange_code_for_token_with_issuer(&response.code, &response.csrf_token, issuer).await?;
    drop(manager);

    call(&service, "add_note", json!({ "text": "from rmcp" })).await?;
    let notes = call(&service, "list_notes", json!({})).await?;
    expect(notes.contains("from rmcp"), &notes)?;
    service.cancel().await?;
    Ok(())
}

/// Returns the challenge for a client without a token.
async fn challenge(url: &str) -> Result<String, Failure> {
    let transport = StreamableHttpClientTransport::from_uri(url);
    let info = ClientConfig::new(Default::default(), Implementation::new("auth", "1.0.0"));
    let error = info.serve(transport).await.err().ok_or("accepted without a token")?;
    Ok(error.auth_challenge().ok_or_else(|| format!("no challenge: {error}"))?.to_owned())
}

/// Opens a page as the user. Returns the URL to which the browser is redirected.
async fn open(user: &str, url: &str) -> Result<String, Failure> {
    let response = reqwest::Client::new().post(user).body(url.to_owned()).send().await?;
    Ok(response.error_for_status()?.text().await?)
}

async fn call(
    service: &RunningService<RoleClient, ClientConfig>,
    name: &'static str,
    arguments: Value,
) -> Result<String, ServiceError> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let result = service.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await?;
    Ok(serde_json::to_string(&result).unwrap_or_default())
}

/// Returns the challenge for more scopes among the causes of an error.
fn insufficient_scope(error: &ServiceError) -> Option<&InsufficientScopeError> {
    let ServiceError::TransportSend(error) = error else { return None };
    match error.error.downcast_ref()? {
        StreamableHttpError::<reqwest::Error>::InsufficientScope(missing) => Some(missing),
        _ => None,
    }
}

fn expect(holds: bool, found: &impl std::fmt::Debug) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(format!("unexpected: {found:?}").into()) }
}
