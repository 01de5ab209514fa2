//! Runs passes over a row of logits with the widest instructions of this machine.
//!
//! The same code compiled for other instructions gives the same bits: nothing is fused or reordered.
#![allow(unsafe_code)] // calls functions compiled for instructions that were just detected

/// A piece of work; `run` and all it calls in its loops must be `#[inline(always)]`, or it is
/// compiled without the instructions.
pub(crate) trait Work {
    type Output;
    fn run(self) -> Self::Output;
}

/// Runs `work`, compiled for the instructions that this CPU has.
pub(crate) fn wide<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the CPU has the instructions.
            return unsafe { avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            return unsafe { avx2(work) };
        }
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
unsafe fn avx512<W: Work>(work: W) -> W::Output {
    work.run()
}
