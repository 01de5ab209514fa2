//! Random requests, plans for them, and attention written naively in double precision.
#![allow(dead_code)] // each test file uses a part

use spectrie_cpu::{
    Attention, AttentionConfig, Batch, BatchArrays, Dtype, LayerConfig, PAGE_SIZE, Team,
};

/// A small generator with a fixed sequence (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }
    /// Uniform in -1..1.
    pub fn number(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    pub fn numbers<E: Dtype>(&mut self, len: usize) -> Vec<E> {
        (0..len).map(|_| E::from_f32(self.number())).collect()
    }
    /// `len` distinct pages out of `limit`, in random order.
    pub fn pages(&mut self, len: usize, limit: usize) -> Vec<i32> {
        let mut all: Vec<i32> = (0..limit as i32).collect();
        for i in (1..limit).rev() {
            all.swap(i, self.below(i + 1));
        }
        all.truncate(len);
        all
    }
}

#[derive(Clone, Copy)]
pub struct Shape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub window: Option<usize>,
    pub head_norm: bool,
    pub rotary: bool,
}

pub const PLAIN: Shape = Shape {
    heads: 9,
    kv_heads: 3,
    head_dim: 64,
    window: None,
    head_norm: false,
    rotary: true,
};

pub const MAX_CONTEXT: usize = 1024;
pub const NUM_PAGES: usize = 96;
const EPSILON: f32 = 1e-5;

impl Shape {
    pub fn row_len(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }
    pub fn out_len(&self) -> usize {
        self.heads * self.head_dim
    }
    fn norms(&self) -> Option<(Vec<f32>, Vec<f32>)> {
        let make = |seed| {
            let mut random = Random(seed);
            (0..self.head_dim)
                .map(|_| 1.0 + 0.3 * random.number())
                .collect()
        };
        self.head_norm.then(|| (make(77), make(78)))
    }
    pub fn angle(&self, position: usize, i: usize) -> f64 {
        position as f64 * 10_000f64.powf(-2.0 * i as f64 / self.head_dim as f64)
    }
    pub fn config(&self) -> AttentionConfig {
        let half = self.head_dim / 2;
        let table = |f: fn(f64) -> f64| {
            (0..MAX_CONTEXT * half)
                .map(|i| f(self.angle(i / half, i % half)) as f32)
                .collect()
        };
        let norms = self.norms();
        AttentionConfig {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            num_pages: NUM_PAGES,
            max_context: MAX_CONTEXT,
            scale: (self.head_dim as f32).powf(-0.5),
            norm_epsilon: EPSILON,
            cosines: table(f64::cos),
            sines: table(f64::sin),
            layers: vec![LayerConfig {
                rotary: self.rotary,
                window: self.window,
                looks_ahead: false,
                first_key: 0,
                query_norm: norms.clone().map(|norms| norms.0),
                key_norm: norms.map(|norms| norms.1),
            }],
        }
    }
    pub fn attention<E: Dtype>(&self) -> Attention<E> {
        Attention::new(self.config()).expect("a supported shape")
    }

    fn prepared(&self, head: &[f64], norm: Option<&Vec<f32>>, position: usize) -> Vec<f64> {
        let mut x = head.to_vec();
        if let Some(weight) = norm {
            let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
            let inverse = 1.0 / (mean + f64::from(EPSILON)).sqrt();
            for (v, weight) in x.iter_mut().zip(weight) {
                *v *= inverse * f64::from(*weight);
            }
        }
        if self.rotary {
            let half = self.head_dim / 2;
            for i in 0..half {
                let (sin, cos) = self.angle(position, i).sin_cos();
                let (a, b) = (x[i], x[i + half]);
                x[i] = a * cos - b * sin;
                x[i + half] = b * cos + a * sin;
            }
        }
        x
    }

    /// Attention of the last row of a sequence of qkv rows, at positions 0, 1, 2...
    pub fn naive(&self, rows: &[&[f64]]) -> Vec<f64> {
        let (d, norms) = (self.head_dim, self.norms());
        let (query_norm, key_norm) = (norms.as_ref().map(|n| &n.0), norms.as_ref().map(|n| &n.1));
        let last = rows.len() - 1;
        let first = rows.len().saturating_sub(self.window.unwrap_or(usize::MAX));
        let mut out = Vec::new();
        for head in 0..self.heads {
            let kv = self.heads + head / (self.heads / self.kv_heads);
            let query = self.prepared(&rows[last][head * d..(head + 1) * d], query_norm, last);
            let mut weights = Vec::new();
            for (position, row) in rows.iter().enumerate().skip(first) {
                let key = self.prepared(&row[kv * d..(kv + 1) * d], key_norm, position);
                let dot: f64 = query.iter().zip(&key).map(|(a, b)| a * b).sum();
                weights.push((dot / (d as f64).sqrt()).exp());
            }
            let total: f64 = weights.iter().sum();
            for i in 0..d {
                let value = (kv + self.kv_heads) * d + i;
                let sum: f64 = weights
                    .iter()
                    .zip(&rows[first..])
                    .map(|(w, row)| w * row[value])
                    .sum();
                out.push(sum / total);
            }
        }
        out
    }
}

/// One request of a plan; `parents` make it a tree.
#[derive(Clone)]
pub struct Request {
    pub kv_len: usize,
    pub rows: usize,
    pub pages: Vec<i32>,
    pub parents: Option<Vec<i32>>,
}

/// A request whose rows follow one another.
pub fn chunk(kv_len: usize, rows: usize, pages: &[i32]) -> Request {
    Request {
        kv_len,
        rows,
        pages: pages.to_vec(),
        parents: None,
    }
}

/// The owned arrays of a plan.
#[derive(Clone, Default)]
pub struct Arrays {
    pub row_position: Vec<i32>,
    pub row_slot: Vec<i32>,
    pub row_parent: Vec<i32>,
    pub row_ancestors: Vec<i64>,
    pub request_row_start: Vec<i32>,
    pub request_row_count: Vec<i32>,
    pub request_kv_len: Vec<i32>,
    pub request_kind: Vec<i32>,
    pub page_indptr: Vec<i32>,
    pub page_ids: Vec<i32>,
    pub kv_move_src: Vec<i32>,
    pub kv_move_dst: Vec<i32>,
}

impl Arrays {
    pub fn new(requests: &[Request]) -> Self {
        let mut arrays = Self {
            page_indptr: vec![0],
            ..Self::default()
        };
        for request in requests {
            arrays
                .request_row_start
                .push(arrays.row_position.len() as i32);
            arrays.request_row_count.push(request.rows as i32);
            arrays.request_kv_len.push(request.kv_len as i32);
            arrays
                .request_kind
                .push(i32::from(request.parents.is_some()));
            let mut depths: Vec<usize> = Vec::new();
            let mut words: Vec<i64> = Vec::new();
            for row in 0..request.rows {
                let parent = request
                    .parents
                    .as_ref()
                    .map_or(row as i32 - 1, |parents| parents[row]);
                let above = usize::try_from(parent).ok();
                depths.push(above.map_or(0, |parent| depths[parent] + 1));
                let bit = if row < 64 { 1i64 << row } else { 0 };
                words.push(above.map_or(0, |parent| words[parent]) | bit);
                arrays.row_parent.push(parent);
                arrays.row_ancestors.push(words[row]);
                arrays
                    .row_position
                    .push((request.kv_len + depths[row]) as i32);
                arrays
                    .row_slot
                    .push(slot(&request.pages, request.kv_len + row));
            }
            arrays.page_ids.extend(&request.pages);
            arrays.page_indptr.push(arrays.page_ids.len() as i32);
        }
        arrays
    }
    pub fn view(&self) -> BatchArrays<'_> {
        BatchArrays {
            row_position: &self.row_position,
            row_slot: &self.row_slot,
            row_parent: &self.row_parent,
            row_ancestors: &self.row_ancestors,
            request_row_start: &self.request_row_start,
            request_row_count: &self.request_row_count,
            request_kv_len: &self.request_kv_len,
            request_kind: &self.request_kind,
            page_indptr: &self.page_indptr,
            page_ids: &self.page_ids,
            kv_move_src: &self.kv_move_src,
            kv_move_dst: &self.kv_move_dst,
        }
    }
    pub fn batch(&self) -> Batch {
        Batch::new(&self.view(), NUM_PAGES, MAX_CONTEXT).expect("a well-formed plan")
    }
}

pub fn slot(pages: &[i32], logical: usize) -> i32 {
    pages[logical / PAGE_SIZE] * PAGE_SIZE as i32 + (logical % PAGE_SIZE) as i32
}

/// Runs all rows of a plan of the given requests in one call, and gives their results row by row.
pub fn attend<E: Dtype>(
    attention: &mut Attention<E>,
    shape: &Shape,
    requests: &[Request],
    qkv: &[E],
    threads: usize,
) -> Vec<Vec<E>> {
    let batch = Arrays::new(requests).batch();
    let rows = batch.num_rows();
    let mut out = vec![E::default(); rows * shape.out_len()];
    attention
        .attend(&Team::new(threads), 0, &batch, 0..rows, qkv, &mut out)
        .expect("fitting buffers");
    out.chunks(shape.out_len()).map(<[E]>::to_vec).collect()
}
