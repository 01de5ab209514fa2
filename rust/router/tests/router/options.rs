//! The options of a request that a worker receives, and the fate of those it cannot serve.

use crate::support::fake_worker::FakeWorker;
use crate::support::{TestRouter, TestWorker, request, within};

use spectrie_proto::v1;
use spectrie_proto::worker_v1::{self, Start, router_message::Message};
use tonic::Code;

async fn start_of(worker: &mut TestWorker) -> Start {
    loop {
        if let Message::Start(start) = worker.hear().await {
            return start;
        }
    }
}

fn ids(text: &str) -> worker_v1::TokenIds {
    worker_v1::TokenIds {
        ids: text.bytes().map(u32::from).collect(),
    }
}

#[tokio::test]
async fn absent_options_change_nothing() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    within(router.client().await.generate(request("abc")))
        .await
        .unwrap();
    let start = start_of(&mut worker).await;
    let sampling = start.sampling.unwrap();
    assert_eq!(sampling.typical_p.to_string(), "1");
    assert!(sampling.bad_words.is_empty());
    assert_eq!((start.logprobs, start.prompt_logprobs), (None, None));
    assert_eq!((start.structured, start.tenant), (None, None));
}

#[tokio::test]
async fn namespaces_that_clients_name_share_one_tenants_part() {
    let router = TestRouter::with(|config| config.access.allow_client_namespaces = true).await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut places = Vec::new();
    for namespace in [Some("one"), Some("two"), None] {
        let mut asked = request("abc");
        asked.namespace = namespace.map(Into::into);
        within(router.client().await.generate(asked)).await.unwrap();
        let start = start_of(&mut worker).await;
        // The namespace's own where no tenant is named.
        let tenant = start.tenant.unwrap_or_else(|| start.namespace.clone());
        places.push((start.namespace, tenant));
    }
    let expected = [
        ("one", "default"),
        ("two", "default"),
        ("default", "default"),
    ];
    assert_eq!(places, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

fn ask(mode: v1::SpeculationMode) -> v1::GenerateRequest {
    let mut asked = request("abc");
    asked.speculation = Some(v1::Speculation {
        mode: mode.into(),
        ..Default::default()
    });
    asked
}

#[tokio::test]
async fn modes_that_draft_from_a_drafter_alone_are_refused_until_a_worker_has_one() {
    let router = TestRouter::start().await;
    let _plain = router.worker(FakeWorker::default()).await;
    let modes = [v1::SpeculationMode::Eagle2, v1::SpeculationMode::Chain];
    for mode in modes {
        let refused = within(router.client().await.generate(ask(mode))).await;
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let message = status.message();
        assert!(message.contains("speculation.mode: given "), "{message}");
        assert!(message.contains("--drafter PATH"), "{message}");
    }
    let _drafting = router
        .worker(FakeWorker {
            has_drafter: true,
            ..FakeWorker::default()
        })
        .await;
    // Either worker may get it: on the other one, it drafts nothing.
    for mode in modes {
        let asked = within(router.client().await.generate(ask(mode))).await;
        assert_eq!(asked.unwrap().into_inner().choices[0].text, "abc");
    }
}

#[tokio::test]
async fn modes_of_a_drafter_reach_its_worker() {
    let router = TestRouter::start().await;
    let mut worker = router
        .worker(FakeWorker {
            has_drafter: true,
            ..FakeWorker::default()
        })
        .await;
    for (mode, expected) in [
        (
            v1::SpeculationMode::Eagle2,
            worker_v1::SpeculationMode::Eagle2,
        ),
        (
            v1::SpeculationMode::Chain,
            worker_v1::SpeculationMode::Chain,
        ),
    ] {
        within(router.client().await.generate(ask(mode)))
            .await
            .unwrap();
        assert_eq!(start_of(&mut worker).await.speculation(), expected);
    }
}

#[tokio::test]
async fn every_option_reaches_the_worker_and_the_prompt_is_told_once() {
    let router = TestRouter::start().await;
    let mut worker = router.worker(FakeWorker::default()).await;
    let mut asked = request("abc");
    asked.sampling = Some(v1::Sampling {
        typical_p: Some(0.5),
        bad_words: vec!["no".into(), "no".into(), " so".into()],
        n: Some(2),
        ..Default::default()
    });
    asked.output = Some(v1::Output {
        logprobs: Some(2),
        prompt_logprobs: Some(0),
        ..Default::default()
    });
    asked.structured = Some(v1::Structured {
        constraint: Some(v1::structured::Constraint::Regex("[abc]+".into())),
    });
    asked.speculation = Some(v1::Speculation {
        mode: v1::SpeculationMode::Tiers.into(),
        ..Default::default()
    });
    within(router.client().await.generate(asked)).await.unwrap();
    let mut starts = [start_of(&mut worker).await, start_of(&mut worker).await];
    starts.sort_by(|one, other| one.request_id.cmp(&other.request_id));
    for start in &starts {
        let sampling = start.sampling.as_ref().unwrap();
        assert_eq!(sampling.typical_p.to_string(), "0.5");
        let barred = ["no", " no", " so", "  so"].map(ids);
        assert_eq!(sampling.bad_words, barred);
        assert_eq!(start.logprobs, Some(2));
        let constraint = start.structured.clone().unwrap().constraint;
        let expected = worker_v1::structured::Constraint::Regex("[abc]+".into());
        assert_eq!(constraint, Some(expected));
        assert_eq!(start.speculation(), worker_v1::SpeculationMode::Tiers);
    }
    assert_eq!(starts.map(|start| start.prompt_logprobs), [Some(0), None]);
}

#[tokio::test]
async fn what_no_worker_can_run_is_the_callers_fault_and_tried_once() {
    let router = TestRouter::start().await;
    let worker = || FakeWorker {
        fault: Some("structured.regex: unclosed group".into()),
        ..FakeWorker::default()
    };
    let mut workers = [router.worker(worker()).await, router.worker(worker()).await];
    let status = within(router.client().await.generate(request("abc")))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "structured.regex: unclosed group");
    let starts = workers.iter_mut().filter_map(|worker| {
        let heard = std::iter::from_fn(|| worker.heard.try_recv().ok());
        let starts = heard.filter(|message| matches!(message.message, Some(Message::Start(_))));
        Some(starts.count()).filter(|count| *count > 0)
    });
    assert_eq!(starts.sum::<usize>(), 1);
}
