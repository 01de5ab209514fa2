//! How draft trees are grown.

crate::named::named! {
    /// How draft trees are grown; the numbers are those of `SpeculationMode` in
    /// `proto/spectrie/v1/inference.proto`, where 0 leaves it to the server.
    pub enum SpeculationMode: u8 ("speculation") {
        /// Calibrated scores, and as many nodes as the measured cost of a step justifies.
        Auto = 1 => "auto",
        /// No drafts.
        Off = 2 => "off",
        /// Fixed breadth-first trees in recency order.
        Bfs = 3 => "bfs",
        /// Fixed trees by observed frequency.
        Prob = 4 => "prob",
        /// Calibrated scores, and 0, 1, 3 or 7 nodes of each request by how many were accepted
        /// lately, and as many levels of a drafter: what others do, to compare with.
        Tiers = 5 => "tiers",
        /// EAGLE-2's tree from a drafter's answers alone, whatever it costs.
        Eagle2 = 6 => "eagle2",
        /// A drafter's likeliest token, then the likeliest behind it, and so on, whatever it costs.
        Chain = 7 => "chain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_map_both_ways() {
        for (index, mode) in SpeculationMode::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(mode.number()), index + 1);
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let error = "fast".parse::<SpeculationMode>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "speculation is \"fast\"; allowed: auto, off, bfs, prob, tiers, eagle2, chain"
        );
    }
}
