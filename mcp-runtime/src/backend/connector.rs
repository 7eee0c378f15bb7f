//! Connecting to a backend that a command line names, and measuring the operations of a backend.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Append, Backend, BackendError, BackendFuture, EventLogEntry, EventLogs, Insertion, LogBounds, LogPosition, Record,
    RecordCondition, RecordQuota, RecordVersion, Records, Timestamp, TopicSubscription, Topics, forward_logs,
    forward_records, forward_topics,
};
use crate::telemetry::{BackendOperation, SharedTelemetry};

/// Connects to the backends whose URLs have certain schemes, for the option `--backend` of programs with
/// [`main!`](crate::main) or [`#[server]`](crate::server). [`backend_connector!`](crate::backend_connector) registers
/// one.
#[derive(Debug, Clone, Copy)]
pub struct BackendConnector {
    schemes: &'static [&'static str],
    connect: fn(String, String) -> ConnectFuture,
}

inventory::collect!(BackendConnector);

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Arc<dyn Backend>, ConnectError>> + Send>>;
type ConnectError = Box<dyn Error + Send + Sync>;

/// The crates that provide backends, by scheme: the package and the library.
const KNOWN: [(&[&str], &str, &str); 1] =
    [(&["redis", "rediss", "valkey", "valkeys"], "mcp-runtime-redis", "mcp_redis")];

impl BackendConnector {
    #[doc(hidden)]
    pub const fn new(schemes: &'static [&'static str], connect: fn(String, String) -> ConnectFuture) -> Self {
        Self { schemes, connect }
    }

    /// Returns the connector for a URL. Errors contain the scheme only, since a URL may contain a password.
    pub(crate) fn find(url: &str) -> Result<&'static Self, UnknownBackend> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let scheme = scheme.filter(|scheme| !scheme.is_empty()).ok_or(UnknownBackend { scheme: None })?;
        let connector = inventory::iter::<Self>().find(|connector| connector.schemes.contains(&scheme.as_str()));
        connector.ok_or(UnknownBackend { scheme: Some(scheme) })
    }

    /// Connects the server with a name to a backend.
    pub(crate) async fn connect(&self, url: &str, server: &str) -> Result<Arc<dyn Backend>, ConnectError> {
        (self.connect)(url.to_owned(), server.to_owned()).await
    }
}

/// Registers an asynchronous function that connects to a backend, for URLs with these schemes in lower case. The
/// function takes the URL and the name of the server, each as a `&str`, and returns a `Result` of a
/// [`Backend`](crate::backend::Backend) and an error. Servers with different names may use the same URL, so each needs keys
/// of its own: the backend prepends the name. A server that was [renamed](crate::Server::renamed_from) keeps its first name.
///
/// A program with [`main!`](crate::main) or [`#[server]`](crate::server) that contains the crate then accepts such a URL
/// for the option `--backend` and in the environment variable `MCP_BACKEND`. As with annotated functions, a program
/// contains a crate only if its code refers to it, at least with `use my_backend as _;`.
///
/// ```
/// use mcp_runtime::{backend::{BackendError, MemoryBackend}, backend_connector};
///
/// async fn connect(url: &str, _server: &str) -> Result<MemoryBackend, BackendError> {
///     assert!(url.starts_with("memory://"));
///     Ok(MemoryBackend::default())
/// }
///
/// backend_connector!(["memory"], connect);
/// # fn main() {}
/// ```
///
/// The error is printed when the program starts. It must not contain a password of the URL.
#[macro_export]
macro_rules! backend_connector {
    ([$($scheme:literal),+ $(,)?], $connect:expr) => {
        $crate::__private::inventory::submit! {
            $crate::backend::BackendConnector::new(&[$($scheme),+], |url, server| {
                ::std::boxed::Box::pin(async move { $crate::__private::connected($connect(&url, &server).await) })
            })
        }
    };
}

/// Converts the result of a connector's function.
///
/// # Errors
///
/// Returns the error of the function.
pub fn connected<E: Into<ConnectError>>(result: Result<impl Backend, E>) -> Result<Arc<dyn Backend>, ConnectError> {
    match result {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(error) => Err(error.into()),
    }
}

/// The error for a URL that no connector of the program knows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownBackend {
    scheme: Option<String>,
}

impl fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(scheme) = &self.scheme else {
            return f.write_str("invalid URL of a backend, expected a scheme, such as `redis://127.0.0.1:6379`");
        };
        // As in `redis+sentinel`.
        let base = scheme.split('+').next().unwrap_or(scheme);
        if let Some((_, package, library)) = KNOWN.iter().find(|(schemes, ..)| schemes.contains(&base)) {
            return write!(
                f,
                "this program contains no backend for `{scheme}` URLs\n\
                 help: add the crate `{package}` to `[dependencies]`, and `use {library} as _;` to the file with `main`"
            );
        }
        let mut schemes: Vec<_> = inventory::iter::<BackendConnector>().flat_map(|known| known.schemes).collect();
        schemes.sort_unstable();
        let schemes: Vec<_> = schemes.iter().map(|scheme| format!("`{scheme}`")).collect();
        match schemes.as_slice() {
            [] => write!(
                f,
                "unknown backend `{scheme}`: this program contains none\n\
                 help: for Redis and Valkey, add the crate `{}` to `[dependencies]`, and `use {} as _;` to the file with `main`",
                KNOWN[0].1, KNOWN[0].2
            ),
            schemes => write!(f, "unknown backend `{scheme}`, expected a URL with {}", schemes.join(" or ")),
        }
    }
}

/// A shared backend, and the telemetry that records its operations.
pub(crate) struct MeasuredBackend {
    backend: Arc<dyn Backend>,
    telemetry: SharedTelemetry,
}

impl MeasuredBackend {
    pub(crate) fn new(backend: Arc<dyn Backend>, telemetry: SharedTelemetry) -> Self {
        Self { backend, telemetry }
    }

    fn measure<'a, T>(&'a self, name: &'static str, operation: BackendFuture<'a, T>) -> BackendFuture<'a, T>
    where
        T: Send + 'a,
    {
        let measure = Measure { telemetry: &self.telemetry, name, start: Instant::now(), error: Some("cancelled") };
        Box::pin(async move {
            let mut measure = measure;
            let result = operation.await;
            measure.error = result.as_ref().err().map(|error| match error {
                BackendError::Full => "full",
                BackendError::Unavailable(_) => "unavailable",
            });
            result
        })
    }
}

/// Records an operation when it is dropped. An operation that is dropped before its end was cancelled, usually by a time
/// limit.
struct Measure<'a> {
    telemetry: &'a SharedTelemetry,
    name: &'static str,
    start: Instant,
    error: Option<&'static str>,
}

impl Drop for Measure<'_> {
    fn drop(&mut self) {
        let operation = BackendOperation { name: self.name, error_type: self.error, duration: self.start.elapsed() };
        self.telemetry.call(|telemetry| telemetry.backend_operation(&operation));
    }
}

impl fmt::Debug for MeasuredBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.fmt(f)
    }
}

macro_rules! measured {
    // It waits until something happens.
    ($this:ident, Appended $method:ident($($argument:ident),*), $key:expr, $value:expr) => {
        $this.backend.$method($($argument),*)
    };
    ($this:ident, $kind:ident $method:ident($($argument:ident),*), $key:expr, $value:expr) => {
        $this.measure(stringify!($method), $this.backend.$method($($argument),*))
    };
}

forward_records!([] MeasuredBackend, self, measured);
forward_logs!([] MeasuredBackend, self, measured);
forward_topics!([] MeasuredBackend, self, measured);
