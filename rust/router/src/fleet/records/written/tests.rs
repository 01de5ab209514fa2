//! What is read is what was written, or nothing.

use proptest::prelude::*;

use super::*;

pub(crate) fn record(token: &ResumeToken, num_choices: u32) -> Record {
    let request = ResolvedRequest {
        request_id: "id".into(),
        wire_name: "ann/id".into(),
        prompt_ids: vec![1, 2, 70_000],
        prediction_ids: Some(Vec::new()),
        sampling: worker_v1::SamplingParameters::default(),
        seed: u64::MAX,
        num_choices,
        max_tokens: 50,
        stopping: v1::Stopping::default(),
        namespace: "ann".into(),
        prompt_cache_key: Some("key".into()),
        learn: true,
        priority: -3,
        speculation: Some(worker_v1::SpeculationMode::Tiers),
        max_draft_tokens: Some(0),
        output: OutputOptions {
            token_ids: true,
            sources: false,
            skip_special_tokens: true,
            logprobs: None,
            prompt_logprobs: Some(1),
        },
        structured: None,
        tenant: Some("ann".into()),
    };
    Record {
        token: token.clone(),
        request,
        tenant: Some("ann".into()),
        model: "m".into(),
        model_hash: "weights".into(),
        model_digest: "files".into(),
        created: 1,
        begun_ms: 2,
        num_resumes: 3,
        deadline_ms: 4,
        form: Some("{}".into()),
        holder: None,
        choices: vec![RecordedChoice::default(); num_choices as usize],
    }
}

pub(crate) fn piece(index: u32, from: usize, tokens: &[u32]) -> Piece {
    let mut blame = Blame::default();
    blame.progressed();
    let choice = RecordedChoice {
        attempt: 1,
        emitted: tokens.to_vec(),
        sources: vec![1; tokens.len()],
        fingerprint: Some("cpu".into()),
        stats: RequestStats {
            verify_steps: 2,
            ..RequestStats::default()
        },
        blame,
        ..RecordedChoice::default()
    };
    Piece {
        index,
        from,
        choice,
    }
}

/// A head with a nonce, and its pieces: of the first of two choices three tokens, of the second one.
fn written(token: &ResumeToken) -> (Vec<u8>, Vec<Vec<u8>>) {
    let head = head(&record(token, 2), 9, 5);
    let first = pieces([piece(0, 0, &[7, 8]), piece(1, 0, &[])], 9, 0);
    let second = pieces([piece(0, 2, &[9]), piece(1, 0, &[6])], 9, 1);
    (head, vec![first, second])
}

fn read_all(
    head: &[u8],
    written: &[Vec<u8>],
    token: &ResumeToken,
) -> Result<(Record, u64), Unreadable> {
    let written: Vec<_> = written.iter().map(Vec::as_slice).collect();
    read(head, &written, token)
}

#[test]
fn record_is_read_as_it_was_written() {
    let token = ResumeToken::draw().unwrap();
    let (head, written) = written(&token);
    let (read, generation) = read_all(&head, &written, &token).unwrap();
    let mut expected = record(&token, 2);
    expected.choices = vec![piece(0, 0, &[7, 8, 9]).choice, piece(1, 0, &[6]).choice];
    assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    assert_eq!(generation, 5);
}

#[test]
fn another_token_a_gap_a_mixture_and_too_much_are_refused() {
    let token = ResumeToken::draw().unwrap();
    let (head, written) = written(&token);
    let refused = |written: &[Vec<u8>], token: &ResumeToken| {
        assert_eq!(
            read_all(&head, written, token).unwrap_err(),
            Unreadable::Damaged
        );
    };
    refused(&written, &ResumeToken::draw().unwrap());
    refused(&written[1..], &token);
    for odd in [
        pieces([piece(0, 3, &[1])], 9, 1),
        pieces([piece(0, 2, &[1])], 8, 1),
        pieces([piece(0, 2, &[1])], 9, 2),
        pieces([piece(2, 0, &[1])], 9, 1),
        pieces([piece(0, 2, &[1; 49])], 9, 1),
    ] {
        refused(&[written[0].clone(), odd], &token);
    }
}

/// Changes written bytes, with and without a true checksum: they are read or refused.
fn survives(places: &[(prop::sample::Index, u8)], bytes: &[u8]) {
    let token = ResumeToken::draw().unwrap();
    let (head, written) = written(&token);
    let mut changed = [head.clone(), written[0].clone(), written[1].clone()];
    let [(place, _), ..] = places else {
        return;
    };
    let place = place.index(changed.iter().map(Vec::len).sum());
    if let Some(byte) = changed.iter_mut().flatten().nth(place) {
        *byte ^= 1;
    }
    let [first, pieces @ ..] = changed;
    assert!(read_all(&first, &pieces, &token).is_err());
    assert!(read_all(bytes, &written, &token).is_err());
    // What has a true checksum is read or refused, whatever it says.
    let _ = read_all(&seal(*MARK, bytes), &written, &token);
    let _ = read_all(&head, &[seal(*MARK, bytes)], &token);
    let sealed = [&head, &written[0], &written[1]].map(|bytes| {
        let mut said = open(*MARK, bytes).unwrap().to_vec();
        for (place, byte) in places {
            let index = place.index(said.len());
            said[index] = *byte;
        }
        seal(*MARK, &said)
    });
    let [changed, first, second] = sealed;
    let _ = read_all(&changed, &written, &token);
    let _ = read_all(&head, &[first, written[1].clone()], &token);
    let _ = read_all(&head, &[written[0].clone(), second], &token);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_is_noticed_and_any_bytes_are_refused(
        places in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        survives(&places, &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: a million inputs"]
    fn any_of_a_million_changes_is_noticed_or_read(
        places in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        survives(&places, &bytes);
    }
}
