//! Attention against a naive double-precision version, and the independence of its rows.

use crate::support::{
    Arrays, MAX_CONTEXT, NUM_PAGES, PLAIN, Random, Request, Shape, attend, chunk, slot,
};
use spectrie_cpu::{Attention, Bf16, CpuError, Dtype, Team};

fn check_against_naive<E: Dtype>(shape: Shape, tolerance: f64) {
    let mut random = Random(5);
    let rows = 300;
    let qkv: Vec<E> = random.numbers(rows * shape.row_len());
    let pages = random.pages(rows.div_ceil(16), NUM_PAGES);
    let mut attention = shape.attention::<E>();
    let out = attend(&mut attention, &shape, &[chunk(0, rows, &pages)], &qkv, 1);
    let wide: Vec<f64> = qkv.iter().map(|x| f64::from(x.to_f32())).collect();
    let wide: Vec<&[f64]> = wide.chunks(shape.row_len()).collect();
    for row in [0, 1, 15, 16, 17, 255, 256, 257, 299] {
        let want = shape.naive(&wide[..=row]);
        for (i, (got, want)) in out[row].iter().zip(&want).enumerate() {
            let got = f64::from(got.to_f32());
            assert!(
                (got - want).abs() < tolerance,
                "row {row}, element {i}: {got}, want {want}"
            );
        }
    }
}

#[test]
fn rows_match_double_precision() {
    for (heads, kv_heads, head_dim) in [
        (9, 3, 64),
        (4, 1, 16),
        (7, 1, 128),
        (2, 2, 20),
        (8, 1, 80),
        (1, 1, 256),
    ] {
        check_against_naive::<f32>(
            Shape {
                heads,
                kv_heads,
                head_dim,
                ..PLAIN
            },
            2e-6,
        );
    }
}

#[test]
fn sliding_window_matches_double_precision() {
    for window in [1, 16, 33, 256, 280] {
        check_against_naive::<f32>(
            Shape {
                window: Some(window),
                ..PLAIN
            },
            2e-6,
        );
    }
}

#[test]
fn head_norm_and_missing_rotation_match_double_precision() {
    check_against_naive::<f32>(
        Shape {
            head_norm: true,
            ..PLAIN
        },
        2e-6,
    );
    check_against_naive::<f32>(
        Shape {
            rotary: false,
            ..PLAIN
        },
        2e-6,
    );
}

#[test]
fn bfloat16_rows_match_double_precision_to_its_precision() {
    check_against_naive::<Bf16>(PLAIN, 1e-2);
}

fn bits<E: Dtype>(rows: &[Vec<E>]) -> Vec<Vec<u32>> {
    rows.iter()
        .map(|row| row.iter().map(|x| x.to_f32().to_bits()).collect())
        .collect()
}

/// Pushes a sequence through in pieces of the given sizes.
fn in_pieces<E: Dtype>(shape: &Shape, qkv: &[E], sizes: &[usize], threads: usize) -> Vec<Vec<E>> {
    let pages = Random(sizes.len() as u64 + 1).pages(60, NUM_PAGES);
    let mut attention = shape.attention::<E>();
    let mut out = Vec::new();
    for &size in sizes {
        let done = out.len();
        let rows = &qkv[done * shape.row_len()..(done + size) * shape.row_len()];
        out.extend(attend(
            &mut attention,
            shape,
            &[chunk(done, size, &pages)],
            rows,
            threads,
        ));
    }
    out
}

fn check_pieces<E: Dtype>(shape: Shape) {
    let rows = 600;
    let qkv: Vec<E> = Random(9).numbers(rows * shape.row_len());
    let whole = bits(&in_pieces(&shape, &qkv, &[rows], 1));
    assert_eq!(
        whole,
        bits(&in_pieces(&shape, &qkv, &[rows], 2)),
        "two threads"
    );
    assert_eq!(
        whole,
        bits(&in_pieces(&shape, &qkv, &[17, 1, 200, 38, 256, 88], 1)),
        "pieces"
    );
    assert_eq!(
        whole,
        bits(&in_pieces(&shape, &qkv, &vec![1; rows], 1)),
        "one by one"
    );
}

#[test]
fn rows_are_bitwise_equal_in_every_chunking_and_thread_count() {
    check_pieces::<f32>(PLAIN);
    check_pieces::<Bf16>(PLAIN);
    check_pieces::<f32>(Shape {
        heads: 7,
        kv_heads: 1,
        head_dim: 40,
        window: Some(100),
        ..PLAIN
    });
}

/// Random trees at random places: every node against the chain of its path, one row at a time.
fn check_trees<E: Dtype>(shape: Shape, seed: u64) {
    let mut random = Random(seed);
    let kv_len = [0, 5, 16, 240, 250, 256, 511][random.below(7)];
    let nodes = 2 + random.below(40);
    let parents: Vec<i32> = (0..nodes)
        .map(|i| if i == 0 { -1 } else { random.below(i) as i32 })
        .collect();
    let len = shape.row_len();
    let prompt: Vec<E> = random.numbers(kv_len * len);
    let tree: Vec<E> = random.numbers(nodes * len);
    let pages = random.pages(40, NUM_PAGES);
    let mut attention = shape.attention::<E>();
    if kv_len > 0 {
        attend(
            &mut attention,
            &shape,
            &[chunk(0, kv_len, &pages)],
            &prompt,
            1,
        );
    }
    let request = Request {
        kv_len,
        rows: nodes,
        pages: pages.clone(),
        parents: Some(parents.clone()),
    };
    // The rest of the batch: another request, before and after.
    let other_pages: Vec<i32> = (0..NUM_PAGES as i32)
        .filter(|page| !pages.contains(page))
        .collect();
    let other: Vec<E> = random.numbers(3 * len);
    let all = [
        chunk(0, 3, &other_pages[..1]),
        request,
        chunk(0, 3, &other_pages[1..2]),
    ];
    let qkv = [other.clone(), tree.clone(), other].concat();
    let out = attend(&mut attention, &shape, &all, &qkv, 2);

    for node in 0..nodes {
        let mut path = vec![node];
        while let Ok(parent) = usize::try_from(parents[path[path.len() - 1]]) {
            path.push(parent);
        }
        path.reverse();
        let chain_pages = random.pages(40, NUM_PAGES);
        let mut attention = shape.attention::<E>();
        if kv_len > 0 {
            attend(
                &mut attention,
                &shape,
                &[chunk(0, kv_len, &chain_pages)],
                &prompt,
                1,
            );
        }
        let rows: Vec<E> = path
            .iter()
            .flat_map(|&row| tree[row * len..(row + 1) * len].to_vec())
            .collect();
        let request = chunk(kv_len, path.len(), &chain_pages);
        let chain = attend(&mut attention, &shape, &[request], &rows, 1);
        let (got, want) = (&out[3 + node], &chain[path.len() - 1]);
        assert_eq!(
            bits(std::slice::from_ref(got)),
            bits(std::slice::from_ref(want)),
            "seed {seed}, node {node}"
        );
    }
}

#[test]
fn tree_rows_are_bitwise_equal_to_the_chain_of_their_path() {
    let small = Shape {
        heads: 6,
        kv_heads: 2,
        head_dim: 16,
        ..PLAIN
    };
    for seed in 1..30 {
        check_trees::<f32>(small, seed);
        check_trees::<Bf16>(small, seed);
        check_trees::<f32>(
            Shape {
                window: Some(20),
                ..small
            },
            seed,
        );
    }
    check_trees::<f32>(PLAIN, 3);
}

#[test]
fn moved_slots_continue_as_if_written_in_place() {
    let shape = PLAIN;
    let len = shape.row_len();
    let qkv: Vec<f32> = Random(4).numbers(30 * len);
    let pages = [7, 3, 11];
    let row = |i: usize| &qkv[i * len..(i + 1) * len];
    let straight = in_pieces(&shape, &qkv[..23 * len], &[23], 1);

    let mut attention = shape.attention::<f32>();
    attend(
        &mut attention,
        &shape,
        &[chunk(0, 20, &pages)],
        &qkv[..20 * len],
        1,
    );
    // Accepted: nodes 0, 2; node 2 lies at logical 22 and belongs to 21.
    let tree = [row(20), row(25), row(21)].concat();
    let request = Request {
        kv_len: 20,
        rows: 3,
        pages: pages.to_vec(),
        parents: Some(vec![-1, 0, 0]),
    };
    attend(&mut attention, &shape, &[request], &tree, 1);
    let mut arrays = Arrays::new(&[chunk(22, 1, &pages)]);
    arrays.kv_move_src = vec![slot(&pages, 22)];
    arrays.kv_move_dst = vec![slot(&pages, 21)];
    let batch = arrays.batch();
    attention.move_slots(&batch);
    let mut out = vec![0.0; shape.out_len()];
    attention
        .attend(&Team::new(1), 0, &batch, 0..1, row(22), &mut out)
        .expect("fitting buffers");
    assert_eq!(bits(&[out]), bits(&[straight[22].clone()]));
}

#[test]
fn unsupported_geometry_is_refused_with_what_is_allowed() {
    let refused = |change: fn(&mut spectrie_cpu::AttentionConfig)| {
        let mut config = PLAIN.config();
        change(&mut config);
        Attention::<f32>::new(config)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(refused(|c| c.kv_heads = 2).contains("kv_heads is 2; allowed: a divisor of heads"));
    assert!(refused(|c| c.head_dim = 300).contains("head_dim is 300; allowed: 1..=256"));
    assert!(refused(|c| c.num_pages = 0).contains("num_pages is 0"));
    assert!(refused(|c| c.sines.truncate(3)).contains("sines has 3 elements"));
    assert!(refused(|c| c.layers[0].key_norm = Some(vec![1.0])).contains("head norm has 1"));
    assert!(refused(|c| c.layers[0].window = Some(0)).contains("window is 0"));
}

#[test]
fn buffers_that_do_not_fit_the_batch_are_refused() {
    let mut attention = PLAIN.attention::<f32>();
    let batch = Arrays::new(&[chunk(0, 2, &[0])]).batch();
    let mut out = vec![0.0; 2 * PLAIN.out_len()];
    let short = vec![0.0; 5];
    let team = Team::new(1);
    let error = attention.attend(&team, 0, &batch, 0..2, &short, &mut out);
    assert_eq!(
        error,
        Err(CpuError::Length {
            what: "qkv",
            given: 5,
            expected: 2 * PLAIN.row_len()
        })
    );
    assert!(
        attention
            .attend(&team, 1, &batch, 0..2, &short, &mut out)
            .is_err(),
        "no second layer"
    );
    assert!(
        attention
            .attend(&team, 0, &batch, 0..3, &short, &mut out)
            .is_err(),
        "no third row"
    );
}

#[test]
fn page_bytes_counts_keys_and_values_of_all_layers() {
    assert_eq!(PLAIN.attention::<f32>().page_bytes(), 2 * 3 * 16 * 64 * 4);
    assert_eq!(PLAIN.attention::<Bf16>().page_bytes(), 2 * 3 * 16 * 64 * 2);
    assert_eq!(MAX_CONTEXT % 16, 0);
}
