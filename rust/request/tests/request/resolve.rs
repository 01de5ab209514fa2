//! Requests with every number decided.

use spectrie_proto::v1::generate_request::Prompt;
use spectrie_proto::v1::prediction::Content;
use spectrie_proto::{v1, worker_v1};
use spectrie_request::resolve::{check_reach, held_bytes, text_bytes};
use spectrie_request::validate::check_request;
use spectrie_request::{Caller, Naming, Refusal, RefusalKind, SamplingDefaults, resolve};

use crate::support::{MAX_CONTEXT, files, model, resolved, text};

fn fields(refusal: &Refusal) -> Vec<&str> {
    let violations = refusal.violations.iter();
    violations
        .map(|violation| violation.field.as_str())
        .collect()
}

fn chat(role: &str, content: &str) -> v1::GenerateRequest {
    v1::GenerateRequest {
        prompt: Some(Prompt::Chat(v1::ChatPrompt {
            messages: vec![v1::ChatMessage {
                role: role.into(),
                content: content.into(),
            }],
            ..Default::default()
        })),
        ..Default::default()
    }
}

#[test]
fn modes_that_draft_from_a_drafter_alone_are_refused_without_one() {
    for (mode, name) in [
        (v1::SpeculationMode::Eagle2, "eagle2"),
        (v1::SpeculationMode::Chain, "chain"),
    ] {
        let mut asked = text("hi");
        asked.speculation = Some(v1::Speculation {
            mode: mode.into(),
            ..Default::default()
        });
        assert!(check_request(&asked, None).is_empty());
        let request = resolved(asked).unwrap();
        assert_eq!(request.check_drafter(true), Ok(()));
        let refusal = request.check_drafter(false).unwrap_err();
        assert_eq!(fields(&refusal), ["speculation.mode"]);
        let message = &refusal.violations[0].message;
        assert!(
            message.starts_with(&format!("given {name}, which")),
            "{message}"
        );
        assert!(
            message.ends_with("--drafter auto or --drafter PATH"),
            "{message}"
        );
    }
    assert_eq!(resolved(text("hi")).unwrap().check_drafter(false), Ok(()));
}

#[test]
fn request_that_says_nothing_takes_the_defaults_of_the_api() {
    let request = resolved(text("hi")).unwrap();
    assert_eq!(request.prompt_ids, [104, 105]);
    assert_eq!(
        (request.num_choices, request.max_tokens),
        (1, MAX_CONTEXT - 2)
    );
    assert_eq!(
        (request.namespace.as_str(), request.learn),
        ("default", true)
    );
    assert_eq!(
        (request.speculation, request.max_draft_tokens),
        (None, None)
    );
    assert_eq!(request.needs_context(), MAX_CONTEXT);
    let neutral = worker_v1::SamplingParameters {
        temperature: 1.0,
        top_p: 1.0,
        typical_p: 1.0,
        repetition_penalty: 1.0,
        ..Default::default()
    };
    assert_eq!(request.sampling, neutral);
    assert!(request.output.token_ids && request.output.skip_special_tokens);
    assert!(!request.output.sources);
    let seeds = [text("hi"), text("hi")].map(|request| resolved(request).unwrap().seed);
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn the_models_numbers_stand_behind_the_requests_own() {
    let defaults = SamplingDefaults(v1::Sampling {
        temperature: Some(0.5),
        top_k: Some(9),
        ..Default::default()
    });
    let request = v1::GenerateRequest {
        sampling: Some(v1::Sampling {
            top_k: Some(3),
            ..Default::default()
        }),
        ..text("hi")
    };
    let files = files(true);
    let caller = Caller {
        tenant: Some("ann"),
        naming: Naming::Refused,
    };
    let request = resolve("r".into(), request, model(&files, &defaults), caller).unwrap();
    assert_eq!(
        (request.sampling.temperature, request.sampling.top_k),
        (0.5, 3)
    );
    assert_eq!(
        (request.namespace.as_str(), request.tenant.as_deref()),
        ("ann", Some("ann"))
    );
}

#[test]
fn choices_differ_in_name_seed_and_who_reports_the_prompt() {
    let request = v1::GenerateRequest {
        sampling: Some(v1::Sampling {
            seed: Some(7),
            n: Some(2),
            ..Default::default()
        }),
        output: Some(v1::Output {
            prompt_logprobs: Some(1),
            ..Default::default()
        }),
        ..text("hi")
    };
    let request = resolved(request).unwrap();
    let [first, second] = [0, 1].map(|index| request.start(index, 3, Some(99)));
    assert_eq!(
        (first.request_id.as_str(), second.request_id.as_str()),
        ("r.0", "r.1")
    );
    assert_eq!(first.choice_seed, 7);
    assert_ne!(second.choice_seed, 7);
    assert_eq!(
        (first.prompt_logprobs, second.prompt_logprobs),
        (Some(1), None)
    );
    assert_eq!((second.attempt, second.deadline_ms), (3, Some(99)));
}

#[test]
fn banned_texts_are_banned_after_a_space_too() {
    let request = v1::GenerateRequest {
        sampling: Some(v1::Sampling {
            bad_words: vec!["a".into(), "a".into()],
            ..Default::default()
        }),
        ..text("hi")
    };
    let words = resolved(request).unwrap().sampling.bad_words;
    let words: Vec<_> = words.into_iter().map(|word| word.ids).collect();
    assert_eq!(words, [vec![97], vec![32, 97]]);
}

#[test]
fn chat_is_rendered_and_what_the_template_refuses_is_refused() {
    let request = resolved(chat("user", "hi")).unwrap();
    let bytes: Vec<u8> = request.prompt_ids.iter().map(|&id| id as u8).collect();
    assert_eq!(bytes, b"user: hi\nassistant: ");
    let refusal = resolved(chat("robot", "hi")).unwrap_err();
    assert_eq!(fields(&refusal), ["chat.messages"]);
    assert!(
        refusal.violations[0]
            .message
            .contains("robots may not speak")
    );

    let (files, defaults) = (files(false), SamplingDefaults::default());
    let caller = Caller {
        tenant: None,
        naming: Naming::Parts,
    };
    let model = model(&files, &defaults);
    let refusal = resolve("r".into(), chat("user", "hi"), model, caller).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unsupported);
}

#[test]
fn everything_that_needs_tokens_is_refused_at_once() {
    let long = "x".repeat(MAX_CONTEXT as usize + 1);
    let request = v1::GenerateRequest {
        namespace: Some("mine".into()),
        sampling: Some(v1::Sampling {
            bad_words: vec!["fine".into(), "w".repeat(33), "v".repeat(40)],
            ..Default::default()
        }),
        speculation: Some(v1::Speculation {
            prediction: Some(v1::Prediction {
                content: Some(Content::Text(long.clone())),
            }),
            ..Default::default()
        }),
        ..text(&long)
    };
    assert_eq!(check_request(&request, Some(257)), []);
    let refusal = resolved(request).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::PermissionDenied);
    assert_eq!(
        fields(&refusal),
        [
            "namespace",
            "speculation.prediction.text",
            "prompt",
            "sampling.bad_words[1]",
            "sampling.bad_words[2]"
        ]
    );
}

#[test]
fn every_text_of_a_request_counts_with_the_roles_of_its_chat() {
    assert_eq!(text_bytes(&text("hello")), 5);
    let roles = chat(&"r".repeat(100), "");
    assert!(text_bytes(&roles) > 100);
    let Some(Prompt::Chat(mut prompt)) = roles.prompt else {
        panic!("no chat")
    };
    prompt.messages = vec![v1::ChatMessage::default(); 2048];
    let empty = v1::GenerateRequest {
        prompt: Some(Prompt::Chat(prompt)),
        ..Default::default()
    };
    assert!(text_bytes(&empty) >= 2048 * 64, "each costs something");
    let all = v1::GenerateRequest {
        sampling: Some(v1::Sampling {
            bad_words: vec!["no".into(), "never".into()],
            ..Default::default()
        }),
        speculation: Some(v1::Speculation {
            prediction: Some(v1::Prediction {
                content: Some(Content::Text("hello world".into())),
            }),
            ..Default::default()
        }),
        ..text("hello")
    };
    assert_eq!(text_bytes(&all), 5 + 11 + 2 * 7);
}

#[test]
fn ids_count_as_they_are_held_and_texts_once() {
    let held = held_bytes(&text(&"x".repeat(1000)));
    assert!((1000..1010).contains(&held), "{held}");
    let ids = v1::GenerateRequest {
        prompt: Some(Prompt::TokenIds(v1::TokenIds { ids: vec![7; 1000] })),
        ..Default::default()
    };
    assert!(held_bytes(&ids) >= 4000);
    let resolved = resolved(text("hello")).unwrap();
    assert!((20..100).contains(&resolved.held_bytes()));
}

#[test]
fn prompt_that_no_context_holds_is_refused_without_its_tokens() {
    let files = files(true);
    let reach = |prompt: &Prompt| check_reach(&files, Some(prompt), MAX_CONTEXT);
    let ids = |count| {
        Prompt::TokenIds(v1::TokenIds {
            ids: vec![7; count],
        })
    };
    assert_eq!(reach(&ids(63)), Ok(()));
    let refusal = reach(&ids(64)).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::ContextLength);
    assert_eq!(fields(&refusal), ["prompt"]);
    // The longest token is the end's name.
    let text = |times| Prompt::Text("<|end|>".repeat(times));
    assert_eq!(reach(&text(63)), Ok(()));
    let refusal = reach(&text(64)).unwrap_err();
    let message = &refusal.violations[0].message;
    assert_eq!(message, "given more than 63 tokens; allowed: 1 to 63");
}
