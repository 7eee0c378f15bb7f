//! Metrics, exported and read by Prometheus.

use super::*;

#[tokio::test]
async fn operations_are_measured_in_the_buckets_of_the_conventions() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let mut telemetry = otel(trace::Spans::Off);
    telemetry.metrics = Some(metrics::Metrics::new(provider.clone()));
    let mut client = client(Server::empty("metrics", "1.0.0").telemetry(telemetry));
    call(&mut client, json!({"fails": true})).await;
    provider.force_flush().unwrap();
    exporter.reset();
    provider.force_flush().unwrap();

    let exported = exporter.get_finished_metrics().unwrap();
    let metrics: Vec<_> =
        exported.iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics()).collect();
    assert!(metrics.iter().any(|metric| metric.name() == "mcp.server.sessions"), "{metrics:?}");
    let duration = metrics.iter().find(|metric| metric.name() == "mcp.server.operation.duration").unwrap();
    assert_eq!(duration.unit(), "s");
    let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = duration.data() else { panic!("{duration:?}") };
    let point = histogram.data_points().next().unwrap();
    assert_eq!(point.bounds().collect::<Vec<_>>(), attributes::BUCKETS[..14]);
    let mut attributes: Vec<_> =
        point.attributes().map(|attribute| format!("{}={}", attribute.key, attribute.value)).collect();
    attributes.sort();
    assert_eq!(
        attributes,
        [
            "error.type=tool_error",
            "gen_ai.operation.name=execute_tool",
            "gen_ai.tool.name=hand_on",
            "mcp.method.name=tools/call",
            "mcp.protocol.version=2026-07-28",
            "network.transport=pipe",
        ]
    );
}

/// Long operations have buckets of their own.
#[test]
fn each_duration_is_exported_in_its_own_buckets() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let metrics = metrics::Metrics::new(provider.clone());
    for metric in DurationMetric::ALL {
        metrics.record(metric, &[const { ("", None) }; 10], std::time::Duration::from_secs(3 * 3600));
    }
    provider.force_flush().unwrap();
    let exported = exporter.get_finished_metrics().unwrap();
    let found: Vec<_> =
        exported.iter().flat_map(ResourceMetrics::scope_metrics).flat_map(ScopeMetrics::metrics).collect();
    for metric in DurationMetric::ALL {
        let exported = found.iter().find(|found| found.name() == metric.describe().0).unwrap();
        let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = exported.data() else { panic!("{exported:?}") };
        let bounds: Vec<_> = histogram.data_points().next().unwrap().bounds().collect();
        assert_eq!(bounds, metric.buckets(), "{metric:?}");
    }
}

#[tokio::test]
async fn each_collection_reads_the_gauges_and_counters() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let mut telemetry = otel(trace::Spans::Off);
    telemetry.metrics = Some(metrics::Metrics::new(provider.clone()));
    let server = Server::empty("statistics", "1.0.0").with::<hand_on>().telemetry(telemetry).build().unwrap();
    let read = |name: &str| {
        exporter.reset();
        provider.force_flush().unwrap();
        let exported = exporter.get_finished_metrics().unwrap();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        let metric = scopes.flat_map(ScopeMetrics::metrics).find(|metric| metric.name() == name).unwrap();
        match metric.data() {
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                (sum.is_monotonic(), sum.data_points().map(|point| point.value()).collect::<Vec<_>>())
            }
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                (sum.is_monotonic(), sum.data_points().map(|point| point.value().try_into().unwrap()).collect())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read("mcp.server.sessions"), (false, vec![0]));
    let mut client = server.test_client(Revision::V2025_11_25);
    client.tools().await.unwrap();
    assert_eq!(read("mcp.server.sessions"), (false, vec![1]));
    drop(client);
    assert_eq!(read("mcp.server.sessions"), (false, vec![0]));
    let (is_monotonic, values) = read("mcp.server.tasks.ended");
    assert!(is_monotonic);
    assert_eq!(values.len(), 4);
    exporter.reset();
    drop(server);
    // The last measurements are not lost.
    assert!(!exporter.get_finished_metrics().unwrap().is_empty());
}

/// Telemetry that counts operations.
#[derive(Default)]
struct Count(AtomicUsize);

impl Telemetry for Count {
    fn server_operation(&self, _: &Operation<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_server_is_unchanged_if_nothing_is_exported() {
    for (spans, has_metrics, is_unchanged) in
        [(trace::Spans::Off, false, true), (trace::Spans::Off, true, false), (trace::Spans::Propagate, false, false)]
    {
        let mut telemetry = otel(spans);
        telemetry.metrics = has_metrics.then(|| metrics::Metrics::new(SdkMeterProvider::default()));
        // A server has one telemetry.
        let other = Arc::new(Count::default());
        let server = telemetry.observe(Server::empty("observed", "1.0.0").telemetry(Arc::clone(&other)));
        call(&mut client(server), json!({"fails": false})).await;
        assert_eq!(other.0.load(Ordering::Relaxed) > 0, is_unchanged, "{has_metrics}");
    }
}

#[tokio::test]
#[cfg(feature = "prometheus")]
async fn prometheus_reads_the_same_measurements() {
    /// Greet.
    #[prompt]
    fn greet() -> &'static str {
        "Hello"
    }

    let prometheus = Prometheus::new();
    let telemetry = otel(trace::Spans::Off).with_prometheus(&prometheus);
    let mut client = client(Server::empty("prometheus", "1.0.0").with::<greet>().telemetry(telemetry));
    call(&mut client, json!({"fails": false})).await;
    call(&mut client, json!({"fails": false})).await;
    client.request("prompts/get", json!({"name": "greet"})).await.unwrap();
    let text = prometheus.text();
    let labels = r#"mcp_method_name="tools/call",gen_ai_tool_name="hand_on",gen_ai_operation_name="execute_tool",mcp_protocol_version="2026-07-28",network_transport="pipe""#;
    let prompt = r#"mcp_method_name="prompts/get",gen_ai_prompt_name="greet",mcp_protocol_version="2026-07-28",network_transport="pipe""#;
    let name = "mcp_server_operation_duration_seconds";
    for line in [
        format!("# TYPE {name} histogram"),
        format!("{name}_bucket{{{labels},le=\"300\"}} 2"),
        format!("{name}_bucket{{{labels},le=\"+Inf\"}} 2"),
        format!("{name}_count{{{labels}}} 2"),
        format!("{name}_count{{{prompt}}} 1"),
        "# TYPE mcp_server_sessions gauge".to_owned(),
        "mcp_server_sessions 0".to_owned(),
        "# TYPE mcp_server_tasks_ended_total counter".to_owned(),
        "mcp_server_tasks_ended_total{mcp_task_status=\"completed\"} 0".to_owned(),
        "mcp_server_tasks_ended_total{mcp_task_status=\"expired\"} 0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
}

/// The error of a prompt has a code, and a tool has none.
#[tokio::test]
#[cfg(feature = "prometheus")]
async fn measurements_name_prompts_and_codes_of_errors() {
    let prometheus = Prometheus::new();
    let telemetry = otel(trace::Spans::Off).with_prometheus(&prometheus);
    let mut client = client(Server::empty("prompts", "1.0.0").with::<describe>().telemetry(telemetry));
    client.prompt("describe", json!({"what": "it"})).await.unwrap();
    client.request("prompts/get", json!({"name": "describe"})).await.unwrap_err();
    let text = prometheus.text();
    let count = |label: &str| text.lines().filter(|line| line.contains("_count{") && line.contains(label)).count();
    assert_eq!(count("gen_ai_prompt_name=\"describe\""), 2, "{text}");
    assert_eq!(count("rpc_response_status_code=\"-32602\""), 1, "{text}");
    assert!(text.contains("# TYPE mcp_server_buffer_usage_bytes gauge\n"), "{text}");
}

#[test]
#[cfg(feature = "prometheus")]
fn values_of_labels_are_escaped() {
    let prometheus = Prometheus::new();
    let mut attributes = [const { ("", None) }; 10];
    attributes[0] = ("name", Some("a\\b\"c\nd"));
    prometheus.record(DurationMetric::Stream, &attributes, std::time::Duration::ZERO);
    let text = prometheus.text();
    assert!(text.contains(r#"_count{name="a\\b\"c\nd"} 1"#), "{text}");
}

/// Tasks and streams last longer than operations.
#[test]
#[cfg(feature = "prometheus")]
fn long_durations_have_buckets_of_their_own() {
    let prometheus = Prometheus::new();
    let no_attributes = [const { ("", None) }; 10];
    for (metric, name) in [(DurationMetric::Task, "task"), (DurationMetric::Stream, "stream")] {
        prometheus.record(metric, &no_attributes, std::time::Duration::from_secs(3 * 3600));
        let line = format!("mcp_server_{name}_duration_seconds_bucket{{le=\"28800\"}} 1\n");
        assert!(prometheus.text().contains(&line), "{line}");
    }
}

/// Telemetry that records each operation as those of clients and tasks as well, and all sessions as timed out.
#[cfg(feature = "prometheus")]
struct Everything(Otel);

#[cfg(feature = "prometheus")]
impl Telemetry for Everything {
    fn server_operation(&self, operation: &Operation<'_>) {
        self.0.client_operation(operation);
        self.0.task_operation(operation);
    }

    fn session_ended(&self, session: &SessionEnd<'_>) {
        let mut session = session.clone();
        session.error_type = Some("timeout");
        self.0.session_ended(&session);
    }

    fn stream_ended(&self, stream: &StreamEnd) {
        self.0.stream_ended(stream);
    }

    fn backend_operation(&self, operation: &BackendOperation) {
        let mut operation = *operation;
        operation.error_type = Some("unavailable");
        self.0.backend_operation(&operation);
    }
}

#[tokio::test]
#[cfg(feature = "prometheus")]
async fn each_kind_of_measurement_has_a_metric() {
    let prometheus = Prometheus::new();
    let telemetry = Everything(otel(trace::Spans::Off).with_prometheus(&prometheus));
    let server = Server::empty("everything", "1.0.0").with::<hand_on>().telemetry(telemetry);
    let server = server.backend(mcp_runtime::backend::MemoryBackend::default()).build().unwrap();
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let mut client = TestClient::over_http(service, "/", Revision::V2025_11_25);
    call(&mut client, json!({"fails": false})).await;
    drop(client);
    let http = r#"network_transport="tcp",network_protocol_name="http",network_protocol_version="1.1""#;
    let call = format!(
        r#"mcp_method_name="tools/call",gen_ai_tool_name="hand_on",gen_ai_operation_name="execute_tool",mcp_protocol_version="2025-11-25",{http}"#
    );
    for (name, labels) in [
        ("mcp_client_operation", &*call),
        ("mcp_server_task", &call),
        ("mcp_server_session", &format!(r#"mcp_protocol_version="2025-11-25",{http},error_type="timeout""#)),
        ("mcp_server_stream", r#"mcp_stream_kind="session""#),
        ("mcp_server_backend_operation", r#"mcp_backend_operation="insert",error_type="unavailable""#),
    ] {
        let line = format!("{name}_duration_seconds_count{{{labels}}} 1");
        for _ in 0..1000 {
            if prometheus.text().contains(&line) {
                break;
            }
            tokio::task::yield_now().await;
        }
        let text = prometheus.text();
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
}

#[test]
#[cfg(feature = "prometheus")]
fn time_series_are_bounded() {
    let prometheus = Prometheus::new();
    // A series that exists is found again.
    for number in (0..3_000).chain([7]) {
        let mut attributes: Attributes<'_> = [const { ("", None) }; 10];
        let value = format!("\"{number}\"");
        attributes[0] = ("name", Some(&*value));
        prometheus.record(DurationMetric::Session, &attributes, std::time::Duration::from_millis(50));
    }
    let no_attributes = [const { ("", None) }; 10];
    prometheus.record(DurationMetric::Stream, &no_attributes, std::time::Duration::from_secs(3 * 3600));
    let text = prometheus.text();
    for (boundary, count) in [("300", 0), ("7200", 0), ("28800", 1), ("+Inf", 1)] {
        let line = format!("mcp_server_stream_duration_seconds_bucket{{le=\"{boundary}\"}} {count}\n");
        assert!(text.contains(&line), "{line}");
    }
    assert!(!text.contains("mcp_server_session_duration_seconds_bucket{otel_metric_overflow=\"true\",le=\"7200\"}"));
    assert!(text.contains(r#"_bucket{name="\"7\"",le="0.05"} 2"#), "{}", &text[..1000]);
    assert!(text.contains("mcp_server_session_duration_seconds_count{otel_metric_overflow=\"true\"} 1000\n"));
    assert_eq!(text.matches("le=\"+Inf\"").count(), 2_002);
    assert_eq!(text.matches("# TYPE ").count(), 2, "metrics without measurements are left out");
}

#[test]
#[cfg(feature = "prometheus")]
fn threads_record_into_one_histogram() {
    let prometheus = Prometheus::new();
    let no_attributes = [const { ("", None) }; 10];
    let time = std::time::Duration::from_millis(50);
    let record = || (0..100).for_each(|_| prometheus.record(DurationMetric::Stream, &no_attributes, time));
    std::thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(record))));
    let name = "mcp_server_stream_duration_seconds";
    let (text, end) = (prometheus.text(), format!("{name}_sum 100\n{name}_count 2000\n"));
    assert!(text.contains(&end), "{text}");
}
