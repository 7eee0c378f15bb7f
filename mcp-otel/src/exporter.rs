//! The exporters of OTLP. The SDK reads their endpoints, headers, time limits and compression from the environment.

use opentelemetry_otlp::{MetricExporter, SpanExporter};

use crate::{Error, config};

macro_rules! exporter {
    ($name:ident, $type:ident, $signal:literal) => {
        pub(crate) fn $name() -> Result<$type, Error> {
            config::refuse_certificates($signal)?;
            let uses_grpc = config::uses_grpc($signal)?;
            #[cfg(feature = "grpc")]
            if uses_grpc {
                let _guard = runtime()?.enter();
                return $type::builder().with_tonic().build().map_err(Error::new);
            }
            #[cfg(feature = "http")]
            if !uses_grpc {
                // For `https://`. Fails if the program has chosen another provider.
                #[cfg(feature = "tls")]
                let _ = rustls::crypto::ring::default_provider().install_default();
                return $type::builder().with_http().build().map_err(Error::new);
            }
            let protocol = if uses_grpc { "grpc" } else { "http" };
            Err(Error(format!("OTLP over this protocol needs the feature `{protocol}`")))
        }
    };
}

exporter!(spans, SpanExporter, "TRACES");
exporter!(metrics, MetricExporter, "METRICS");

/// Returns the runtime of gRPC connections. The server's runtime starts later and ends earlier.
#[cfg(feature = "grpc")]
fn runtime() -> Result<&'static tokio::runtime::Runtime, Error> {
    static RUNTIME: std::sync::OnceLock<std::io::Result<tokio::runtime::Runtime>> = std::sync::OnceLock::new();
    let builder =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("otlp").build();
    RUNTIME.get_or_init(builder).as_ref().map_err(Error::new)
}
