//! What workers say of themselves when they join, as labels of a series that is always 1.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use spectrie_proto::worker_v1::Hello;

use super::table::Registrar;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DrafterLabels {
    model: String,
    worker: String,
    drafter: String,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    model: String,
    worker: String,
    block_size: u32,
    num_blocks: u32,
}

/// Drafters and caches of ready workers.
#[derive(Debug)]
pub(crate) struct Facts {
    drafter: Family<DrafterLabels, Gauge>,
    cache: Family<CacheLabels, Gauge>,
}

impl Facts {
    pub(super) fn new(all: &mut Registrar) -> Self {
        Self {
            drafter: all.add("worker_drafter", Family::default()),
            cache: all.add("cache_config_info", Family::default()),
        }
    }

    /// Notes a ready worker.
    pub(crate) fn joined(&self, worker: &str, hello: &Hello) {
        for labels in drafters(worker, hello) {
            self.drafter.get_or_create(&labels).set(1);
        }
        if let Some(labels) = cache(worker, hello) {
            self.cache.get_or_create(&labels).set(1);
        }
    }

    /// Forgets one that leaves.
    pub(crate) fn left(&self, worker: &str, hello: &Hello) {
        for labels in drafters(worker, hello) {
            self.drafter.remove(&labels);
        }
        if let Some(labels) = cache(worker, hello) {
            self.cache.remove(&labels);
        }
    }
}

fn drafters(worker: &str, hello: &Hello) -> Vec<DrafterLabels> {
    // A previous worker has one, and names it alone.
    let first = hello.drafter.iter().filter(|_| hello.drafters.is_empty());
    let all = hello.drafters.iter().chain(first);
    let labels = all.map(|drafter| DrafterLabels {
        model: hello.model.clone(),
        worker: worker.to_owned(),
        drafter: drafter.name.clone(),
        kind: drafter.kind.clone(),
    });
    labels.collect()
}

fn cache(worker: &str, hello: &Hello) -> Option<CacheLabels> {
    let capacity = hello.capacity.as_ref()?;
    Some(CacheLabels {
        model: hello.model.clone(),
        worker: worker.to_owned(),
        block_size: capacity.page_size,
        num_blocks: capacity.num_pages,
    })
}

#[cfg(test)]
mod tests {
    use spectrie_proto::worker_v1::{Capacity, Drafter};

    use super::super::Metrics;
    use super::*;

    #[test]
    fn a_worker_shows_its_drafter_and_its_cache_while_it_is_there() {
        let metrics = Metrics::new().with_vllm_names();
        let hello = Hello {
            model: "m".into(),
            drafter: Some(Drafter {
                name: "small".into(),
                kind: "eagle3".into(),
            }),
            capacity: Some(Capacity {
                page_size: 16,
                num_pages: 100,
                ..Default::default()
            }),
            ..Default::default()
        };
        metrics.facts.joined("w1", &hello);
        let (_, text) = metrics.encode();
        for line in [
            "spectrie_worker_drafter{model=\"m\",worker=\"w1\",drafter=\"small\",kind=\"eagle3\"} 1",
            "spectrie_cache_config_info{model=\"m\",worker=\"w1\",block_size=\"16\",num_blocks=\"100\"} 1",
            "vllm:cache_config_info{model_name=\"m\",engine=\"w1\",block_size=\"16\",num_gpu_blocks=\"100\"} 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        metrics.facts.left("w1", &hello);
        assert!(!metrics.encode().1.contains("w1"));
    }
}
