//! An HTTP client that sends the stored token, refreshes it, and asks the user for the scopes that a call needs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        auth::{AuthClient, AuthError, AuthorizationManager, AuthorizationSession, OAuthClientConfig},
        streamable_http_client::{
            InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;
use tokio::sync::{Mutex, watch};

use super::{
    browser::Callback,
    http::manager,
    login::{authorization_failure, check_issuer, discover, finish},
    store::TokenStore,
};
use crate::{
    failure::Failure,
    http_client::http_client,
    output::{errln, escape_line},
};

/// How often a call may ask for more scopes. A server that is never satisfied must not ask forever.
const MAX_STEPS: usize = 3;

/// The time for the user to grant more scopes.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);

type Error = StreamableHttpError<reqwest::Error>;

/// A client with the user's tokens.
#[derive(Clone)]
pub(crate) struct AuthorizedClient {
    inner: AuthClient<reqwest::Client>,
    store: TokenStore,
    /// Held while the user is asked, so that concurrent calls ask once.
    asking: Arc<Mutex<()>>,
    /// The number of times that the user has granted scopes.
    grants: Arc<watch::Sender<u64>>,
}

/// Returns a client with the stored tokens for a server, or `None` if the user has not logged in.
///
/// # Errors
///
/// Fails if the tokens cannot be read or the authorization server cannot be reached.
pub(crate) async fn authorized_client(url: &str) -> Result<Option<AuthorizedClient>, Failure> {
    let Some((manager, store)) = stored(url).await? else { return Ok(None) };
    let client = http_client().map_err(Failure::connection)?;
    let (inner, (asking, grants)) = (AuthClient::new(client, manager), Default::default());
    Ok(Some(AuthorizedClient { inner, store, asking, grants }))
}

/// Returns a valid access token for a server, or `None` if the user has not logged in.
///
/// # Errors
///
/// Fails if the tokens cannot be read, or have expired and cannot be refreshed.
pub(crate) async fn access_token(url: &str) -> Result<Option<String>, Failure> {
    let Some((manager, _)) = stored(url).await? else { return Ok(None) };
    let token = manager.get_access_token().await;
    token.map(Some).map_err(|error| expired(url, &error))
}

async fn stored(url: &str) -> Result<Option<(AuthorizationManager, TokenStore)>, Failure> {
    let store = TokenStore::of(url)?;
    let failed = |error: AuthError| expired(url, &error);
    let stored = store.get().map_err(|error| failed(AuthError::CredentialStoreError(error.to_string())))?;
    let Some(stored) = stored else { return Ok(None) };
    let mut manager = manager(url, store.clone()).await.map_err(failed)?;
    let metadata = discover(&mut manager, None).await.map_err(failed)?;
    check_issuer(stored.issuer, metadata.issuer).map_err(failed)?;
    Ok(manager.initialize_from_store().await.map_err(failed)?.then_some((manager, store)))
}

fn expired(url: &str, error: &AuthError) -> Failure {
    authorization_failure(url, error).help(format_args!("log in again: `cargo mcp login {url}`"))
}

impl AuthorizedClient {
    /// Sends a request, and once more after each grant of further scopes.
    async fn with_scopes<T, F>(&self, send: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for _ in 0..MAX_STEPS {
            let grants = *self.grants.borrow();
            match send().await {
                Err(StreamableHttpError::InsufficientScope(error)) => self.step_up(error, grants).await?,
                result => return result,
            }
        }
        send().await
    }

    /// Asks the user for the scopes of a challenge, in addition to the granted scopes, unless another call has asked for
    /// them since there were `before` grants.
    async fn step_up(&self, error: InsufficientScopeError, before: u64) -> Result<(), Error> {
        let Some(required) = error.required_scope.clone() else {
            return Err(StreamableHttpError::InsufficientScope(error));
        };
        let _asking = self.asking.lock().await;
        let Some(stored) = self.store.get()? else { return Err(StreamableHttpError::InsufficientScope(error)) };
        let mut scopes = stored.granted_scopes;
        let is_missing = |scope: &&str| !scopes.iter().any(|granted| granted == scope);
        let missing: Vec<_> = required.split_whitespace().filter(is_missing).map(str::to_owned).collect();
        if missing.is_empty() && *self.grants.borrow() > before {
            return Ok(());
        }
        scopes.extend(missing);
        errln!("the server requires the scope `{}`", escape_line(&required));
        let callback = Callback::listen(0).await?;
        let mut manager = manager(&self.store.url, self.store.clone()).await?;
        let metadata = discover(&mut manager, Some(&error.www_authenticate_header)).await?;
        check_issuer(stored.issuer, metadata.issuer.clone())?;
        manager.configure_client(
            OAuthClientConfig::new(stored.client_id, &*callback.redirect_uri).with_scopes(scopes.clone()),
        )?;
        let request = manager.get_authorization_url(&scopes.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        let session = AuthorizationSession::for_scope_upgrade(manager, request.clone(), &callback.redirect_uri);
        let redirected = callback.authorize(&request, STEP_TIMEOUT).await?;
        finish(&session, metadata, &redirected).await?;
        self.grants.send_modify(|grants| *grants += 1);
        Ok(())
    }
}

impl StreamableHttpClient for AuthorizedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.with_scopes(|| {
            let (uri, session_id, token) = (uri.clone(), session_id.clone(), token.clone());
            let (message, headers) = (message.clone(), headers.clone());
            self.inner.post_message(uri, message, session_id, token, headers)
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.inner.delete_session(uri, session_id, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        self.inner.get_stream(uri, session_id, last_event_id, token, headers).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rmcp::transport::auth::{CredentialStore as _, StoredCredentials};

    use super::*;

    /// Another call may have asked for the scopes of this one while this one waited.
    #[tokio::test]
    async fn the_user_is_not_asked_for_scopes_that_were_granted_meanwhile() {
        // No server listens here, so that asking fails.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = &*format!("http://{address}/mcp");
        for (granted, is_asked_meanwhile, refusals, expected_sent, is_sent) in [
            (&["a", "b"][..], true, 1, 2, true),
            (&["a", "b"], true, 2, 2, false),
            (&["a", "b"], false, 1, 1, false),
            (&["a"], true, 1, 1, false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let store = TokenStore::in_directory(directory.path().to_owned(), url);
            let scopes = granted.iter().copied().map(str::to_owned).collect();
            let credentials = StoredCredentials::new("client".into(), None, scopes, None);
            store.save(credentials.with_issuer(Some("https://id.example.com".into()))).await.unwrap();
            let inner = AuthClient::new(http_client().unwrap(), manager(url, store.clone()).await.unwrap());
            let client = AuthorizedClient { inner, store, asking: Arc::default(), grants: Arc::default() };
            let sent = Cell::new(0);
            let send = || {
                if is_asked_meanwhile && sent.get() == 0 {
                    client.grants.send_modify(|grants| *grants += 1);
                }
                sent.set(sent.get() + 1);
                let error = InsufficientScopeError::new("Bearer".to_owned(), Some("b".to_owned()));
                std::future::ready(if sent.get() > refusals {
                    Ok(())
                } else {
                    Err(StreamableHttpError::InsufficientScope(error))
                })
            };
            assert_eq!(client.with_scopes(send).await.is_ok(), is_sent, "{granted:?} {refusals}");
            assert_eq!(sent.get(), expected_sent, "{granted:?} {refusals}");
        }
    }
}
