//! The log: lines on standard error, as text or as JSON. Lines about failures name their request, and at level debug every line
//! names its request and execution. Where this program was built with the feature `otel`, spans go to an
//! OpenTelemetry collector.
//!
//! Promise (R12): no level shows a secret. Our own lines name none. Libraries print whole messages and requests at their
//! lower levels, sealed request states and what people typed among them, so of theirs only warnings and errors are shown,
//! whatever `COUNTERSIGN_LOG` says. (rmcp also writes a line for each request at level info.)

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::args::LogFormat;
use crate::config::Environment;
use crate::exit::Problem;

/// What our own lines name as their target: this crate, and those it is made of.
const OURS: &str = "countersign";
const OUR_CRATES: &str = "countersign_";

/// The most detailed level at which others' lines are shown.
const MOST_OF_OTHERS: Level = Level::WARN;

/// Keeps the log going; what is queued for a collector is sent when this is dropped.
#[must_use = "the log ends when this is dropped"]
pub(crate) struct Logging {
    #[cfg(feature = "otel")]
    spans: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

impl Logging {
    /// Starts the log at a level, unless `COUNTERSIGN_LOG` says another.
    pub(crate) fn start(environment: &Environment, level: &str, format: LogFormat) -> Result<Self, Problem> {
        let directives = environment.text("COUNTERSIGN_LOG").unwrap_or(level.into());
        let filter = EnvFilter::try_new(&directives).map_err(|e| {
            Problem::usage(format!("COUNTERSIGN_LOG: {e}"))
                .hint("Write a level such as info, or countersign_kernel=debug.")
        })?;
        let filter = filter.and(filter_fn(is_fit_to_show));
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
            LogFormat::Text => lines.with_filter(filter).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        };
        let registry = Registry::default().with(lines);
        #[cfg(feature = "otel")]
        {
            let (layer, spans) = collector::layer()?;
            // A program that embeds this one may have its own subscriber; then that one stays.
            let _ = registry.with(layer).try_init();
            Ok(Self { spans })
        }
        #[cfg(not(feature = "otel"))]
        {
            // As above.
            let _ = registry.try_init();
            Ok(Self {})
        }
    }
}

/// Whether a line or span may be shown at all.
fn is_fit_to_show(about: &Metadata<'_>) -> bool {
    let ours =
        about.target().split("::").next().is_some_and(|name| name == OURS || name.starts_with(OUR_CRATES));
    ours || *about.level() <= MOST_OF_OTHERS
}

#[cfg(feature = "otel")]
impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(spans) = &self.spans
            && let Err(error) = spans.shutdown()
        {
            tracing::warn!(%error, "the last spans did not reach the collector");
        }
    }
}

/// Spans for a collector, where `OTEL_EXPORTER_OTLP_ENDPOINT` names one.
#[cfg(feature = "otel")]
mod collector {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::Layer;
    use tracing_subscriber::registry::LookupSpan;

    use crate::exit::Problem;

    type Spans<S> = Option<Box<dyn Layer<S> + Send + Sync>>;

    pub(super) fn layer<S>() -> Result<(Spans<S>, Option<SdkTracerProvider>), Problem>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
            return Ok((None, None));
        }
        // The exporter connects from a thread of its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build().map_err(|error| {
            Problem::usage(format!("OTEL_EXPORTER_OTLP_ENDPOINT: {error}"))
                .hint("Write a collector's address, such as http://127.0.0.1:4318.")
        })?;
        let resource = Resource::builder().with_service_name("countersign").build();
        let spans =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("countersign"));
        // The spans of requests are of level debug, so that a log of level info costs nothing for each request.
        let filter = filter_fn(|about| {
            about.is_span() && *about.level() <= Level::DEBUG || *about.level() <= Level::INFO
        });
        Ok((Some(layer.with_filter(filter).boxed()), Some(spans)))
    }
}
