//! Forwards so small that Miri runs one of them in every CI run (`make test-miri`): all that reads and writes the
//! memory that threads share, from the prompt to a path of a tree that is moved into place.

use crate::support::{Arrays, Random, Request, Shape, slot};
use spectrie_cpu::{
    Bf16, Decoder, DecoderParts, Dense, Dtype, Embedding, Layer, Linear, LinearSource, Mixture,
    Mlp, Step, Stored, Team, pack_all,
};

const HIDDEN: usize = 16;
const INNER: usize = 8;
const NUM_EXPERTS: usize = 3;
const VOCABULARY: usize = 20;
const SHAPE: Shape = Shape {
    heads: 2,
    kv_heads: 1,
    head_dim: 8,
    window: None,
    head_norm: true,
    rotary: true,
};
const PAGES: [i32; 1] = [5];
const PROMPT_ROWS: usize = 3;

fn linear<E: Dtype>(random: &mut Random, inputs: usize, outputs: usize) -> Linear<E> {
    let weight: Vec<f32> = random.numbers(inputs * outputs);
    let source = LinearSource {
        parts: vec![Stored::F32(&weight)],
        bias: Some(random.numbers(outputs)),
        in_features: inputs,
    };
    let mut packed = pack_all(&Team::new(1), &[source]).expect("fitting sizes");
    packed.pop().expect("one product")
}

fn dense<E: Dtype>(random: &mut Random) -> Dense<E> {
    Dense {
        gate_up: linear(random, HIDDEN, 2 * INNER),
        down: linear(random, INNER, HIDDEN),
    }
}

/// A layer of experts and one without.
fn decoder<E: Dtype>(tied: bool) -> Decoder<E> {
    let mut random = Random(11);
    let mut attention = SHAPE.config();
    attention.layers = vec![attention.layers[0].clone(); 2];
    let layers = [true, false].map(|is_mixture| Layer {
        attention_norm: Some(random.numbers(HIDDEN)),
        qkv: linear(&mut random, HIDDEN, SHAPE.row_len()),
        output: linear(&mut random, SHAPE.out_len(), HIDDEN),
        mlp_norm: random.numbers(HIDDEN),
        mlp: if is_mixture {
            Mlp::Mixture(Mixture {
                router: linear(&mut random, HIDDEN, NUM_EXPERTS),
                experts: (0..NUM_EXPERTS).map(|_| dense(&mut random)).collect(),
                chosen: 2,
                normalised: true,
            })
        } else {
            Mlp::Dense(dense(&mut random))
        },
    });
    let parts = DecoderParts {
        layers: layers.into(),
        embedding: if tied {
            Embedding::Tied
        } else {
            Embedding::Table(random.numbers(VOCABULARY * HIDDEN))
        },
        final_norm: random.numbers(HIDDEN),
        head: linear(&mut random, HIDDEN, VOCABULARY),
        whole_head: None,
        attention,
        max_rows: 8,
        split: None,
    };
    Decoder::new(parts).expect("fitting parts")
}

/// Logits and likeliest tokens of a prompt, of a tree behind it, and of a row behind a path of the tree that
/// was moved into place.
fn logits<E: Dtype>(threads: usize, tied: bool) -> Vec<u32> {
    let (mut decoder, team) = (decoder::<E>(tied), Team::new(threads));
    let request = |kv_len, rows, parents| Request {
        kv_len,
        rows,
        pages: PAGES.to_vec(),
        parents,
    };
    let prompt = Arrays::new(&[request(0, PROMPT_ROWS, None)]);
    let tree = Arrays::new(&[request(PROMPT_ROWS, 4, Some(vec![-1, 0, 0, 2]))]);
    let mut moved = Arrays::new(&[request(PROMPT_ROWS + 3, 1, None)]);
    // Nodes 0, 2 and 3 were accepted.
    moved.kv_move_src = [2, 3].map(|node| slot(&PAGES, PROMPT_ROWS + node)).into();
    moved.kv_move_dst = [1, 2].map(|node| slot(&PAGES, PROMPT_ROWS + node)).into();
    let mut found = Vec::new();
    for (arrays, samples) in [
        (prompt, vec![0, 2]),
        (tree, vec![0, 1, 2, 3]),
        (moved, vec![0]),
    ] {
        let batch = arrays.batch();
        let tokens: Vec<i32> = (0..batch.num_rows() as i32)
            .map(|row| row * 7 % VOCABULARY as i32)
            .collect();
        let step = Step {
            batch: &batch,
            tokens: &tokens,
            sample_rows: &samples,
            top_rows: &samples,
        };
        let top = decoder.forward(&team, &step).expect("a fitting step");
        found.extend(top.ids.iter().map(|&id| id as u32));
        let sampled = &decoder.logits()[..samples.len() * VOCABULARY];
        found.extend(sampled.iter().map(|logit| logit.to_bits()));
    }
    found
}

fn check<E: Dtype>(tied: bool) {
    let together = logits::<E>(2, tied);
    assert!(
        together
            .iter()
            .all(|&bits| f32::from_bits(bits).is_finite())
    );
    // Miri sees what threads share, a thousand times as slowly; the bits of one thread are compared without it.
    if !cfg!(miri) {
        assert_eq!(together, logits::<E>(1, tied));
    }
}

#[test]
fn two_threads_give_the_bits_of_one_in_float32() {
    check::<f32>(false);
}

#[test]
fn two_threads_give_the_bits_of_one_in_bfloat16() {
    check::<Bf16>(true);
}
