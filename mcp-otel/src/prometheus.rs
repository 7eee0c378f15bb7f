//! Metrics in the text format of Prometheus. `prometheus-client` 0.25 has a lock per histogram, and writes the format of OpenMetrics
//! only, in which `promtool check metrics` finds counters without a description.

use std::{
    borrow::Cow,
    env,
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use mcp_runtime::telemetry::{Stat, Stats};

use crate::{
    Error,
    attributes::{Attributes, BUCKETS, DurationMetric},
    series::Series,
};

/// The number of threads that serve scrapes. Further scrapes wait.
const THREADS: usize = 4;
/// The time for reading a request and for writing its response.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// The pause after a connection could not be accepted.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
/// The number of copies of a histogram. Threads that share one wait for each other's caches.
const SHARDS: usize = 8;
/// The maximum size of the head of a request.
const MAX_HEAD: usize = 8 * 1024;

/// Metrics for Prometheus, without OpenTelemetry. Clones share them.
///
/// With `OTEL_METRICS_EXPORTER=prometheus`, [`from_env`](crate::from_env) creates and serves them. To serve them in an
/// application of your own:
///
/// ```
/// use axum::{Router, routing::get};
/// use mcp_otel::{Error, Prometheus};
/// use mcp_runtime::Server;
///
/// fn observe(server: Server) -> Result<(Server, Router), Error> {
///     let metrics = Prometheus::new();
///     let server = mcp_otel::from_env()?.with_prometheus(&metrics).observe(server);
///     Ok((server, Router::new().route("/metrics", get(async move || metrics.text()))))
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Prometheus(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    durations: [Series<Histogram>; DurationMetric::ALL.len()],
    stats: OnceLock<Stats>,
}

#[derive(Debug, Default)]
struct Histogram {
    labels: String,
    boundaries: &'static [f64],
    shards: [Shard; SHARDS],
}

/// The recordings of some of the threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    /// The number of values in each bucket; the one after the last boundary has no upper boundary.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    microseconds: AtomicU64,
}

thread_local! {
    /// The index of the thread's shard.
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

impl Prometheus {
    /// Creates metrics without measurements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `/metrics` at `OTEL_EXPORTER_PROMETHEUS_HOST` and `OTEL_EXPORTER_PROMETHEUS_PORT`, by default `localhost:9464`.
    pub(crate) fn listen() -> Result<Self, Error> {
        let var = |name, default: &str| {
            env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        let host = var("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost");
        let port = var("OTEL_EXPORTER_PROMETHEUS_PORT", "9464");
        let port =
            port.parse().map_err(|_| Error(format!("`OTEL_EXPORTER_PROMETHEUS_PORT`: invalid port `{port}`")))?;
        let listener = TcpListener::bind((&*host, port)).map_err(|error| Error(format!("`{host}:{port}`: {error}")))?;
        let metrics = Self::new();
        for _ in 0..THREADS {
            let (listener, served) = (listener.try_clone().map_err(Error::new)?, metrics.clone());
            let serve = move || loop {
                match listener.accept() {
                    // A scraper that is gone needs no response.
                    Ok((stream, _)) => drop(served.respond(stream)),
                    // The process has no more file descriptors.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            };
            std::thread::Builder::new().name("prometheus".to_owned()).spawn(serve).map_err(Error::new)?;
        }
        Ok(metrics)
    }

    /// Returns the metrics in the text format of Prometheus, whose media type is `text/plain; version=0.0.4`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        for (duration, series) in DurationMetric::ALL.into_iter().zip(&self.0.durations) {
            let series = series.all();
            if !series.is_empty() {
                let (name, description) = duration.describe();
                let name = metric_name(name, "s", false);
                write!(text, "# HELP {name} {description}.\n# TYPE {name} histogram\n")?;
                series.iter().try_for_each(|histogram| histogram.write(text, &name))?;
            }
        }
        let stats = self.0.stats.get().map(Stats::read).unwrap_or_default();
        for metric in stats.chunk_by(|a, b| a.name == b.name) {
            let Stat { description, is_counter, .. } = metric[0];
            let name = metric_name(metric[0].name, metric[0].unit, is_counter);
            let kind = if is_counter { "counter" } else { "gauge" };
            write!(text, "# HELP {name} {description}.\n# TYPE {name} {kind}\n")?;
            for Stat { attribute, value, .. } in metric {
                match attribute {
                    Some((key, label)) => writeln!(text, "{name}{{{}=\"{label}\"}} {value}", label_name(key))?,
                    None => writeln!(text, "{name} {value}")?,
                }
            }
        }
        Ok(())
    }

    pub(crate) fn connect(&self, stats: Stats) {
        // The metrics of a second server would repeat names.
        let _ = self.0.stats.set(stats);
    }

    pub(crate) fn record(&self, duration: DurationMetric, attributes: &Attributes<'_>, time: std::time::Duration) {
        let new = |attributes: Option<&Attributes<'_>>| Histogram {
            labels: attributes.map_or_else(|| "otel_metric_overflow=\"true\"".to_owned(), labels),
            boundaries: duration.buckets(),
            ..Histogram::default()
        };
        self.0.durations[duration as usize].record(attributes, new, |histogram| histogram.record(time));
    }

    /// Responds to one request, and closes the connection.
    fn respond(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        let left = || match deadline.saturating_duration_since(Instant::now()) {
            std::time::Duration::ZERO => Err(std::io::ErrorKind::TimedOut.into()),
            left => std::io::Result::Ok(Some(left)),
        };
        let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            stream.set_read_timeout(left()?)?;
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                _ if head.len() > MAX_HEAD => return Ok(()),
                count => head.extend_from_slice(&buffer[..count]),
            }
        }
        let is_found = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?");
        let (status, body) = if is_found { ("200 OK", self.text()) } else { ("404 Not Found", String::new()) };
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        let mut unsent = response.as_bytes();
        while !unsent.is_empty() {
            stream.set_write_timeout(left()?)?;
            match stream.write(unsent)? {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                count => unsent = &unsent[count..],
            }
        }
        Ok(())
    }
}

impl Histogram {
    fn record(&self, time: std::time::Duration) {
        let seconds = time.as_secs_f64();
        // A thread that ends may have no shard any more.
        let shard = &self.shards[SHARD.try_with(|shard| *shard).unwrap_or_default()];
        shard.buckets[self.boundaries.partition_point(|boundary| *boundary < seconds)].fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        shard.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    fn write(&self, text: &mut String, name: &str) -> std::fmt::Result {
        let sum = |value: fn(&Shard, usize) -> &AtomicU64, index| -> u64 {
            self.shards.iter().map(|shard| value(shard, index).load(Ordering::Relaxed)).sum()
        };
        let labels = &*self.labels;
        let separator = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        for index in 0..=self.boundaries.len() {
            count += sum(|shard, index| &shard.buckets[index], index);
            let boundary =
                self.boundaries.get(index).map_or(Cow::Borrowed("+Inf"), |boundary| boundary.to_string().into());
            writeln!(text, "{name}_bucket{{{labels}{separator}le=\"{boundary}\"}} {count}")?;
        }
        let sum = std::time::Duration::from_micros(sum(|shard, _| &shard.microseconds, 0)).as_secs_f64();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        writeln!(text, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}")
    }
}

/// Returns a name as OpenTelemetry translates it for Prometheus: with the unit, and `_total` for counters.
fn metric_name(name: &str, unit: &str, is_counter: bool) -> String {
    let unit = match unit {
        "s" => "_seconds",
        "By" => "_bytes",
        // Annotations such as `{call}`.
        _ => "",
    };
    format!("{}{unit}{}", label_name(name), if is_counter { "_total" } else { "" })
}

fn label_name(name: &str) -> String {
    name.replace('.', "_")
}

fn labels(attributes: &Attributes<'_>) -> String {
    let present = attributes.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let labels = present.map(|(name, value)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        format!("{}=\"{value}\"", label_name(name))
    });
    labels.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the response to everything that a client sends, or nothing if there is none.
    fn response(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let limits = stream.try_clone().unwrap();
        Prometheus::new().respond(stream).unwrap();
        assert!(limits.read_timeout().unwrap().is_some_and(|limit| limit <= TIMEOUT));
        let mut response = Vec::new();
        let has_response = limits.write_timeout().unwrap().is_some_and(|limit| limit <= TIMEOUT);
        drop(limits);
        // The connection is reset if the request was not read to its end.
        let _ = client.read_to_end(&mut response);
        assert_eq!(has_response, !response.is_empty());
        String::from_utf8(response).unwrap()
    }

    #[test]
    fn a_request_for_the_metrics_gets_them() {
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD + 2048));
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
            ("GET /metrics?x HTTP/1.1\r\n\r\nbody", "HTTP/1.1 200 OK\r\n"),
            ("GET /metrics/x HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", ""),
            (&long, ""),
            (&format!("{long}\r\n\r\n"), ""),
        ] {
            let found = response(request);
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{request}: {found}");
        }
    }
}
