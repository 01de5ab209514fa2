//! The instruction sets, each with a proof that this CPU has it.

use std::sync::OnceLock;

/// Proof that this CPU has AVX2 and FMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

/// Proof that this CPU has AVX-512 F, BW, DQ and VL, and what [`Avx2`] proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx512(());

/// Proof that this CPU has AVX-512 BF16 (products of bfloat16 pairs), and what [`Avx512`] proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx512Bf16(());

/// An instruction set that this CPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// What the build's baseline allows.
    Portable,
    /// AVX2 with FMA.
    Avx2(Avx2),
    /// AVX-512 (F, BW, DQ, VL).
    Avx512(Avx512),
    /// AVX-512 with products of bfloat16 pairs (BF16).
    Avx512Bf16(Avx512Bf16),
}

impl Isa {
    /// The instruction set to use on this CPU: the best one that is quick. Detected once per process.
    #[inline]
    pub fn detect() -> Self {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            Self::supported()
                .find(|isa| !matches!(isa, Self::Avx512Bf16(_)) || pairs_are_quick())
                .unwrap_or(Self::Portable)
        })
    }

    /// The instruction sets that this CPU has, the best first; [`Isa::Portable`] is always the last.
    pub fn supported() -> impl Iterator<Item = Self> {
        extensions().into_iter().flatten().chain([Self::Portable])
    }

    /// Its short name: `portable`, `avx2`, `avx512` or `avx512bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2(_) => "avx2",
            Self::Avx512(_) => "avx512",
            Self::Avx512Bf16(_) => "avx512bf16",
        }
    }
}

/// The extensions that this CPU has, the best first.
#[cfg(target_arch = "x86_64")]
fn extensions() -> [Option<Isa>; 3] {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let avx512_bf16 = avx512 && is_x86_feature_detected!("avx512bf16");
    [
        avx512_bf16.then_some(Isa::Avx512Bf16(Avx512Bf16(()))),
        avx512.then_some(Isa::Avx512(Avx512(()))),
        avx2.then_some(Isa::Avx2(Avx2(()))),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn extensions() -> [Option<Isa>; 3] {
    [None; 3]
}

/// Whether one product of bfloat16 pairs is quicker than two fused multiply-adds of widened numbers.
///
/// Intel's cores start one every other cycle, and two multiply-adds each cycle: 89 against 178 GFLOP/s
/// of one Emerald Rapids core at 3 GHz. AMD's start as many as multiply-adds.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // asks the CPU for its vendor
fn pairs_are_quick() -> bool {
    // SAFETY: every x86-64 CPU has the instruction. The function is safe in newer Rust.
    #[allow(unused_unsafe)]
    let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
    [vendor.ebx, vendor.edx, vendor.ecx]
        .map(u32::to_le_bytes)
        .as_flattened()
        == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
fn pairs_are_quick() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_sets_go_from_the_best_to_portable_and_hold_the_detected_one() {
        let names: Vec<_> = Isa::supported().map(Isa::name).collect();
        let order = ["avx512bf16", "avx512", "avx2", "portable"];
        let places: Vec<_> = names
            .iter()
            .map(|name| order.iter().position(|other| other == name))
            .collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some));
        assert_eq!(names.last(), Some(&"portable"));
        assert!(names.contains(&Isa::detect().name()));
    }
}
