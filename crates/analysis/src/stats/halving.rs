//! Successive halving: which of many cells is as good as the best, in far fewer trials than all of them take.
//!
//! Each round measures what is left, keeps the best quarter, and measures that twice as often: the trials go
//! where it is hard to tell. What is kept was chosen by the trials that are there, so that its value is too
//! good by chance; what it gains has to be measured anew.
//!
//! Sources: Karnin, Koren, Somekh, *Almost Optimal Exploration in Multi-Armed Bandits* (ICML 2013); Jamieson,
//! Talwalkar, *Non-stochastic Best Arm Identification and Hyperparameter Optimization* (AISTATS 2016); a
//! quarter instead of a half: Li et al., *Hyperband* (JMLR 18, 2018), where 3 and 4 were as good.

/// Of how many cells one goes on into the next round; as few are the last round.
const ONE_OF: usize = 4;

/// A round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// How many cells take part.
    pub cells: usize,
    /// Before which block it ends, counted from zero.
    pub until: u32,
}

/// The rounds among so many cells, of which the first has `first` blocks, and all together `most` at the
/// most. None without a cell.
pub fn rounds(cells: usize, first: u32, most: u32) -> Vec<Round> {
    let mut rounds = Vec::new();
    let (mut left, mut blocks, mut until) = (cells, first.max(1), 0_u32);
    while left > 0 {
        until = until.saturating_add(blocks).min(most);
        rounds.push(Round { cells: left, until });
        // A few cells have a second round too, all of them.
        let is_last = left <= ONE_OF && rounds.len() > 1;
        if is_last || until == most {
            break;
        }
        blocks = blocks.saturating_mul(2);
        left = if left <= ONE_OF { left } else { left.div_ceil(ONE_OF) };
    }
    rounds
}

/// How many trials they take.
pub fn trials(rounds: &[Round]) -> usize {
    let begins = std::iter::once(0).chain(rounds.iter().map(|round| round.until));
    rounds.iter().zip(begins).map(|(round, begin)| round.cells * (round.until - begin) as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cells: usize, first: u32, most: u32) -> Vec<(usize, u32)> {
        rounds(cells, first, most).into_iter().map(|round| (round.cells, round.until)).collect()
    }

    #[test]
    fn a_quarter_goes_on_for_twice_as_many_blocks() {
        assert_eq!(of(64, 1, 15), [(64, 1), (16, 3), (4, 7)]);
        assert_eq!(of(13, 1, 15), [(13, 1), (4, 3)]);
        assert_eq!(of(3, 2, 15), [(3, 2), (3, 6)]);
        assert_eq!(of(1, 1, 15), [(1, 1), (1, 3)]);
        assert!(of(0, 1, 15).is_empty());
    }

    #[test]
    fn no_more_blocks_are_measured_than_the_study_allows() {
        assert_eq!(of(64, 1, 5), [(64, 1), (16, 3), (4, 5)]);
        assert_eq!(of(64, 1, 1), [(64, 1)]);
        assert_eq!(of(300, u32::MAX, 9), [(300, 9)]);
    }

    #[test]
    fn the_trials_are_a_fraction_of_ten_of_each() {
        assert_eq!(trials(&rounds(64, 1, 15)), 64 + 16 * 2 + 4 * 4);
        for cells in 12..=256 {
            let share = trials(&rounds(cells, 1, 15)) as f64 / (10 * cells) as f64;
            assert!(share < 0.25, "{cells} cells: {share}");
        }
    }
}
