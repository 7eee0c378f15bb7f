//! An MCP server mounted into an axum application, next to its other routes and behind its middleware.
//!
//! ```text
//! cargo run -p mount_axum
//! claude mcp add tea --transport http http://127.0.0.1:8080/mcp --header 'Authorization: Bearer ada-secret'
//! ```

use std::{
    error::Error,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::{StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use mcp_runtime::{BuildError, Context, HttpOptions, Server, auth::Principal, http::HttpService, tool};

/// The time in which load balancers notice that the server shuts down.
const DRAIN_DELAY: Duration = Duration::from_secs(5);

/// State shared by the pages and the tools.
#[derive(Default)]
struct Pot {
    cups: AtomicU32,
}

/// Describe the user, the client program and its address.
#[tool(read_only)]
fn whoami(ctx: &Context) -> Result<String, &'static str> {
    let name = ctx.principal().ok_or("sign in first")?;
    let address = ctx.peer_addr().map_or_else(|| "an unknown address".to_owned(), |peer| peer.ip().to_string());
    let program = ctx.headers().and_then(|headers| headers.get(header::USER_AGENT)?.to_str().ok());
    Ok(format!("{name}, with {} at {address}", program.unwrap_or("an unknown program")))
}

/// Brew cups of tea and report progress.
#[tool(destructive = false)]
async fn brew(
    pot: &Pot,
    ctx: &Context,
    /// The number of cups to brew.
    #[arg(default = 5, range = 1..=20)]
    cups: u32,
) -> String {
    for cup in 1..=cups {
        tokio::time::sleep(Duration::from_millis(200)).await;
        pot.cups.fetch_add(1, Relaxed);
        ctx.progress(cup, cups, format!("cup {cup} is ready"));
    }
    format!("{cups} cups of tea")
}

async fn home(State(pot): State<Arc<Pot>>) -> String {
    format!("{} cups of tea so far; the MCP server is at /mcp\n", pot.cups.load(Relaxed))
}

/// Inserts the user into the extensions of the request, as its principal. The server then reserves sessions and tasks
/// for the users that have created them.
///
/// Rejects credentials of unknown users. Requests without credentials pass, including CORS preflight requests: each
/// function decides what anonymous users may do.
async fn authenticate(mut request: Request, next: Next) -> Response {
    if let Some(credentials) = request.headers().get(header::AUTHORIZATION) {
        let token = credentials.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
        let Some(user) = token.and_then(user_of) else {
            let challenge = [(header::WWW_AUTHENTICATE, r#"Bearer error="invalid_token""#)];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        };
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

/// Looks up the user of a token. A real application would query a database.
fn user_of(token: &str) -> Option<Principal> {
    [("ada-secret", "Ada"), ("bob-secret", "Bob")]
        .into_iter()
        .find_map(|(known, user)| (known == token).then(|| Principal::new(user)))
}

/// The readiness check, for load balancers and orchestrators. Fails once the server is drained.
async fn ready(mcp: HttpService) -> StatusCode {
    if mcp.is_ready().await { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Creates the application. Also returns its MCP service, which must be shut down, too.
fn app() -> Result<(Router, HttpService), BuildError> {
    let pot = Arc::new(Pot::default());
    let mcp = Server::new("tea", "0.1.0").with_shared(Arc::clone(&pot)).build()?;
    // The service does not see the connection. `main` makes axum insert its address into the extensions.
    let peer = |request: &Parts| request.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let options = HttpOptions::default().peer_addr(peer);
    let mcp = mcp.into_http_service(options)?;
    let (service, readiness) = (mcp.clone(), mcp.clone());
    let app = Router::new()
        .nest_service("/mcp", service)
        .route("/", get(home))
        .route("/readyz", get(move || ready(readiness.clone())))
        .layer(middleware::from_fn(authenticate))
        .with_state(pot);
    Ok((app, mcp))
}

/// Completes at Ctrl-C, or at SIGTERM, with which containers and services are stopped.
async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let mut terminate = signal(SignalKind::terminate()).expect("signals can be handled");
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("tea listens on http://{}/mcp", listener.local_addr()?);
    let (app, mcp) = app()?;
    let stop = async move {
        shutdown_signal().await;
        // Everything is still served, until load balancers have noticed that `/readyz` fails.
        mcp.drain(DRAIN_DELAY).await;
        // Calls in flight may continue for a while. Without this, open streams would delay the shutdown.
        mcp.graceful_shutdown(Duration::from_secs(10)).await;
    };
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
