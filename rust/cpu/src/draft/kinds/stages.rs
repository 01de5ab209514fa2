//! Stages that kinds of drafters share.
#![allow(unsafe_code)] // rows of the buffers are written and read by several threads

use spectrie_simd::Isa;

use crate::decoder::{Layer, NormRows, Split, Widths, add_delta, narrow};
use crate::draft::drafter::{Goal, Origin, Run};
use crate::error::CpuError;
use crate::simd::{Dtype, launch};
use crate::threads::{Member, share_out};

/// A size: which, as it is, as it must be.
pub(crate) type Size = (&'static str, usize, usize);

/// Widths of the rows of a drafter's layers, of which there must be one.
pub(crate) fn widths_of<E: Dtype>(
    layers: &[Layer<E>],
    qkv: usize,
    attended: usize,
) -> Result<Widths, CpuError> {
    let Some(first) = layers.first() else {
        return Err(CpuError::Size {
            what: "layers of the drafter",
            given: 0,
            allowed: "1 or more",
        });
    };
    let mut widths = Widths::new(first.output.out_features(), qkv, attended);
    for layer in layers {
        layer.widen(&mut widths);
    }
    Ok(widths)
}

/// What must be equal in layers of which the first takes rows of width `inputs`.
pub(crate) fn layer_sizes<E: Dtype>(
    layers: &[Layer<E>],
    inputs: usize,
    widths: Widths,
) -> Vec<Size> {
    let split = Split::whole(widths, 1);
    let mut sizes = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let inputs = if index == 0 { inputs } else { widths.hidden };
        sizes.extend(layer.sizes(inputs, widths.qkv, &split));
    }
    sizes
}

/// Refuses the first size that is not as it must be.
pub(crate) fn check_sizes(sizes: impl IntoIterator<Item = Size>) -> Result<(), CpuError> {
    for (what, given, expected) in sizes {
        if given != expected {
            return Err(CpuError::Length {
                what,
                given,
                expected,
            });
        }
    }
    Ok(())
}

/// Writes a token's vector, of the drafter's own table or of the target's.
pub(crate) fn look_up<E: Dtype>(
    run: &Run<'_, E>,
    table: Option<&[E]>,
    token: usize,
    to: &mut [f32],
) {
    match table {
        Some(table) => widen(&table[token * to.len()..(token + 1) * to.len()], to),
        None => run.target.look_up(token, to),
    }
}

/// Writes a row as a product takes it: normed, or as it is.
pub(crate) fn enter_row<E: Dtype>(
    run: &Run<'_, E>,
    x: &mut [f32],
    norm: Option<&[f32]>,
    out: &mut [E],
) {
    let Some(weight) = norm else {
        narrow(x, out);
        return;
    };
    let kernel = NormRows {
        x,
        delta: None,
        weight,
        epsilon: run.space.epsilon,
        out,
    };
    launch(Isa::detect(), kernel);
}

/// All layers; `x` is what the first one takes, or the residual stream.
pub(crate) fn run_layers<E: Dtype>(
    member: &Member<'_>,
    run: &Run<'_, E>,
    layers: &[Layer<E>],
    x: Option<&[E]>,
) {
    let count = run.rows.len();
    for (index, layer) in layers.iter().enumerate() {
        let pass = run.pass(index);
        let x = match x {
            Some(x) if index == 0 => x,
            _ => layer.enter(member, &pass, count),
        };
        if index + 1 == layers.len() && run.goal == Goal::Entries {
            layer.write_entries(member, &pass, run.rows.clone(), x);
        } else {
            layer.attend(member, &pass, run.rows.clone(), x);
            layer.finish(member, &pass, count);
        }
    }
}

/// From the last layer's stream and delta to states, from number `first` on, and to what the head takes. The
/// states are the stream, or `normed`.
pub(crate) fn leave<E: Dtype>(
    member: &Member<'_>,
    run: &Run<'_, E>,
    first: usize,
    output_norm: Option<&[f32]>,
    normed: bool,
) {
    let (buffers, hidden) = (run.space.buffers, run.space.split.hidden.total);
    share_out(member, run.rows.len(), 4, |row| {
        // SAFETY: the stream and delta were written before the barrier; each row is taken once.
        unsafe {
            let stream = buffers.residual.part(row * hidden, hidden);
            let out = buffers.normed.part(row * hidden, hidden);
            let state = run.space.states.part((first + row) * hidden, hidden);
            add_delta(stream, buffers.delta.read(row * hidden, hidden));
            enter_row(run, stream, output_norm, out);
            if normed {
                widen(out, state);
            } else {
                state.copy_from_slice(stream);
            }
        }
    });
    member.barrier();
}

/// What the head takes of asked rows that are answered from the states of a first level: one of each, from number
/// `first` on where the level is the first itself. It left `states_of_first` normed ones of each row.
pub(crate) fn recall<E: Dtype>(
    member: &Member<'_>,
    run: &Run<'_, E>,
    first: usize,
    states_of_first: usize,
) {
    let hidden = run.space.split.hidden.total;
    share_out(member, run.tokens.len(), 4, |row| {
        let number = match run.origins[row] {
            Origin::State(number) => number,
            Origin::Forward(_) | Origin::Store(_) => (first + row) * states_of_first,
        };
        // SAFETY: states were written before a barrier; each row is taken once.
        unsafe {
            let state = run.space.states.read(number * hidden, hidden);
            narrow(state, run.space.buffers.normed.part(row * hidden, hidden));
        }
    });
    member.barrier();
}

/// Numbers of the element type in single precision.
pub(crate) fn widen<E: Dtype>(from: &[E], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.to_f32();
    }
}
