//! The layers of telemetry in the subscriber that the server installs.

/// Adds a layer to the subscriber that [`main!`](crate::main) and [`#[server]`](macro@crate::server) install, if the
/// program contains the crate that calls this macro.
///
/// ```
/// use tracing_subscriber::{Layer, Registry, filter::LevelFilter};
///
/// /// Counts the spans that end.
/// struct Spans;
///
/// impl Layer<Registry> for Spans {
///     fn on_close(&self, _: tracing::span::Id, _: tracing_subscriber::layer::Context<'_, Registry>) {
///         // …
///     }
/// }
///
/// fn layer() -> Box<dyn Layer<Registry> + Send + Sync> {
///     Box::new(Spans.with_filter(LevelFilter::INFO))
/// }
///
/// mcp_runtime::telemetry_layer!(layer);
/// # fn main() {}
/// ```
///
/// The argument is a function without parameters that returns a
/// `Box<dyn tracing_subscriber::Layer<tracing_subscriber::Registry> + Send + Sync>`. It is called before the author's
/// code runs, and not at all if the program has installed a subscriber of its own. The layer should have a filter, since
/// `RUST_LOG` does not apply to it: without one, every event and span of the program is enabled.
#[macro_export]
macro_rules! telemetry_layer {
    ($layer:expr) => {
        $crate::__private::inventory::submit! {
            $crate::__private::TelemetryLayer::new($layer)
        }
    };
}

/// A layer that [`telemetry_layer!`](crate::telemetry_layer) has registered.
#[derive(Debug, Clone, Copy)]
pub struct TelemetryLayer {
    create: fn() -> BoxedLayer,
}

type BoxedLayer = Box<dyn tracing_subscriber::Layer<tracing_subscriber::Registry> + Send + Sync>;

inventory::collect!(TelemetryLayer);

impl TelemetryLayer {
    #[doc(hidden)]
    pub const fn new(create: fn() -> BoxedLayer) -> Self {
        Self { create }
    }

    /// Creates the layers of the program.
    pub(crate) fn create_all() -> impl Iterator<Item = BoxedLayer> {
        inventory::iter::<Self>().map(|layer| (layer.create)())
    }
}
