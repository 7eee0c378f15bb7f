//! The minimal server over HTTPS, with HTTP/2 or HTTP/1.1, with hyper.

mod answer;

use std::{error::Error, io, sync::Arc};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve())
}

/// Serves `--tls-cert CERTIFICATE --tls-key KEY --http ADDRESS`.
async fn serve() -> Result<(), AnyError> {
    let [_, certificate, _, key, _, address] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap_or_default();
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("limit listens on https://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move { serve_connection(&acceptor, stream).await.map_err(|error| eprintln!("{error}")) });
    }
}

async fn serve_connection(acceptor: &TlsAcceptor, stream: TcpStream) -> Result<(), AnyError> {
    let stream = acceptor.accept(stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (stream, service) = (TokioIo::new(stream), service_fn(respond));
    Ok(if is_http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await?
    } else {
        http1::Builder::new().serve_connection(stream, service).await?
    })
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, AnyError> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut out = Vec::with_capacity(256);
    answer::answer(&body, &mut out).map_err(io::Error::other)?;
    Ok(Response::builder().header(CONTENT_TYPE, "application/json").body(Full::from(out))?)
}
