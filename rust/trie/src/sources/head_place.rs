//! Where a drafter of the runner's was asked, and what came of it.

/// Levels that are told apart, and kinds of nodes by what others expect there.
pub(crate) const NUM_LEVELS: usize = 4;
pub(crate) const NUM_KINDS: usize = 3;

/// Kinds of nodes by the price of a row.
pub(crate) const NUM_PRICES: usize = 3;

/// One of each for every level, kind and price.
pub(crate) type Places<T> = [[[T; NUM_PRICES]; NUM_KINDS]; NUM_LEVELS];

/// What others expect at most at a node of each kind but the last.
const BEFORE: [f32; NUM_KINDS - 1] = [0.3, 0.7];

/// What a row costs at most at a node of each price but the last.
const PRICES: [f32; NUM_PRICES - 1] = [0.1, 0.3];

/// Where a drafter was asked: the level, and what others offered there before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    level: usize,
    kind: usize,
    price_kind: usize,
    /// What a row costs in accepted tokens, once the node is reached.
    price: f32,
    /// The surplus that children drafted without an answer are expected to give.
    surplus: f32,
}

impl Place {
    /// Levels count from 1; `before` is the probability that a child drafted without an answer is right, `surplus`
    /// what such children give above `price`.
    pub(crate) fn new(level: u16, before: f32, price: f32, surplus: f32) -> Self {
        let price = price.clamp(0.0, 1.0);
        Self {
            level: usize::from(level).clamp(1, NUM_LEVELS) - 1,
            kind: BEFORE.iter().filter(|&&at| before > at).count(),
            price_kind: PRICES.iter().filter(|&&at| price > at).count(),
            price,
            surplus: surplus.clamp(0.0, 1.0 - price),
        }
    }

    /// What a row costs in accepted tokens, once the node is reached.
    pub(crate) fn price(self) -> f32 {
        self.price
    }

    /// The surplus that others leave: what an answer that is certain and right adds.
    pub(crate) fn left(self) -> f32 {
        1.0 - self.price - self.surplus
    }

    /// The surplus that children drafted without an answer are expected to give.
    pub(crate) fn surplus(self) -> f32 {
        self.surplus
    }

    /// What it has in tables: of its level, its kind and its price.
    pub(crate) fn of<T: Copy>(self, table: &Places<T>) -> T {
        table[self.level][self.kind][self.price_kind]
    }

    /// The same, to change it.
    pub(crate) fn of_mut<T>(self, table: &mut Places<T>) -> &mut T {
        &mut table[self.level][self.kind][self.price_kind]
    }

    /// Levels count from 0 here.
    pub(crate) fn level(self) -> usize {
        self.level
    }
}

/// What children drafted with an answer promised and came to: those that are worth their row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came {
    /// Whether one of them was right.
    pub(crate) is_hit: bool,
    /// How many they are.
    pub(crate) rows: usize,
    /// The probability that one of them is right, as it was drafted.
    pub(crate) promised: f32,
}

impl Came {
    /// Hits above what their rows cost.
    pub(crate) fn surplus(self, price: f32) -> f32 {
        f32::from(u8::from(self.is_hit)) - price * self.rows as f32
    }

    /// The same, as it was promised.
    pub(crate) fn promised(self, price: f32) -> f32 {
        self.promised - price * self.rows as f32
    }
}
