//! The authorization server with an identity provider on the loopback interface.

mod assertions;
mod attacks;
mod audit;
mod clients;
mod consent;
mod dpop;
mod flow;
mod identity_assertions;
mod logout;
mod operations;
mod provider;
mod pushed;
pub(crate) mod records;
mod refresh;
mod store;
mod tokens;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response};
use mcp_runtime::auth::{Authenticator as _, AuthorizationRoutes, PeerAddr};
use serde_json::{Value, json};
use tokio::sync::Notify;

use self::records::TestRecords;
use super::{RESOURCE, Signer, TestIssuer, issuer::Reply, signer::now};
use crate::{
    AuthorizationServer, AuthorizationServerBuilder, ClientCredentials, ConfiguredClient, Upstream, clock::Clock,
};

pub(super) const ISSUER: &str = "https://mcp.example.com";
pub(super) const REDIRECT: &str = "https://app.example/callback";
pub(super) const VERIFIER: &str = "a-verifier-with-at-least-forty-three-characters";

pub(super) const JSON: (&str, &str) = ("content-type", "application/json");

/// The next action of the provider.
#[derive(Clone)]
struct Provider {
    signer: Arc<Signer>,
    subject: String,
    nonce: String,
    /// Replaces the response of the token endpoint.
    token: Option<(u16, Value)>,
    hangs: bool,
    /// Delays the response of the token endpoint.
    held: Option<Arc<Notify>>,
    claims: Value,
    /// The response of the user endpoint.
    user: Value,
    has_refresh_tokens: bool,
    /// Whether servers that are started from now on find a user endpoint.
    has_users: bool,
    /// Whether servers that are started from now on use discovery and identity tokens.
    is_openid: bool,
    /// The claim that identifies users at servers that are started from now on.
    subject_claim: &'static str,
    /// The scopes of the provider that `notes:read` needs.
    read_scopes: &'static [&'static str],
    id_token_type: &'static str,
}

/// An authorization server with its provider.
pub(crate) struct World {
    pub(crate) server: AuthorizationServer,
    routes: Arc<dyn AuthorizationRoutes>,
    pub(super) issuer: TestIssuer,
    provider: Arc<Mutex<Provider>>,
    pub(super) clock: Clock,
    pub(super) records: Arc<TestRecords>,
}

/// The cookies of a user.
#[derive(Debug, Default, Clone)]
pub(super) struct Browser(BTreeMap<String, String>);

/// A response of the server.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) status: u16,
    pub(super) headers: http::HeaderMap,
    pub(super) body: String,
}

impl Reaction {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns a parameter of the URL to which the browser is redirected.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let location = self.header("location");
        let query = location.split_once('?').unwrap_or_default().1;
        form_urlencoded::parse(query.as_bytes()).find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
    }

    /// Returns the request that is hidden in a consent page.
    fn sealed(&self) -> String {
        self.hidden("request")
    }

    /// Returns a hidden field of the first form of a page.
    fn hidden(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let at = self.body.find(&start).unwrap_or_else(|| panic!("no form: {self:?}")) + start.len();
        self.body[at..].split('"').next().unwrap().to_owned()
    }
}

pub(super) fn form(parameters: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}

pub(super) fn hash(text: &str) -> String {
    super::signer::encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref())
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    /// Starts a server with further options.
    pub(super) async fn with(configure: impl FnOnce(AuthorizationServerBuilder) -> AuthorizationServerBuilder) -> Self {
        Self::start(RESOURCE, [7; 32], configure).await
    }

    /// Starts a server with another resource, or another secret for its records.
    async fn start(
        resource: &str,
        secret: [u8; 32],
        configure: impl FnOnce(AuthorizationServerBuilder) -> AuthorizationServerBuilder,
    ) -> Self {
        let issuer = TestIssuer::start().await;
        let provider = Provider {
            signer: Arc::new(Signer::p256("key")),
            subject: "ada".to_owned(),
            nonce: String::new(),
            token: None,
            hangs: false,
            held: None,
            claims: json!({}),
            user: json!({"sub": "ada"}),
            has_refresh_tokens: true,
            has_users: true,
            is_openid: true,
            subject_claim: "sub",
            read_scopes: &[],
            id_token_type: "JWT",
        };
        let provider = Arc::new(Mutex::new(provider));
        respond(&issuer, Arc::clone(&provider));
        Self::serve(issuer, provider, Arc::default(), resource, secret, configure).await
    }

    /// Starts another server with the same records and the same provider.
    async fn replica(
        &self,
        resource: &str,
        secret: [u8; 32],
        configure: impl FnOnce(AuthorizationServerBuilder) -> AuthorizationServerBuilder,
    ) -> Self {
        let (provider, records) = (Arc::clone(&self.provider), Arc::clone(&self.records));
        Self::serve(self.issuer.clone(), provider, records, resource, secret, configure).await
    }

    async fn serve(
        issuer: TestIssuer,
        provider: Arc<Mutex<Provider>>,
        records: Arc<TestRecords>,
        resource: &str,
        secret: [u8; 32],
        configure: impl FnOnce(AuthorizationServerBuilder) -> AuthorizationServerBuilder,
    ) -> Self {
        let clock = Clock::default();
        let credentials = ClientCredentials::basic("notes", "a secret");
        let (is_openid, subject, read_scopes) = {
            let provider = provider.lock().unwrap();
            (provider.is_openid, provider.subject_claim, provider.read_scopes)
        };
        let upstream = if is_openid {
            Upstream::discover_with(issuer.url.clone(), credentials, clock.of_system()).await.unwrap()
        } else {
            let [authorization, token, user] = ["auth", "token", "me"].map(|path| format!("{}/{path}", issuer.url));
            Upstream::endpoints(&authorization, &token, &user, credentials).unwrap()
        };
        let upstream = upstream
            .scopes(["openid", "email"])
            .map_scope("notes:write", ["email", "notes.edit"])
            .map_scope("notes:read", read_scopes.iter().copied())
            .subject_claim(subject);
        let builder = AuthorizationServer::builder(resource, upstream).unwrap();
        let builder = builder
            .clock(clock.clone())
            .records(Arc::clone(&records))
            .with_secret(secret)
            .service_name("Notes")
            .with_scope("notes:read", "Read your notes")
            .with_scope("notes:write", "Change your notes")
            .claims(["email"])
            .with_client(ConfiguredClient::public("app", "The App", [REDIRECT]).unwrap())
            .with_client(ConfiguredClient::public("other", "Other", ["https://other.example/callback"]).unwrap())
            .with_client(ConfiguredClient::confidential("web", "a web secret", "Web", [REDIRECT]).unwrap())
            .with_client(ConfiguredClient::machine("robot", "a robot secret", ["notes:read", "notes:audit"]));
        let server = configure(builder).build().await.unwrap();
        let routes = server.routes().remove(0);
        Self { server, routes, issuer, provider, clock, records }
    }

    /// Changes what the provider does next.
    fn provider(&self, change: impl FnOnce(&mut Provider)) {
        change(&mut self.provider.lock().unwrap());
    }

    /// Logs another user in at the provider.
    pub(super) fn set_user(&self, subject: &str) {
        self.provider(|provider| provider.subject = subject.to_owned());
    }

    pub(super) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reaction {
        self.send_from("192.0.2.1:1234", method, path, headers, body).await
    }

    /// Sends a request from an address, or from an unknown one.
    pub(super) async fn send_from(
        &self,
        sender: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reaction {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let mut request = request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        if !sender.is_empty() {
            request.extensions_mut().insert(PeerAddr(sender.parse().unwrap()));
        }
        assert!(self.routes.serves(request.uri().path()), "{path}");
        let response: Response<Bytes> = self.routes.respond(request).await;
        let (head, body) = response.into_parts();
        Reaction {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Sends a request with the cookies of a browser, and keeps those of the response.
    pub(super) async fn visit(&self, browser: &mut Browser, method: &str, path: &str, body: &str) -> Reaction {
        self.visit_with(browser, method, path, &[], body).await
    }

    async fn visit_with(
        &self,
        browser: &mut Browser,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reaction {
        let cookies = browser.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let headers = [&[("cookie", cookies.as_str())], headers].concat();
        let reaction = self.send(method, path, &headers, body).await;
        for cookie in reaction.headers.get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if cookie.contains("Max-Age=0;") {
                browser.0.remove(name);
            } else {
                browser.0.insert(name.to_owned(), value.to_owned());
            }
        }
        reaction
    }

    pub(super) async fn authorize(&self, browser: &mut Browser, changes: &[(&str, &str)]) -> Reaction {
        self.visit(browser, "GET", &authorize_path(changes), "").await
    }

    /// Answers a consent page, with all scopes.
    pub(super) async fn answer(&self, browser: &mut Browser, page: &Reaction, decision: &str) -> Reaction {
        let scopes: Vec<&str> = page.body.split("type=\"checkbox\" name=\"").skip(1).map(|rest| &rest[..7]).collect();
        self.answer_with(browser, page, decision, &scopes).await
    }

    /// Answers a consent page with these fields.
    pub(super) async fn answer_with(
        &self,
        browser: &mut Browser,
        page: &Reaction,
        decision: &str,
        scopes: &[&str],
    ) -> Reaction {
        let sealed = page.sealed();
        let mut fields = vec![("request", sealed.as_str()), ("decision", decision)];
        fields.extend(scopes.iter().map(|scope| (*scope, "yes")));
        self.visit(browser, "POST", "/authorize", &form(&fields)).await
    }

    /// Returns from the provider with these parameters beside `state`.
    pub(super) async fn return_with(
        &self,
        browser: &mut Browser,
        login: &Reaction,
        parameters: &[(&str, &str)],
    ) -> Reaction {
        let state = login.parameter("state").unwrap_or_else(|| panic!("no login: {login:?}"));
        let nonce = login.parameter("nonce").unwrap_or_default();
        self.provider(|provider| provider.nonce = nonce);
        let query = form(&[&[("state", state.as_str())], parameters].concat());
        self.visit(browser, "GET", &format!("/authorize/callback?{query}"), "").await
    }

    /// Lets a user approve and log in. Returns the response to the client.
    pub(super) async fn log_in(&self, browser: &mut Browser, changes: &[(&str, &str)]) -> Reaction {
        let page = self.authorize(browser, changes).await;
        let login = self.answer(browser, &page, "approve").await;
        self.return_with(browser, &login, &[("code", "upstream-code")]).await
    }

    pub(super) async fn code(&self, changes: &[(&str, &str)]) -> String {
        let response = self.log_in(&mut Browser::default(), changes).await;
        response.parameter("code").unwrap_or_else(|| panic!("no code: {response:?}"))
    }

    pub(super) async fn token(&self, parameters: &[(&str, &str)]) -> Reaction {
        self.send("POST", "/token", &[], &form(parameters)).await
    }

    pub(super) async fn exchange(&self, code: &str, changes: &[(&str, &str)]) -> Reaction {
        let valid = [
            ("grant_type", "authorization_code"),
            ("client_id", "app"),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ];
        self.token(&replaced(&valid, changes)).await
    }

    pub(super) async fn refresh(&self, token: &str) -> Reaction {
        self.token(&[("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", token)]).await
    }

    /// Lets a client obtain its first tokens.
    pub(super) async fn tokens(&self) -> Value {
        let response = self.exchange(&self.code(&[]).await, &[]).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    pub(super) async fn register(&self, metadata: &Value) -> Reaction {
        self.send("POST", "/register", &[JSON], &metadata.to_string()).await
    }

    /// Returns whether the server accepts an access token.
    pub(super) async fn accepts(&self, token: &Value) -> bool {
        super::bearer(&self.server, token.as_str().unwrap()).await.is_ok()
    }
}

/// Returns the path of an authorization request with changes. An empty value removes a parameter.
pub(super) fn authorize_path(changes: &[(&str, &str)]) -> String {
    let challenge = hash(VERIFIER);
    let valid = [
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", REDIRECT),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", "a state"),
        ("scope", "notes:read"),
        ("resource", RESOURCE),
    ];
    format!("/authorize?{}", form(&replaced(&valid, changes)))
}

fn replaced<'a>(valid: &[(&'a str, &'a str)], changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = valid.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    kept.chain(changes.iter().filter(|(_, value)| !value.is_empty())).copied().collect()
}

/// Serves the endpoints of the provider.
fn respond(issuer: &TestIssuer, provider: Arc<Mutex<Provider>>) {
    let url = issuer.url.clone();
    issuer.respond(move |path| {
        let provider = provider.lock().unwrap().clone();
        let signer = Arc::clone(&provider.signer);
        match path {
            "/.well-known/openid-configuration" => Reply::Json(json!({
                "issuer": url,
                "jwks_uri": format!("{url}/keys"),
                "authorization_endpoint": format!("{url}/auth"),
                "token_endpoint": format!("{url}/token"),
                "userinfo_endpoint": provider.has_users.then(|| format!("{url}/me")),
                "authorization_response_iss_parameter_supported": provider.claims["iss"].is_string(),
            })),
            "/keys" => Reply::Json(json!({"keys": [signer.jwk()]})),
            _ if provider.hangs => Reply::Never,
            "/token" => hold(
                provider.held,
                match provider.token {
                    Some((200, body)) => Reply::Json(body),
                    Some((status, body)) => {
                        Reply::Raw(format!("HTTP/1.1 {status} Error"), body.to_string().into_bytes())
                    }
                    None => {
                        let mut claims = json!({
                            "iss": url, "aud": "notes", "sub": provider.subject, "iat": now(), "exp": now() + 30 * 24 * 3600,
                            "nonce": provider.nonce, "email": "ada@example.com",
                        });
                        for (name, value) in provider.claims.as_object().unwrap() {
                            claims[name] = value.clone();
                        }
                        let mut tokens = json!({
                            "access_token": "upstream-access", "token_type": "Bearer", "expires_in": 3600,
                            "id_token": signer.token_with(json!({"typ": provider.id_token_type}), &claims),
                        });
                        if provider.has_refresh_tokens {
                            tokens["refresh_token"] = json!("upstream-refresh");
                        }
                        Reply::Json(tokens)
                    }
                },
            ),
            "/me" => match provider.token {
                Some((status @ (401 | 403), _)) => Reply::Raw(format!("HTTP/1.1 {status} Error"), Vec::new()),
                _ => Reply::Json(provider.user),
            },
            _ => super::issuer::not_found(),
        }
    });
}

fn hold(held: Option<Arc<Notify>>, reply: Reply) -> Reply {
    match held {
        Some(held) => Reply::After(held, Box::new(reply)),
        None => reply,
    }
}
