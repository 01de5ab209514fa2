//! Times of calls as OpenTelemetry's conventions for generative AI name and divide them
//! (`gen_ai.server.*`): totals since the router's start.

use std::collections::BTreeMap;
use std::sync::Mutex;

use spectrie_types::Histogram;

use super::messages::{
    Attributes, Distribution, DistributionPoint, ExportMetricsServiceRequest, Metric, Resource,
    ResourceMetrics, Scope, ScopeMetrics,
};
use crate::sync::{lock, unix_time};

/// Most combinations of attributes: models come and go. Later ones name no model.
const MAX_SERIES: usize = 256;

const REQUEST_SECONDS: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
const FIRST_TOKEN_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];
/// Those of the conventions, and three below them: a step that accepts drafts gives tokens faster.
const TOKEN_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
];

/// A call that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) operation: &'static str,
    /// One that is served.
    pub(crate) model: Option<String>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<&'static str>,
    pub(crate) request_s: f64,
    /// None where no token came.
    pub(crate) first_token_s: Option<f64>,
    /// After the first, of calls that ended well and have more.
    pub(crate) per_token_s: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    operation: &'static str,
    model: Option<String>,
    failure: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Series {
    request: Histogram,
    first_token: Histogram,
    per_token: Histogram,
}

/// Name and description of a metric, and where a series has it.
type Kind = (&'static str, &'static str, fn(&Series) -> &Histogram);

/// All calls that ended since this was made.
#[derive(Debug)]
pub(super) struct Measures {
    began_unix_ns: u64,
    series: Mutex<BTreeMap<Key, Series>>,
}

impl Measures {
    pub(super) fn new() -> Self {
        Self {
            began_unix_ns: unix_ns(),
            series: Mutex::default(),
        }
    }

    pub(super) fn add(&self, call: Measured) {
        let mut all = lock(&self.series);
        let mut key = Key {
            operation: call.operation,
            model: call.model,
            failure: call.failure,
        };
        if all.len() >= MAX_SERIES && !all.contains_key(&key) {
            key.model = None;
        }
        let series = all.entry(key).or_insert_with(|| Series {
            request: Histogram::new(REQUEST_SECONDS),
            first_token: Histogram::new(FIRST_TOKEN_SECONDS),
            per_token: Histogram::new(TOKEN_SECONDS),
        });
        series.request.observe(call.request_s);
        for (histogram, seconds) in [
            (&mut series.first_token, call.first_token_s),
            (&mut series.per_token, call.per_token_s),
        ] {
            if let Some(seconds) = seconds {
                histogram.observe(seconds);
            }
        }
    }

    /// What a collector is sent now; none before the first call. `resource` and `scope` say whose it is.
    pub(super) fn request(
        &self,
        resource: Resource,
        scope: Scope,
    ) -> Option<ExportMetricsServiceRequest> {
        let all = lock(&self.series).clone();
        let now = unix_ns();
        let metric = |(name, about, part): Kind| {
            let points: Vec<_> = all
                .iter()
                .filter_map(|(key, series)| {
                    let histogram = part(series);
                    let count = histogram.counts().iter().sum();
                    (count > 0).then(|| DistributionPoint {
                        start_time_unix_nano: self.began_unix_ns,
                        time_unix_nano: now,
                        count,
                        sum: Some(histogram.sum()),
                        bucket_counts: histogram.counts().to_vec(),
                        explicit_bounds: histogram.bounds().to_vec(),
                        attributes: attributes(key).all(),
                    })
                })
                .collect();
            // One without a point says nothing.
            (!points.is_empty()).then(|| Metric {
                name: name.into(),
                description: about.into(),
                unit: "s".into(),
                histogram: Some(Distribution::of_totals(points)),
            })
        };
        let kinds: [Kind; 3] = [
            (
                "gen_ai.server.request.duration",
                "Time from a request's arrival to the last byte of its answer",
                |series| &series.request,
            ),
            (
                "gen_ai.server.time_to_first_token",
                "Time from a request's arrival to its first token",
                |series| &series.first_token,
            ),
            (
                "gen_ai.server.time_per_output_token",
                "Time for each token after the first, of requests that ended well",
                |series| &series.per_token,
            ),
        ];
        let metrics = kinds.into_iter().filter_map(metric).collect();
        (!all.is_empty()).then(|| ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource),
                scopes: vec![ScopeMetrics {
                    scope: Some(scope),
                    metrics,
                }],
            }],
        })
    }
}

fn attributes(key: &Key) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.text("gen_ai.operation.name", key.operation);
    attributes.text("gen_ai.provider.name", "spectrie");
    attributes.text("gen_ai.request.model", key.model.as_deref());
    if key.failure.is_none() {
        attributes.text("gen_ai.response.model", key.model.as_deref());
    }
    attributes.text("error.type", key.failure);
    attributes
}

fn unix_ns() -> u64 {
    u64::try_from(unix_time().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(model: &str) -> Measured {
        Measured {
            operation: "chat",
            model: Some(model.into()),
            failure: None,
            request_s: 0.5,
            first_token_s: Some(0.003),
            per_token_s: None,
        }
    }

    fn sent(measures: &Measures) -> Vec<Metric> {
        let request = measures.request(Resource::default(), Scope::default());
        let mut resources = request.map(|one| one.resource_metrics).unwrap_or_default();
        let scopes = resources.pop().map(|one| one.scopes).unwrap_or_default();
        scopes.into_iter().flat_map(|one| one.metrics).collect()
    }

    #[test]
    fn each_time_is_in_the_bucket_of_its_size() {
        let measures = Measures::new();
        assert!(sent(&measures).is_empty(), "no call has ended");
        measures.add(call("m"));
        measures.add(call("m"));
        let all = sent(&measures);
        let points: Vec<_> = all.iter().map(|one| one.histogram.clone()).collect();
        let points: Vec<_> = points.into_iter().flatten().map(|one| one.points).collect();
        assert_eq!(points[0].len(), 1);
        assert_eq!(
            points[0][0].bucket_counts[6], 2,
            "above 0.32 s, at most 0.64 s"
        );
        assert_eq!(points[1][0].bucket_counts[1], 2);
        assert_eq!(points[1][0].count, 2);
        assert_eq!(points.len(), 2, "no call had a second token");
        for point in points.iter().flatten() {
            assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        }
    }

    #[test]
    fn clients_that_make_names_up_fill_no_memory() {
        let measures = Measures::new();
        for number in 0..10 * MAX_SERIES {
            measures.add(call(&number.to_string()));
        }
        let all = sent(&measures);
        let points = &all[0].histogram.as_ref().unwrap().points;
        assert_eq!(points.len(), MAX_SERIES + 1);
        let counts: u64 = points.iter().map(|point| point.count).sum();
        assert_eq!(counts, 10 * MAX_SERIES as u64);
    }
}
