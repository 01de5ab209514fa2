//! Which rows' likeliest tokens become draft material.

crate::named::named! {
    /// Which rows report their likeliest tokens to the drafters.
    pub enum Recycle ("recycle") {
        /// None.
        Off => "off",
        /// Every row that is sampled: decode rows, rejected nodes, the ends of prompts.
        Decode => "decode",
        /// Prompt rows as well. That costs the product with the vocabulary for each: 30 % of the
        /// prefill of SmolLM2-135M, for -1 to +4 % of accepted tokens.
        All => "all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_both_ways() {
        for choice in Recycle::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "none".parse::<Recycle>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "recycle is \"none\"; allowed: off, decode, all"
        );
    }
}
