//! The environment variables that the SDK does not read itself, by the
//! [specification](https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).

use std::env;

use crate::Error;

/// The exporters of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exporters {
    pub(crate) otlp: bool,
    pub(crate) prometheus: bool,
    /// `none`.
    pub(crate) none: bool,
}

impl Exporters {
    /// Returns the exporters of `TRACES` or `METRICS`: none unless a variable names them, or an endpoint for OTLP.
    ///
    /// # Errors
    ///
    /// Returns an error for names that are unknown, or whose feature is not enabled.
    pub(crate) fn of(signal: &str) -> Result<Self, Error> {
        Self::parse(signal, |name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn parse(signal: &str, var: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let mut exporters = Self::default();
        if var("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(exporters);
        }
        let variable = format!("OTEL_{signal}_EXPORTER");
        let Some(names) = var(&variable) else {
            let endpoints = ["OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")];
            exporters.otlp = cfg!(feature = "_sdk") && endpoints.iter().any(|name| var(name).is_some());
            return Ok(exporters);
        };
        for name in names.split(',').map(str::trim) {
            match name {
                "none" => exporters.none = true,
                "otlp" if cfg!(feature = "_sdk") => exporters.otlp = true,
                "prometheus" if cfg!(feature = "prometheus") && signal == "METRICS" => exporters.prometheus = true,
                _ => {
                    let features = "features `http`, `grpc` and `prometheus` add exporters";
                    return Err(Error(format!("`{variable}`: unknown exporter `{name}`\nhelp: {features}")));
                }
            }
        }
        Ok(exporters)
    }
}

/// The formats in which contexts are read and written.
#[cfg(feature = "_sdk")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Propagators {
    pub(crate) trace_context: bool,
    pub(crate) baggage: bool,
}

#[cfg(feature = "_sdk")]
impl Propagators {
    /// Returns those of `OTEL_PROPAGATORS`, or else both.
    ///
    /// # Errors
    ///
    /// Returns an error for names that are unknown: messages of MCP carry no other format.
    pub(crate) fn from_env() -> Result<Self, Error> {
        Self::parse(env::var("OTEL_PROPAGATORS").ok().filter(|value| !value.is_empty()).as_deref())
    }

    fn parse(names: Option<&str>) -> Result<Self, Error> {
        let mut propagators = Self { trace_context: false, baggage: false };
        for name in names.unwrap_or("tracecontext,baggage").split(',').map(str::trim) {
            match name {
                "tracecontext" => propagators.trace_context = true,
                "baggage" => propagators.baggage = true,
                "none" => {}
                _ => {
                    let help = "help: `tracecontext`, `baggage` and `none` are supported";
                    return Err(Error(format!("`OTEL_PROPAGATORS`: unknown propagator `{name}`\n{help}")));
                }
            }
        }
        Ok(propagators)
    }
}

/// Refuses variables that the SDK would ignore.
///
/// # Errors
///
/// Returns an error if the environment names a file with a certificate or a key.
#[cfg(feature = "_sdk")]
pub(crate) fn refuse_certificates(signal: &str) -> Result<(), Error> {
    let files = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];
    let names = files.map(|file| [format!("OTEL_EXPORTER_OTLP_{file}"), format!("OTEL_EXPORTER_OTLP_{signal}_{file}")]);
    match names.into_iter().flatten().find(|name| env::var_os(name).is_some_and(|value| !value.is_empty())) {
        Some(name) => {
            Err(Error(format!("`{name}` is not supported\nhelp: `SSL_CERT_FILE` names trusted certificates")))
        }
        None => Ok(()),
    }
}

/// Returns whether OTLP uses gRPC for a signal.
///
/// # Errors
///
/// Returns an error for protocols that are unknown, or whose feature is not enabled.
#[cfg(feature = "_sdk")]
pub(crate) fn uses_grpc(signal: &str) -> Result<bool, Error> {
    let variables = [format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()];
    let named = variables.into_iter().find_map(|name| {
        let value = env::var(&name).ok().filter(|value| !value.is_empty())?;
        Some((name, value))
    });
    let named = named.as_ref().map(|(name, value)| (&**name, &**value));
    is_grpc(named, cfg!(feature = "http"), cfg!(feature = "grpc"))
}

#[cfg(feature = "_sdk")]
fn is_grpc(named: Option<(&str, &str)>, has_http: bool, has_grpc: bool) -> Result<bool, Error> {
    match named {
        None => Ok(!has_http),
        Some((_, "grpc")) if has_grpc => Ok(true),
        Some((_, "http/protobuf")) if has_http => Ok(false),
        Some((name, value)) => {
            let help = "`http/protobuf` needs the feature `http`, and `grpc` the feature `grpc`";
            Err(Error(format!("`{name}`: unsupported protocol `{value}`\nhelp: {help}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(feature = "http", feature = "prometheus"))]
    fn variables_choose_exporters() {
        let (otlp, prometheus, none) = (1, 2, 4);
        for (signal, variables, expected) in [
            ("TRACES", &[][..], Some(0)),
            ("TRACES", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")], Some(otlp)),
            ("TRACES", &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://localhost:4318")], Some(0)),
            ("TRACES", &[("OTEL_TRACES_EXPORTER", "none")], Some(none)),
            ("TRACES", &[("OTEL_TRACES_EXPORTER", "otlp")], Some(otlp)),
            ("TRACES", &[("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_SDK_DISABLED", "TRUE")], Some(0)),
            ("TRACES", &[("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_SDK_DISABLED", "false")], Some(otlp)),
            ("TRACES", &[("OTEL_TRACES_EXPORTER", "prometheus")], None),
            ("METRICS", &[("OTEL_METRICS_EXPORTER", "prometheus, otlp")], Some(otlp + prometheus)),
            ("METRICS", &[("OTEL_METRICS_EXPORTER", "zipkin")], None),
        ] {
            let var = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let found = Exporters::parse(signal, var).ok().map(|found| {
                u8::from(found.otlp) * otlp + u8::from(found.prometheus) * prometheus + u8::from(found.none) * none
            });
            assert_eq!(found, expected, "{variables:?}");
        }
    }

    #[test]
    #[cfg(feature = "_sdk")]
    fn protocols_need_their_features() {
        let protocols = [None, Some("grpc"), Some("http/protobuf"), Some("http/json")];
        for (has_http, has_grpc, expected) in [
            (true, false, [Some(false), None, Some(false), None]),
            (false, true, [Some(true), Some(true), None, None]),
            (true, true, [Some(false), Some(true), Some(false), None]),
        ] {
            let found = protocols.map(|value| is_grpc(value.map(|value| ("X", value)), has_http, has_grpc).ok());
            assert_eq!(found, expected, "http: {has_http}, grpc: {has_grpc}");
        }
        let refused = is_grpc(Some(("X", "grpc")), true, false).unwrap_err().to_string();
        assert!(refused.contains("`X`: unsupported protocol `grpc`\nhelp: "), "{refused}");
    }

    #[test]
    #[cfg(feature = "_sdk")]
    fn a_variable_chooses_propagators() {
        for (names, expected) in [
            (None, Some((true, true))),
            (Some("tracecontext"), Some((true, false))),
            (Some("baggage, tracecontext"), Some((true, true))),
            (Some("none"), Some((false, false))),
            (Some("b3"), None),
        ] {
            let found = Propagators::parse(names).ok().map(|found| (found.trace_context, found.baggage));
            assert_eq!(found, expected, "{names:?}");
        }
    }
}
