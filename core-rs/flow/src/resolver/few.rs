//! A list that is most often of one: the ports of a node.

use std::ops::{Deref, DerefMut};

/// Fixed once made. Nothing is allocated for up to one element.
#[derive(Debug)]
pub(super) enum Few<T> {
    None,
    One([T; 1]),
    Many(Box<[T]>),
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(from: I) -> Self {
        let mut from = from.into_iter();
        let Some(first) = from.next() else {
            return Self::None;
        };
        match from.next() {
            None => Self::One([first]),
            Some(second) => Self::Many([first, second].into_iter().chain(from).collect()),
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_slice_of_what_it_was_made_of() {
        for length in 0..4 {
            let mut few: Few<usize> = (0..length).collect();
            assert_eq!(*few, *(0..length).collect::<Vec<_>>());
            few.iter_mut().for_each(|one| *one += 1);
            assert_eq!(few.iter().sum::<usize>(), (1..=length).sum());
        }
    }
}
