//! Spans and times of calls on their way to a collector, by OTLP over HTTP with protobuf.
//!
//! No call waits for it: spans that find no room, and those that the collector does not take, are
//! dropped and counted.

mod counts;
mod endpoint;
mod exporter;
mod measures;
mod messages;
mod post;

pub(crate) use counts::OtlpMetrics;
pub(crate) use endpoint::Endpoint;
pub(crate) use exporter::{Exporter, Sending};
pub(crate) use measures::Measured;
pub(crate) use messages::{Attributes, Event, Failure, KeyValue, Kind, Span};
