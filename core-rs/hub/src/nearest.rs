//! "Did you mean …?": the known name that is closest to a mistyped one.

/// The closest of the names, if it is close enough to be what was meant: at most a third of its letters are wrong.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|candidate| (distance(name, candidate), candidate));
    let (wrong, candidate) = scored.min()?;
    (wrong * 3 <= candidate.chars().count().max(3)).then_some(candidate)
}

/// How many letters must be changed, added, left out or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = [vec![0; to.len() + 1], (0..=to.len()).collect(), Vec::new()];
    for (i, letter) in from.iter().enumerate() {
        let [before, last, next] = &mut rows;
        next.clear();
        next.push(i + 1);
        for (j, other) in to.iter().enumerate() {
            let mut least = (last[j] + usize::from(letter != other))
                .min(last[j + 1] + 1)
                .min(next[j] + 1);
            if i > 0 && j > 0 && *letter == to[j - 1] && from[i - 1] == *other {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        rows.rotate_left(1);
    }
    rows[1].last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_recognised() {
        let known = ["chain", "speak_about", "read_pdf"];
        for (typed, meant) in [
            ("chian", "chain"),
            ("speakabout", "speak_about"),
            ("read_pfd", "read_pdf"),
        ] {
            assert_eq!(nearest(typed, known.into_iter()), Some(meant), "{typed}");
        }
    }

    #[test]
    fn another_name_is_not_taken_for_a_known_one() {
        let known = ["chain", "speak_about", "read_pdf"];
        for typed in ["paint", "", "a completely different name"] {
            assert_eq!(nearest(typed, known.into_iter()), None, "{typed}");
        }
        assert_eq!(nearest("chain", [].into_iter()), None);
    }

    #[test]
    fn distances_count_edits() {
        for (from, to, edits) in [
            ("", "", 0),
            ("", "ab", 2),
            ("ab", "ba", 1),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }
}
