//! The options of HTTP, and serving it.

use std::{
    env,
    error::Error,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{flags::Words, show::Package};
use crate::{
    replace_file::{Readers, replace_file},
    server::BuiltServer,
    stderr,
    transport::http::{HttpAddress, HttpOptions, InvalidHttpAddress, Listener, ListenerOptions, serve},
};

/// The options, as `--help` describes them.
pub(super) const OPTIONS: &[(&str, &str)] = &[
    ("--http <ADDRESS>", "Serve HTTP on this address, such as 127.0.0.1:8080 or unix:/run/x.sock, instead of stdio"),
    ("--allow-host <HOST>", "Allow HTTP requests to this host instead of loopback names; may be repeated"),
    ("--allow-origin <ORIGIN>", "Allow HTTP requests from web pages of this origin; may be repeated"),
    (
        "--token-file <PATH>",
        "Require the token in this file as `Authorization: Bearer`; generated if the file is missing or empty",
    ),
    (
        "--trusted-proxies <LIST>",
        "Networks of proxies whose `Forwarded` or `X-Forwarded-For` states the client, such as 10.0.0.0/8,unix",
    ),
    #[cfg(feature = "tls")]
    (
        "--tls-cert <PATH>",
        "Serve HTTPS with the certificate chain in this PEM file, which is read again when it changes",
    ),
    #[cfg(feature = "tls")]
    ("--tls-key <PATH>", "The private key of the certificate, as PEM without a passphrase"),
    ("--socket-mode <MODE>", "Permissions of the file of a Unix socket [default: 600]"),
    ("--drain-delay <SECONDS>", "How long to serve requests after a shutdown signal, while /readyz fails [default: 0]"),
    ("--legacy-sse", "Also serve the HTTP transport of protocol revision 2024-11-05"),
];

/// The values of the options.
#[derive(Debug, Default)]
pub(super) struct HttpArguments {
    options: HttpOptions,
    listener: ListenerOptions,
    /// The permissions of the file of a Unix socket.
    socket_mode: Option<u32>,
    /// The file with the token that every HTTP request must carry.
    pub(super) token_file: Option<PathBuf>,
    /// The files of `--tls-cert` and `--tls-key`.
    #[cfg(feature = "tls")]
    tls: [Option<PathBuf>; 2],
    /// The last option that was given.
    last: Option<String>,
}

impl HttpArguments {
    /// Parses an option. Returns the address of `--http`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is missing or invalid.
    pub(super) fn parse(&mut self, word: &str, words: &mut Words) -> Result<Option<HttpAddress>, String> {
        self.last = Some(word.to_owned());
        match word {
            "--http" => {
                let address = words.value(word, "an address, such as 127.0.0.1:8080")?.parse();
                return address.map(Some).map_err(|error: InvalidHttpAddress| error.to_string());
            }
            "--token-file" => self.token_file = Some(words.value(word, "the path of a file")?.into()),
            #[cfg(feature = "tls")]
            "--tls-cert" => self.tls[0] = Some(words.value(word, "the path of a file")?.into()),
            #[cfg(feature = "tls")]
            "--tls-key" => self.tls[1] = Some(words.value(word, "the path of a file")?.into()),
            "--socket-mode" => self.socket_mode = Some(parse_mode(&words.value(word, "permissions, such as 660")?)?),
            "--trusted-proxies" => {
                let proxies = words.value(word, "a list of networks, such as 10.0.0.0/8")?;
                self.options = std::mem::take(&mut self.options).trusted_proxies(&proxies);
            }
            "--allow-host" => {
                let host = words.value(word, "a host, such as mcp.example.com")?;
                self.options = std::mem::take(&mut self.options).allow_host(host);
            }
            "--allow-origin" => {
                let origin = words.value(word, "an origin, such as https://app.example.com")?;
                self.options = std::mem::take(&mut self.options).allow_origin(origin);
            }
            "--drain-delay" => {
                let delay = parse_seconds(word, &words.value(word, "a number of seconds")?)?;
                self.listener = std::mem::take(&mut self.listener).drain_delay(delay);
            }
            "--legacy-sse" => self.listener = std::mem::take(&mut self.listener).legacy_sse(true),
            _ => return Err(format!("unknown option `{word}`")),
        }
        self.options.problem().map_or(Ok(None), |problem| Err(format!("`{word}`: {problem}")))
    }

    /// Checks that the options agree with each other and with the address.
    ///
    /// # Errors
    ///
    /// Returns an error if one of two options that belong together is missing.
    #[cfg(feature = "tls")]
    pub(super) fn check_tls(&self, address: &HttpAddress) -> Result<(), String> {
        let (given, missing) = match &self.tls {
            [Some(_), None] => ("cert", "key"),
            [None, Some(_)] => ("key", "cert"),
            [Some(_), Some(_)] if address.socket_addr().is_none() => {
                let why =
                    "`--tls-cert` requires a TCP address, since connections to a Unix socket do not leave the machine";
                return Err(why.to_owned());
            }
            _ => return Ok(()),
        };
        Err(format!("`--tls-{given}` requires `--tls-{missing}`\nhelp: add `--tls-{missing} <PATH>`"))
    }

    /// Checks that no option was given, since the program does not serve HTTP.
    ///
    /// # Errors
    ///
    /// Returns an error that names the last option.
    pub(super) fn check_unused(&self) -> Result<(), String> {
        match &self.last {
            Some(option) => Err(format!(
                "`{option}` requires `--http`\nhelp: add `--http <ADDRESS>`, such as `--http 127.0.0.1:8080`"
            )),
            None => Ok(()),
        }
    }

    /// Serves HTTP until the process receives a shutdown signal.
    ///
    /// # Errors
    ///
    /// Returns an error if the service cannot start.
    pub(super) async fn serve(
        self,
        package: &Package,
        server: BuiltServer,
        address: &HttpAddress,
        logs_json: bool,
    ) -> Result<(), Box<dyn Error>> {
        let path = self.options.path.clone();
        #[cfg(feature = "tls")]
        let options = match self.tls {
            // The other end of an encrypted connection is the client, not a proxy.
            [Some(_), _] if !self.options.knows_clients_of_proxies() => self.options.peer_addr(|_| None),
            _ => self.options,
        };
        #[cfg(not(feature = "tls"))]
        let options = self.options;
        let service = server.into_http_service(options)?;
        service.check_start(Some(address)).await?;
        let listener = Listener::bind_with_mode(address, self.socket_mode.unwrap_or(0o600)).await?;
        #[cfg(feature = "tls")]
        let listener = match self.tls {
            [Some(certificate), Some(key)] => listener.tls(certificate, key)?,
            _ => listener,
        };
        let url = listener.url(&path)?;
        report(package, &url, self.token_file.as_deref(), logs_json)?;
        serve(listener, service).options(self.listener).run().await;
        Ok(())
    }
}

/// Parses a number of seconds.
fn parse_seconds(option: &str, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("`{option}`: invalid number of seconds `{text}`, expected one such as 5"))
}

/// Parses the permissions of a file, in octal as for `chmod`.
fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("`--socket-mode`: invalid permissions `{text}`, expected octal digits, such as 660"))
}

/// The environment variable that names the file to which the endpoint's URL is written once the server accepts
/// connections.
const ADDRESS_FILE: &str = "MCP_ADDRESS_FILE";

/// Reports the URL of the endpoint, and how requests carry the token of a file. The token itself is not printed, since
/// logs are kept and shared. If the log is JSON, it contains the URL.
///
/// # Errors
///
/// Returns an error if `MCP_ADDRESS_FILE` is set and the file cannot be written.
fn report(package: &Package, url: &str, token_file: Option<&Path>, logs_json: bool) -> io::Result<()> {
    if logs_json && tracing::event_enabled!(tracing::Level::INFO) {
        tracing::info!(url, token_file = token_file.map(|file| file.display().to_string()), "listening");
    } else {
        let mut lines = format!("{} listens on {url}\n", package.name);
        if let Some(file) = token_file.map(Path::display) {
            lines.push_str(&format!(
                "requests need the token in `{file}`, as with `curl -H \"Authorization: Bearer $(cat '{file}')\"`\n"
            ));
        }
        stderr::writer().push(lines.as_bytes());
    }
    let Some(file) = env::var_os(ADDRESS_FILE).filter(|file| !file.is_empty()) else { return Ok(()) };
    replace_file(file.as_ref(), &format!("{url}\n"), Readers::Default).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write the file that `{ADDRESS_FILE}` names: {error}"))
    })
}

#[cfg(all(test, feature = "log", feature = "tls"))]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tracing::{Event, Subscriber};
    use tracing_subscriber::{
        Layer,
        layer::{Context, SubscriberExt as _},
        util::SubscriberInitExt as _,
    };

    use super::*;
    use crate::{
        Server,
        auth::{IdentityFromExtensions, ProtectedResource},
    };

    /// Counts the events about the conversion of a server into a service.
    struct Counts(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Counts {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let is_counted = event.metadata().target() == "mcp_runtime::server::http";
            self.0.fetch_add(usize::from(is_counted), Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn operators_are_warned_of_unknown_proxies_unless_the_server_has_a_certificate() {
        let package = Package { name: "notes", version: "1.0.0", description: "", homepage: "", libraries: &[] };
        // The server does not start at this address, since no host is allowed.
        let address = HttpAddress::from(([0, 0, 0, 0], 0));
        // With a single dispatcher, `tracing` caches which events the first thread is interested in.
        let _second = tracing::Dispatch::new(tracing_subscriber::registry());
        let files = ["cert.pem", "key.pem"].map(|file| Some(PathBuf::from(file)));
        for (tls, expected) in [([None, None], 1), (files, 0)] {
            let count = Arc::new(AtomicUsize::new(0));
            let _guard = tracing_subscriber::registry().with(Counts(Arc::clone(&count))).set_default();
            let resource = ProtectedResource::new().resource("https://notes.example.com/mcp");
            let server = Server::empty("notes", "1.0.0").authenticate(IdentityFromExtensions::new(resource));
            let arguments = HttpArguments { tls, ..HttpArguments::default() };
            let started = arguments.serve(&package, server.build().unwrap(), &address, false).await;
            assert!(started.unwrap_err().to_string().contains("no host is allowed"));
            assert_eq!(count.load(Ordering::SeqCst), expected);
        }
    }
}
