//! The name that was probably meant, for messages about unknown names.

/// The candidate nearest to a misspelt word, if one is near enough to be worth naming.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Three edits turn any three letters into any others, so what counts as near grows with the word. Long words are
    // cut off: nobody misspells beyond recognition and means it.
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let word: Vec<char> = word.chars().take(MAX_CHARS).flat_map(char::to_lowercase).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?`, or else what there is.
pub(super) fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", listed(candidates)),
    }
}

/// `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

const MAX_CHARS: usize = 64;

/// Insertions, deletions, substitutions and swaps of neighbours.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut current = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let substituted = previous[j] + usize::from(a != b);
            let mut best = substituted.min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_finds_its_name() {
        let names = ["args", "tool", "principal", "session"];
        for (word, meant) in [
            ("arg", Some("args")),
            ("agrs", Some("args")),
            ("ARGS", Some("args")),
            ("tools", Some("tool")),
            ("principle", Some("principal")),
            ("sesion", Some("session")),
            ("request", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), meant, "{word}");
        }
        assert_eq!(did_you_mean("arg", &names), "did you mean `args`?");
        assert_eq!(did_you_mean("x", &names), "there are args, tool, principal and session");
    }
}
