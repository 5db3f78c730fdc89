//! The word a person may have meant.

/// The candidate closest to `word`, when it is close enough to be a slip of the pen, or begins with it.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    let allowed = word.chars().count() / 3 + 1;
    let beginning = |candidate: &str| word.len() > 2 && candidate.starts_with(&word);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed.min(3) || beginning(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// ``; did you mean `x`?``, or nothing.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates)
        .map(|found| format!("; did you mean `{found}`?"))
        .unwrap_or_default()
}

/// Levenshtein distance by characters, one row at a time.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (done, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = done + 1;
        for (index, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("retry", "retries", 3),
            ("tz", "tz", 0),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn finds_a_slip_and_not_any_word() {
        let words = ["name", "retries", "timeout", "fixed_delay"];
        assert_eq!(nearest("retry", words), None);
        assert_eq!(nearest("retires", words), Some("retries"));
        assert_eq!(nearest("time_out", words), Some("timeout"));
        assert_eq!(nearest("Fixed-Delay", words), Some("fixed_delay"));
        assert_eq!(nearest("fixed", words), Some("fixed_delay"));
        assert_eq!(nearest("colour", words), None);
    }
}
