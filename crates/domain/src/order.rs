//! Stable sorts, whose code is in the program once.
//!
//! The standard library's sorts are compiled anew for each type of element and each comparison, at some 4 KiB
//! each, and the program has a hundred lists of a few elements to sort. Here the places are sorted instead of
//! the elements, by one sort that asks for a comparison of two places. What sorts much, or in a loop, takes
//! the standard library's.

use std::cmp::Ordering;

/// Sorts by a comparison. Equal elements keep their order.
pub fn by<T>(elements: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let sorted = places(elements.len(), &|a, b| compare(&elements[a], &elements[b]));
    arrange(elements, sorted);
}

/// Sorts by a key, which is asked for at each comparison. Elements of equal keys keep their order.
pub fn by_key<T, K: Ord>(elements: &mut [T], key: impl Fn(&T) -> K) {
    by(elements, |a, b| key(a).cmp(&key(b)));
}

/// The places of so many elements, in the order of the elements.
fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// Moves each element from its place to where that place stands in the list.
fn arrange<T>(elements: &mut [T], mut places: Vec<usize>) {
    for first in 0..places.len() {
        let mut to = first;
        // Around the cycle of moves that begins here; what was moved before is at its place.
        loop {
            let from = std::mem::replace(&mut places[to], to);
            if from == first {
                break;
            }
            elements.swap(to, from);
            to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn it_is_the_standard_librarys_order() {
        let mut rng = Seed(1).stream("order");
        for count in 0..200 {
            let mut ours: Vec<(usize, usize)> = (0..count).map(|i| (rng.below(9), i)).collect();
            let mut theirs = ours.clone();
            by(&mut ours, |a, b| b.0.cmp(&a.0));
            theirs.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            assert_eq!(ours, theirs);
            by_key(&mut ours, |(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            assert_eq!(ours, theirs);
        }
    }
}
