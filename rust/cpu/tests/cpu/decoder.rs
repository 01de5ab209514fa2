//! A whole forward on small random weights: its rows alone, in a batch and on several threads.

use std::ops::Range;
use std::sync::{Arc, Barrier, Mutex};

use crate::support::{Arrays, PLAIN, Random, Request, Shape, chunk};
use spectrie_cpu::{
    Bf16, Columns, Decoder, DecoderParts, Dense, Dtype, Embedding, Exchange, Layer, Linear,
    LinearSource, Mixture, Mlp, Split, Step, Stored, TOP_K, Team, TopTokens, Whole, pack_all,
};

const HIDDEN: usize = 48;
const INNER: usize = 72;
const EXPERT: usize = 24;
const NUM_EXPERTS: usize = 7;
const VOCABULARY: usize = 131;
const LAYERS: usize = 2;
const MAX_ROWS: usize = 600;

const SHAPE: Shape = Shape {
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    ..PLAIN
};

fn linear<E: Dtype>(random: &mut Random, inputs: usize, outputs: usize) -> Linear<E> {
    linear_of(random, inputs, outputs, std::slice::from_ref(&(0..outputs)))
}

/// The product with some of the outputs alone.
fn linear_of<E: Dtype>(
    random: &mut Random,
    inputs: usize,
    outputs: usize,
    kept: &[Range<usize>],
) -> Linear<E> {
    let weight: Vec<f32> = random
        .numbers::<f32>(inputs * outputs)
        .iter()
        .map(|x| x * 0.4)
        .collect();
    let bias = random.numbers::<f32>(outputs);
    let rows = kept
        .iter()
        .map(|kept| Stored::F32(&weight[kept.start * inputs..kept.end * inputs]));
    let source = LinearSource {
        parts: rows.collect(),
        bias: Some(
            kept.iter()
                .flat_map(|kept| &bias[kept.clone()])
                .copied()
                .collect(),
        ),
        in_features: inputs,
    };
    let mut packed = pack_all(&Team::new(1), &[source]).expect("fitting sizes");
    packed.pop().expect("one product")
}

/// What a decoder of the tests is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Tied,
    /// The first layer is a mixture.
    Mixed,
}

/// The MLP of a layer: `gated`, `expert` and `hidden` are the columns of this part.
fn mlp<E: Dtype>(
    random: &mut Random,
    mixed: bool,
    [gated, expert, hidden]: [Range<usize>; 3],
) -> Mlp<E> {
    let dense = |random: &mut Random, inner: usize, gated: &Range<usize>| {
        let gate_up = [gated.clone(), gated.start + inner..gated.end + inner];
        Dense {
            gate_up: linear_of(random, HIDDEN, 2 * inner, &gate_up),
            down: linear_of(random, inner, HIDDEN, std::slice::from_ref(&hidden)),
        }
    };
    if !mixed {
        return Mlp::Dense(dense(random, INNER, &gated));
    }
    Mlp::Mixture(Mixture {
        router: linear(random, HIDDEN, NUM_EXPERTS),
        experts: (0..NUM_EXPERTS)
            .map(|_| dense(random, EXPERT, &expert))
            .collect(),
        chosen: 3,
        normalised: true,
    })
}

fn parts<E: Dtype>(kind: Kind) -> DecoderParts<E> {
    let mut random = Random(11);
    let mut attention = SHAPE.config();
    attention.layers = vec![attention.layers[0].clone(); LAYERS];
    let layers = (0..LAYERS).map(|index| Layer {
        attention_norm: Some(random.numbers(HIDDEN)),
        qkv: linear(&mut random, HIDDEN, SHAPE.row_len()),
        output: linear(&mut random, SHAPE.out_len(), HIDDEN),
        mlp_norm: random.numbers(HIDDEN),
        mlp: mlp(
            &mut random,
            kind == Kind::Mixed && index == 0,
            [0..INNER, 0..EXPERT, 0..HIDDEN],
        ),
    });
    DecoderParts {
        layers: layers.collect(),
        embedding: if kind == Kind::Tied {
            Embedding::Tied
        } else {
            Embedding::Table(random.numbers(VOCABULARY * HIDDEN))
        },
        final_norm: random.numbers(HIDDEN),
        head: linear(&mut random, HIDDEN, VOCABULARY),
        whole_head: None,
        attention,
        max_rows: MAX_ROWS,
        split: None,
    }
}

/// The first or the second of two unequal parts of the same decoder.
fn split_parts<E: Dtype>(kind: Kind, second: bool, exchange: Box<dyn Exchange>) -> DecoderParts<E> {
    let half = |cut: usize, total: usize| {
        let (first, end) = if second { (cut, total) } else { (0, cut) };
        Columns {
            first,
            count: end - first,
            total,
        }
    };
    let range = |columns: Columns| columns.first..columns.first + columns.count;
    let behind = |range: Range<usize>, by: usize| range.start + by..range.end + by;
    let attended = half(SHAPE.out_len() / 2, SHAPE.out_len());
    let (hidden, gated) = (half(17, HIDDEN), half(40, INNER));
    let (expert, vocabulary) = (half(9, EXPERT), half(64, VOCABULARY));
    let mut random = Random(11);
    let mut attention = SHAPE.config();
    attention.layers = vec![attention.layers[0].clone(); LAYERS];
    (attention.heads, attention.kv_heads) = (SHAPE.heads / 2, SHAPE.kv_heads / 2);
    let keys = half(SHAPE.head_dim, SHAPE.kv_heads * SHAPE.head_dim);
    let qkv = [
        range(attended),
        behind(range(keys), SHAPE.out_len()),
        behind(range(keys), SHAPE.out_len() + keys.total),
    ];
    let layers = (0..LAYERS).map(|index| Layer {
        attention_norm: Some(random.numbers(HIDDEN)),
        qkv: linear_of(&mut random, HIDDEN, SHAPE.row_len(), &qkv),
        output: linear_of(&mut random, SHAPE.out_len(), HIDDEN, &[range(hidden)]),
        mlp_norm: random.numbers(HIDDEN),
        mlp: mlp(
            &mut random,
            kind == Kind::Mixed && index == 0,
            [range(gated), range(expert), range(hidden)],
        ),
    });
    let layers = layers.collect();
    let table = (kind != Kind::Tied).then(|| random.numbers(VOCABULARY * HIDDEN));
    let final_norm = random.numbers(HIDDEN);
    // Beside drafters, as on the first rank: there a tied table is the whole head's.
    let whole_head =
        (kind != Kind::Plain && !second).then(|| linear(&mut Random(random.0), HIDDEN, VOCABULARY));
    let embedding = match table {
        Some(table) => Embedding::Table(table),
        None if whole_head.is_some() => Embedding::Tied,
        None => {
            let weights: Vec<f32> = Random(random.0).numbers(HIDDEN * VOCABULARY);
            let weights = weights.iter().map(|weight| E::from_f32(weight * 0.4));
            Embedding::Table(weights.collect())
        }
    };
    DecoderParts {
        layers,
        embedding,
        final_norm,
        head: linear_of(&mut random, HIDDEN, VOCABULARY, &[range(vocabulary)]),
        whole_head,
        attention,
        max_rows: MAX_ROWS,
        split: Some(Split {
            attended,
            hidden,
            gated,
            expert,
            vocabulary,
            exchange: Some(exchange),
        }),
    }
}

/// What two parts on two threads show each other.
struct Board {
    barrier: Barrier,
    shown: [Mutex<Vec<u8>>; 2],
}

struct Side {
    board: Arc<Board>,
    second: bool,
    itemsize: usize,
}

#[allow(unsafe_code)] // the decoder hands out an address
impl Exchange for Side {
    fn gather(&self, whole: Whole, address: usize, rows: usize) {
        let (cut, total, size) = match whole {
            Whole::Attended => (SHAPE.out_len() / 2, SHAPE.out_len(), self.itemsize),
            Whole::Hidden => (17, HIDDEN, self.itemsize),
            Whole::Gated => (40, INNER, self.itemsize),
            Whole::Expert => (9, EXPERT, self.itemsize),
            Whole::Logits => (64, VOCABULARY, size_of::<f32>()),
        };
        let (cut, total) = (cut * size, total * size);
        // SAFETY: by the contract of `gather`, these bytes are this call's alone.
        let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, rows * total) };
        let (mine, theirs) = (usize::from(self.second), usize::from(!self.second));
        *self.board.shown[mine].lock().expect("no panics") = memory.to_vec();
        self.board.barrier.wait();
        let other = self.board.shown[theirs].lock().expect("no panics");
        let columns = if self.second { 0..cut } else { cut..total };
        for (row, from) in memory.chunks_mut(total).zip(other.chunks(total)) {
            row[columns.clone()].copy_from_slice(&from[columns.clone()]);
        }
        drop(other);
        self.board.barrier.wait();
    }
}

fn check_split<E: Dtype>(kind: Kind) {
    let (rows, pages) = (300, Random(2).pages(20, 90));
    let (tokens, wanted) = (tokens(rows), [0, 7, 255, 256, 299]);
    let request = [chunk(0, rows, &pages)];
    let whole = Runs::<E>::new(2, kind).forward(&request, &tokens, &wanted, &all(rows));
    let board = Arc::new(Board {
        barrier: Barrier::new(2),
        shown: Default::default(),
    });
    let run = |second: bool| {
        let side = Side {
            board: Arc::clone(&board),
            second,
            itemsize: size_of::<E>(),
        };
        let mut runs = Runs::<E> {
            decoder: Decoder::new(split_parts(kind, second, Box::new(side)))
                .expect("fitting parts"),
            team: Team::new(if second { 1 } else { 2 }),
        };
        runs.forward(&request, &tokens, &wanted, &all(rows))
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| run(true));
        (run(false), second.join().expect("no panics"))
    });
    assert!(first == whole && second == whole);
}

#[test]
fn two_parts_that_gather_give_the_bits_of_one_decoder() {
    for kind in [Kind::Plain, Kind::Tied, Kind::Mixed] {
        check_split::<f32>(kind);
        check_split::<Bf16>(kind);
    }
}

struct Runs<E: Dtype> {
    decoder: Decoder<E>,
    team: Team,
}

impl<E: Dtype> Runs<E> {
    fn new(threads: usize, kind: Kind) -> Self {
        Self {
            decoder: Decoder::new(parts(kind)).expect("fitting parts"),
            team: Team::new(threads),
        }
    }

    /// Bits of the sample rows' logits, and the top tokens.
    fn forward(
        &mut self,
        requests: &[Request],
        tokens: &[i32],
        samples: &[i32],
        tops: &[i32],
    ) -> (Vec<Vec<u32>>, TopTokens) {
        let batch = Arrays::new(requests).batch();
        let step = Step {
            batch: &batch,
            tokens,
            sample_rows: samples,
            top_rows: tops,
        };
        let top = self
            .decoder
            .forward(&self.team, &step)
            .expect("a good step");
        let logits = &self.decoder.logits()[..samples.len() * VOCABULARY];
        let rows = logits.chunks(VOCABULARY);
        (
            rows.map(|row| row.iter().map(|x| x.to_bits()).collect())
                .collect(),
            top,
        )
    }
}

fn tokens(len: usize) -> Vec<i32> {
    let mut random = Random(3);
    (0..len).map(|_| random.below(VOCABULARY) as i32).collect()
}

fn all(rows: usize) -> Vec<i32> {
    (0..rows as i32).collect()
}

fn check_company<E: Dtype>(kind: Kind) {
    let (rows, pages) = (300, Random(2).pages(20, 90));
    let tokens = tokens(rows);
    let mut runs = Runs::<E>::new(1, kind);
    let (whole, _) = runs.forward(&[chunk(0, rows, &pages)], &tokens, &all(rows), &[]);
    for threads in [1, 3] {
        let mut runs = Runs::<E>::new(threads, kind);
        let mut done = 0;
        for size in [1, 2, 37, 1, 200, 59] {
            let piece = &tokens[done..done + size];
            // The rest of the batch: an earlier request whose rows are not wanted.
            let requests = [chunk(0, 5, &[95]), chunk(done, size, &pages)];
            let given = [&tokens[..5], piece].concat();
            let wanted: Vec<i32> = (5..5 + size as i32).collect();
            let (logits, _) = runs.forward(&requests, &given, &wanted, &[]);
            assert!(
                logits == whole[done..done + size],
                "{kind:?}, {size} rows, {threads} threads"
            );
            done += size;
        }
    }
}

#[test]
fn logits_are_bitwise_equal_in_every_company_chunking_and_thread_count() {
    for kind in [Kind::Plain, Kind::Tied, Kind::Mixed] {
        check_company::<f32>(kind);
        check_company::<Bf16>(kind);
    }
}

#[test]
fn top_rows_give_the_likeliest_of_their_logits_and_leave_those_kept_as_they_are() {
    let (rows, pages) = (400, Random(2).pages(30, 90));
    let (tokens, all) = (tokens(rows), all(rows));
    let mut runs = Runs::<f32>::new(2, Kind::Tied);
    let request = [chunk(0, rows, &pages)];
    let (whole, every) = runs.forward(&request, &tokens, &all, &all);
    for (row, logits) in whole.iter().enumerate() {
        let value = |id: i32| f32::from_bits(logits[id as usize]);
        let best = (0..VOCABULARY as i32).max_by(|&a, &b| value(a).total_cmp(&value(b)));
        assert_eq!(Some(every.ids[row * TOP_K]), best, "row {row}");
    }
    for (samples, tops) in [
        (vec![399], all.clone()),
        (vec![3, 255, 256, 390], vec![0, 3, 255, 256, 257, 390, 399]),
        (vec![], vec![7, 300]),
        (vec![5, 6], vec![]),
    ] {
        let (logits, top) = runs.forward(&request, &tokens, &samples, &tops);
        for (logits, &row) in logits.iter().zip(&samples) {
            assert!(*logits == whole[row as usize], "logits of row {row}");
        }
        for (ids, &row) in top.ids.chunks(TOP_K).zip(&tops) {
            let start = row as usize * TOP_K;
            assert_eq!(
                ids,
                &every.ids[start..start + TOP_K],
                "top tokens of row {row}"
            );
        }
    }
}

#[test]
fn steps_that_contradict_themselves_are_refused() {
    let mut runs = Runs::<f32>::new(1, Kind::Plain);
    let batch = Arrays::new(&[chunk(0, 2, &[0])]).batch();
    let mut refused = |tokens: &[i32], samples: &[i32]| {
        let step = Step {
            batch: &batch,
            tokens,
            sample_rows: samples,
            top_rows: &[],
        };
        let error = runs.decoder.forward(&runs.team, &step).err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(&[1], &[]), "tokens has 1 elements, expected 2");
    assert_eq!(refused(&[1, 131], &[]), "tokens[1] is 131, expected 0..131");
    assert!(refused(&[1, 2], &[2]).starts_with("sample_rows[0] is 2"));
    let large = Arrays::new(&[chunk(0, 700, &all(44))]).batch();
    let step = Step {
        batch: &large,
        tokens: &tokens(700),
        sample_rows: &[],
        top_rows: &[],
    };
    let error = runs.decoder.forward(&runs.team, &step).err();
    assert!(error.is_some_and(|error| error.to_string().contains("700 elements, expected 600")));
}

/// What a decoder says about changed parts.
fn refusal(kind: Kind, change: fn(&mut DecoderParts<f32>)) -> String {
    let mut parts = parts(kind);
    change(&mut parts);
    let error = Decoder::new(parts).err();
    error.map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn mixtures_that_do_not_fit_are_refused() {
    fn first(parts: &mut DecoderParts<f32>) -> &mut Mixture<f32> {
        match &mut parts.layers[0].mlp {
            Mlp::Mixture(mixture) => mixture,
            Mlp::Dense(_) => unreachable!("the first layer is a mixture"),
        }
    }
    let refused = |change| refusal(Kind::Mixed, change);
    assert_eq!(
        refused(|p| drop(first(p).experts.pop())),
        "output of the router has 7 elements, expected 6"
    );
    for (change, given, expected) in [
        ((|p| first(p).chosen = 8) as fn(&mut _), 8, 7),
        (|p| first(p).chosen = 0, 0, 1),
    ] {
        let message = format!("chosen experts has {given} elements, expected {expected}");
        assert_eq!(refused(change), message);
    }
    let other = |p: &mut DecoderParts<f32>| {
        first(p).experts[5].down = linear(&mut Random(1), EXPERT + 1, HIDDEN);
    };
    assert_eq!(refused(other), "input of down has 25 elements, expected 24");
}

#[test]
fn parts_that_do_not_fit_each_other_are_refused() {
    let refused = |change| refusal(Kind::Plain, change);
    assert!(refused(|p| p.final_norm.truncate(3)).contains("final norm has 3 elements"));
    assert!(refused(|p| drop(p.layers.pop())).contains("layers of the attention has 2"));
    assert!(refused(|p| p.layers[1].mlp_norm.clear()).contains("mlp norm has 0"));
    assert!(refused(|p| p.embedding = Embedding::Table(vec![0.0])).contains("embedding table"));
    assert!(refused(|p| p.max_rows = 0).contains("max_rows is 0"));
    assert!(
        refused(|p| {
            p.split = Some(Split {
                attended: Columns::all(SHAPE.out_len()),
                hidden: Columns::all(HIDDEN),
                gated: Columns::all(INNER + 1),
                expert: Columns::all(0),
                vocabulary: Columns::all(VOCABULARY),
                exchange: None,
            });
        })
        .contains("columns of the MLP has 73 elements, expected 72")
    );
}

#[test]
fn a_tied_table_is_stored_once_and_weights_take_little_more_than_their_numbers() {
    let table = VOCABULARY * HIDDEN * size_of::<f32>();
    let of = |kind| {
        Decoder::<f32>::new(parts(kind))
            .expect("fitting parts")
            .bytes()
    };
    assert_eq!(of(Kind::Plain) - of(Kind::Tied), table);
}
