//! TLS: the certificate of a listener, which is read again when its files change, and handshakes.

use std::{
    fs::File,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
    server::TlsStream,
};

use super::connection::{self, Socket};
use crate::{error::Fault, stdx::Mutex};

/// The maximum time between two checks whether the files have changed, while clients connect.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of bytes of each file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The maximum duration of a handshake, if the timeout of the first head is longer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: the type of the record that carries the first message of a handshake.
const HANDSHAKE_RECORD: u8 = 0x16;
/// The protocols inside of TLS, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// The certificate of a listener and its private key.
#[derive(Debug)]
pub(super) struct Certificate {
    files: Files,
    loaded: Mutex<Loaded>,
}

/// The paths of the certificate and of its private key.
type Files = [PathBuf; 2];

/// The certificate and the key from the last valid files.
#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// The hash of the contents.
    hash: u64,
    checked_at: Instant,
}

/// The bytes of the certificate and of its private key.
type Contents = [Vec<u8>; 2];

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, if it does not contain what it should, or if the key belongs to
    /// another certificate.
    pub(super) fn open(certificate: PathBuf, key: PathBuf) -> io::Result<Self> {
        // The files must be found later even if the program changes its current directory.
        let files = [std::path::absolute(certificate)?, std::path::absolute(key)?];
        let contents = read(&files)?;
        let loaded = Loaded { config: load(&files, &contents)?, hash: hash(&contents), checked_at: Instant::now() };
        Ok(Self { loaded: Mutex::new(loaded), files })
    }

    /// Returns the current configuration. Checks first whether the files have changed, at most once per
    /// [`RELOAD_INTERVAL`].
    async fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        if self.is_check_due() {
            let certificate = Arc::clone(self);
            let _ = tokio::task::spawn_blocking(move || certificate.reload()).await;
        }
        Arc::clone(&self.loaded.lock().config)
    }

    fn is_check_due(&self) -> bool {
        let mut loaded = self.loaded.lock();
        let is_due = loaded.checked_at.elapsed() >= RELOAD_INTERVAL;
        if is_due {
            loaded.checked_at = Instant::now();
        }
        is_due
    }

    /// Reads the files, and uses them if they have changed. Keeps the earlier certificate if they are invalid, as they
    /// may be between the replacement of one and of the other.
    fn reload(&self) {
        let reloaded = read(&self.files).and_then(|contents| {
            let hash = hash(&contents);
            let is_unchanged = self.loaded.lock().hash == hash;
            Ok(if is_unchanged { None } else { Some((load(&self.files, &contents)?, hash)) })
        });
        match reloaded {
            Ok(None) => {}
            Ok(Some((config, hash))) => {
                let mut loaded = self.loaded.lock();
                (loaded.config, loaded.hash) = (config, hash);
                tracing::info!("the certificate was renewed");
            }
            Err(error) => tracing::warn!(%error, "cannot read the renewed certificate: keeping the earlier one"),
        }
    }

    /// Accepts a connection over TLS. A client that does not speak TLS receives a response with the reason.
    ///
    /// # Errors
    ///
    /// Returns an error if the handshake fails, or takes longer than `timeout` or 10 seconds.
    pub(super) async fn accept(
        self: &Arc<Self>,
        mut socket: Socket,
        timeout: Duration,
    ) -> io::Result<TlsStream<Socket>> {
        let handshake = async {
            if socket.peek().await? != Some(HANDSHAKE_RECORD) {
                let why = "this port serves HTTPS: use a URL that starts with `https://`";
                let response = connection::response("400 Bad Request", &Fault::InvalidRequest(why.to_owned()));
                connection::respond(&mut socket, &response).await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"));
            }
            TlsAcceptor::from(self.config().await).accept(socket).await
        };
        let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake takes too long");
        tokio::time::timeout(timeout.min(HANDSHAKE_TIMEOUT), handshake).await.map_err(timed_out)?
    }
}

fn hash(contents: &Contents) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(contents)
}

/// Returns whether the client has chosen HTTP/2.
pub(super) fn is_http2(stream: &TlsStream<Socket>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

fn read([certificate, key]: &Files) -> io::Result<Contents> {
    Ok([read_file("certificate", certificate)?, read_file("private key", key)?])
}

fn load(files: &Files, [chain, key_text]: &Contents) -> io::Result<Arc<ServerConfig>> {
    let [certificate, key] = files.each_ref().map(|file| file.display());
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(format!("`{certificate}` is not valid PEM: {error}")))?;
    if chain.is_empty() {
        return Err(invalid(format!(
            "`{certificate}` contains no certificate\n\
             help: the file must be PEM: the certificate of the server, then those of intermediate authorities"
        )));
    }
    if memchr::memmem::find(key_text, b"ENCRYPTED").is_some() {
        return Err(invalid(format!(
            "the private key in `{key}` is encrypted\n\
             help: write a key without a passphrase with `openssl pkey -in {key} -out FILE`, and restrict who may read it"
        )));
    }
    let key_der = PrivateKeyDer::from_pem_slice(key_text).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => invalid(format!(
            "`{key}` contains no private key\nhelp: the file must be PEM, such as `-----BEGIN PRIVATE KEY-----`"
        )),
        error => invalid(format!("`{key}` is not valid PEM: {error}")),
    })?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, key_der));
    let mut config = config.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            invalid(format!("the private key in `{key}` does not belong to the first certificate in `{certificate}`"))
        }
        error => invalid(format!("cannot use the certificate in `{certificate}` with the key in `{key}`: {error}")),
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

fn read_file(what: &str, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| match file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)? {
        length if length as u64 > MAX_FILE_BYTES => Err(invalid("it is larger than 1 MiB".to_owned())),
        _ => Ok(()),
    });
    read.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read the {what} `{}`: {error}", path.display()))
    })?;
    Ok(bytes)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
