//! What a level is worth above its price, for the wishes that it would grant.

use super::level_costs::LevelCosts;
use super::wish::Wish;

/// A level must promise this factor of what it costs: its promise is not better known than that.
const HURDLE: f64 = 1.1;

/// What a level of so many rows must be worth, in milliseconds.
pub(super) fn price_ms(costs: &LevelCosts, level: usize, num_rows: usize) -> f64 {
    HURDLE * costs.milliseconds(level, num_rows)
}

/// How many of the wishes, the best first, earn most over what a level of them costs, and how much.
pub(super) fn best(
    costs: &LevelCosts,
    level: usize,
    wishes: &mut [Wish],
    most: usize,
    gain_ms: impl Fn(&Wish) -> f64,
) -> (usize, f64) {
    let worth = |wish: &Wish| gain_ms(wish) - HURDLE * costs.fill_share_ms(wish.missing);
    wishes.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let (mut best, mut profit, mut sum) = (0, 0.0, 0.0);
    for (index, wish) in wishes.iter().take(most).enumerate() {
        sum += worth(wish);
        let left = sum - price_ms(costs, level, index + 1);
        if left > profit {
            (best, profit) = (index + 1, left);
        }
    }
    (best, profit)
}

/// What a first level of at most so many rows would earn above its price if each of the wishes, the best first, stood for
/// `each_for`, as those stand for others that it may not be asked about.
pub(super) fn of_all(
    costs: &LevelCosts,
    wishes: &[Wish],
    most: usize,
    ms_per_token: f64,
    each_for: f64,
) -> f64 {
    let (mut profit, mut sum) = (0.0f64, 0.0);
    for (index, wish) in wishes.iter().enumerate() {
        sum += f64::from(wish.inquiry.gain) * ms_per_token;
        let rows = (each_for * (index + 1) as f64).round() as usize;
        let asked = rows.min(most);
        let share = asked as f64 / rows.max(1) as f64;
        profit = profit.max(each_for * share * sum - price_ms(costs, 1, asked));
    }
    profit
}
