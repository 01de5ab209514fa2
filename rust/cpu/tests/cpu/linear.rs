//! Matrix products: value, independence of rows, and equal bits on all instructions of one name.

use crate::support::Random;
use spectrie_cpu::{Bf16, CpuError, Dtype, Isa, Linear, Team, arithmetic};

/// in, out: whole and broken panels, steps and lanes, and inputs of several blocks.
const SHAPES: [(usize, usize); 5] = [(37, 50), (64, 96), (1, 1), (576, 33), (1301, 16)];

struct Case<E> {
    in_features: usize,
    out_features: usize,
    weight: Vec<E>,
    bias: Vec<f32>,
    x: Vec<E>,
}

impl<E: Dtype> Case<E> {
    fn new((in_features, out_features): (usize, usize), rows: usize) -> Self {
        let mut random = Random((in_features * 1000 + out_features) as u64);
        Self {
            in_features,
            out_features,
            weight: random.numbers(in_features * out_features),
            bias: random.numbers(out_features),
            x: random.numbers(rows * in_features),
        }
    }
    fn pack(&self, isa: Isa) -> Linear<E> {
        let (in_features, out_features) = (self.in_features, self.out_features);
        Linear::pack(
            &self.weight,
            Some(&self.bias),
            in_features,
            out_features,
            isa,
        )
        .expect("fitting sizes")
    }
    fn rows(&self, rows: std::ops::Range<usize>) -> &[E] {
        &self.x[rows.start * self.in_features..rows.end * self.in_features]
    }
}

fn product<E: Dtype, O: Dtype>(linear: &Linear<E>, team: &Team, x: &[E]) -> Vec<O> {
    let rows = x.len() / linear.in_features();
    let mut out = vec![O::from_f32(f32::NAN); rows * linear.out_features()];
    linear.apply(team, x, &mut out).expect("fitting buffers");
    out
}

fn bits<O: Dtype>(values: &[O]) -> Vec<u32> {
    values.iter().map(|x| x.to_f32().to_bits()).collect()
}

fn check_value<E: Dtype>(isa: Isa) {
    let team = Team::new(2);
    for shape in SHAPES {
        let case = Case::<E>::new(shape, 15);
        let out: Vec<f32> = product(&case.pack(isa), &team, &case.x);
        for (row, x) in case.x.chunks_exact(case.in_features).enumerate() {
            for (column, weight) in case.weight.chunks_exact(case.in_features).enumerate() {
                let products = x.iter().zip(weight);
                let terms = products.map(|(x, w)| f64::from(x.to_f32()) * f64::from(w.to_f32()));
                let want = terms.sum::<f64>() + f64::from(case.bias[column]);
                let got = f64::from(out[row * case.out_features + column]);
                // 1301 sums of magnitude below 64, each rounded to 24 bits.
                assert!(
                    (got - want).abs() < 2e-4,
                    "{} {shape:?} row {row} column {column}: {got}, want {want}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn products_match_double_precision() {
    for isa in Isa::supported() {
        check_value::<f32>(isa);
        check_value::<Bf16>(isa);
    }
}

fn check_rows_alone<E: Dtype>(shape: (usize, usize), counts: &[usize]) {
    let teams: Vec<Team> = (1..=4).map(Team::new).collect();
    for isa in Isa::supported() {
        let case = Case::<E>::new(shape, 256);
        let linear = case.pack(isa);
        let alone: Vec<u32> = (0..256)
            .flat_map(|row| {
                bits(&product::<E, E>(
                    &linear,
                    &teams[0],
                    case.rows(row..row + 1),
                ))
            })
            .collect();
        for (i, &rows) in counts.iter().enumerate() {
            let first = (rows * 31) % (257 - rows);
            let together: Vec<E> = product(
                &linear,
                &teams[i % teams.len()],
                case.rows(first..first + rows),
            );
            let expected = &alone[first * shape.1..(first + rows) * shape.1];
            assert!(
                bits(&together) == expected,
                "{} {shape:?}: rows {first}..{} differ from each alone",
                isa.name(),
                first + rows
            );
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_company() {
    let counts: Vec<usize> = (1..=70).chain([128, 255, 256]).collect();
    check_rows_alone::<f32>((37, 50), &counts);
    check_rows_alone::<Bf16>((37, 50), &counts);
    check_rows_alone::<f32>((128, 96), &[2, 12, 13, 64]);
    check_rows_alone::<Bf16>((128, 96), &[2, 12, 13, 64]);
    check_rows_alone::<f32>((1301, 40), &[3, 4, 13, 80]);
    check_rows_alone::<Bf16>((1301, 40), &[3, 4, 13, 80]);
}

fn check_names<E: Dtype>(bfloat16: bool) {
    let team = Team::new(1);
    let case = Case::<E>::new((101, 50), 17);
    let results = Isa::supported().map(|isa| {
        let out: Vec<f32> = product(&case.pack(isa), &team, &case.x);
        (arithmetic(isa, bfloat16), bits(&out))
    });
    let results: Vec<_> = results.collect();
    for pair in results.windows(2) {
        assert!(
            pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1,
            "{}",
            pair[0].0
        );
    }
}

#[test]
fn instruction_sets_of_one_name_give_the_same_bits() {
    check_names::<f32>(false);
    check_names::<Bf16>(true);
}

#[test]
fn narrow_results_are_the_rounded_wide_ones() {
    let (team, case) = (Team::new(2), Case::<Bf16>::new((64, 50), 5));
    let linear = case.pack(Isa::detect());
    let wide: Vec<f32> = product(&linear, &team, &case.x);
    let narrow: Vec<Bf16> = product(&linear, &team, &case.x);
    assert_eq!(
        wide.into_iter().map(Bf16::from_f32).collect::<Vec<_>>(),
        narrow
    );
}

fn check_weight_rows<E: Dtype>() {
    let case = Case::<E>::new((37, 50), 0);
    let linear = case.pack(Isa::detect());
    let mut row = vec![0.0; 37];
    for (i, weight) in case.weight.chunks_exact(37).enumerate() {
        linear.weight_row(i, &mut row);
        assert_eq!(bits(&row), bits(weight), "row {i}");
    }
}

#[test]
fn a_packed_weight_gives_its_rows_back() {
    check_weight_rows::<f32>();
    check_weight_rows::<Bf16>();
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let isa = Isa::detect();
    let pack = |weight: usize, bias: usize, inputs, outputs| {
        Linear::<f32>::pack(
            &vec![1.0; weight],
            Some(&vec![1.0; bias]),
            inputs,
            outputs,
            isa,
        )
        .map(|linear| linear.bytes())
    };
    assert_eq!(pack(6, 3, 2, 3), Ok(32 * 3 * 4));
    for (weight, bias, inputs, outputs) in [(7, 3, 2, 3), (6, 2, 2, 3), (0, 3, 0, 3), (0, 0, 2, 0)]
    {
        assert!(pack(weight, bias, inputs, outputs).is_err());
    }
    let linear = Linear::<f32>::pack(&[1.0; 6], None, 2, 3, isa).expect("fitting sizes");
    let refused = linear.apply(&Team::new(1), &[1.0; 4], &mut [0f32; 7]);
    let (given, expected) = (7, 6);
    assert_eq!(
        refused,
        Err(CpuError::Length {
            what: "out",
            given,
            expected
        })
    );
}
