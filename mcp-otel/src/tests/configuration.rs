//! The variables of the environment that choose what is exported.

use std::process::Command;

use super::*;

/// Runs [`prints_its_configuration`] in a process with these variables, and returns what it has printed.
fn configuration(variables: &[(&str, &str)]) -> String {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "tests::configuration::prints_its_configuration", "--nocapture", "--include-ignored"]);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OTEL_")) {
        program.env_remove(name);
    }
    let output = program.envs(variables.iter().copied()).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
#[ignore = "runs in a process of its own"]
fn prints_its_configuration() {
    let otel = match from_env() {
        Ok(otel) => otel,
        Err(error) => return eprintln!("{error}"),
    };
    let spans = match otel.spans {
        trace::Spans::Export(..) => "exported",
        trace::Spans::Propagate => "propagated",
        trace::Spans::Off => "off",
    };
    let metrics = if otel.metrics.is_some() { "exported" } else { "off" };
    let service = trace::resource().get(&opentelemetry::Key::new("service.name")).unwrap();
    eprintln!("service {service}, spans {spans}, metrics {metrics}");
    #[cfg(feature = "prometheus")]
    if otel.prometheus.is_some() {
        use std::io::{Read as _, Write as _};

        let port: u16 = std::env::var("OTEL_EXPORTER_PROMETHEUS_PORT").unwrap().parse().unwrap();
        // Only a server at all addresses has this one, too.
        if cfg!(target_os = "linux") && std::net::TcpStream::connect(("127.0.0.2", port)).is_ok() {
            eprintln!("at all addresses");
        }
        let mut scrape = std::net::TcpStream::connect(("localhost", port)).unwrap();
        scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut response = String::new();
        scrape.read_to_string(&mut response).unwrap();
        eprint!("{response}");
    }
}

#[test]
fn variables_choose_what_is_exported() {
    let otlp = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let both = "spans exported, metrics exported\n";
    let unsupported = |protocol| format!("`OTEL_EXPORTER_OTLP_PROTOCOL`: unsupported protocol `{protocol}`\n");
    let program = std::env::current_exe().unwrap();
    let program = format!("service {}, spans off, metrics off\n", program.file_stem().unwrap().display());
    for (variables, expected) in [
        (&[][..], &*program),
        (&[("OTEL_SERVICE_NAME", "fruit")], "service fruit, "),
        (&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=fruit")], "service fruit, "),
        (&[("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")], &*program),
        (&[("OTEL_TRACES_EXPORTER", "")], "spans off, metrics off\n"),
        (&[("OTEL_TRACES_EXPORTER", "none")], "spans propagated, metrics off\n"),
        (&[("OTEL_PROPAGATORS", "")], "spans off, metrics off\n"),
        (&[("OTEL_PROPAGATORS", "b3")], "unknown propagator `b3`\n"),
        (&[otlp], both),
        (&[otlp, ("OTEL_METRICS_EXPORTER", "none")], "spans exported, metrics off\n"),
        (&[otlp, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], both),
        (&[otlp, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], both),
        (&[otlp, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")], &unsupported("http/json")),
        // The protocol of a signal takes precedence.
        (
            &[
                otlp,
                ("OTEL_METRICS_EXPORTER", "none"),
                ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ],
            "spans exported, metrics off\n",
        ),
        (&[otlp, ("OTEL_EXPORTER_OTLP_CERTIFICATE", "")], both),
        (&[otlp, ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem")], "`OTEL_EXPORTER_OTLP_CERTIFICATE` is not supported\n"),
        (
            &[otlp, ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "key.pem")],
            "`OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY` is not supported\n",
        ),
    ] {
        let found = configuration(variables);
        assert!(found.contains(expected), "{variables:?}\n{found}");
    }
}

/// The metrics have no authentication.
#[test]
#[cfg(feature = "prometheus")]
fn prometheus_listens_where_variables_say_or_else_at_localhost() {
    // Below the ports that systems assign to connections, so nothing takes it meanwhile.
    let mut ports = (20_000..32_000).cycle().skip(std::process::id() as usize % 12_000);
    let port = ports.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    let port = port.to_string();
    let variables = [
        ("OTEL_METRICS_EXPORTER", "prometheus"),
        ("OTEL_EXPORTER_PROMETHEUS_PORT", &*port),
        ("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1"),
    ];
    for variables in [&variables[..], &variables[..2]] {
        let found = configuration(variables);
        assert!(found.contains("spans off, metrics off\nHTTP/1.1 200 OK\r\n"), "{variables:?}: {found}");
    }
    let invalid = [("OTEL_METRICS_EXPORTER", "prometheus"), ("OTEL_EXPORTER_PROMETHEUS_PORT", "x")];
    assert!(configuration(&invalid).contains("invalid port `x`\n"));
}

#[test]
#[cfg(feature = "grpc")]
fn exporters_need_no_runtime() {
    // Without variables, OTLP uses HTTP if it is compiled.
    assert_eq!(config::uses_grpc("TRACES").unwrap(), cfg!(not(feature = "http")));
    exporter::spans().unwrap();
    exporter::metrics().unwrap();
}
