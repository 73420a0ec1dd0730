//! Names of tools: from what a server calls them to the words of a path. Pure, and the same every time.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

/// The longest name below the source's. With the source's own name in front a path stays within its bound.
pub const MAX_NAME_BYTES: usize = 120;

/// The path words for every name. `.` and `/` separate segments, camelCase becomes snake_case, anything else a path cannot
/// have becomes `_`. Where two names meet, or one would be a namespace of another, all that meet get six hex digits of
/// their own name's hash: never a position, which would mean another tool after the next listing. `taken` are words that other
/// tools of the source have: those keep theirs.
pub(super) fn path_words<'a>(
    names: impl IntoIterator<Item = &'a str>,
    taken: &[&'a str],
) -> BTreeMap<String, String> {
    let plain: BTreeMap<String, String> =
        names.into_iter().map(|name| (name.to_owned(), words_of(name))).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let mut namespaces = BTreeSet::new();
    for words in plain.values().map(String::as_str).chain(taken.iter().copied()) {
        *uses.entry(words).or_default() += 1;
        namespaces.extend(words.match_indices('.').map(|(dot, _)| &words[..dot]));
    }
    plain
        .iter()
        .map(|(name, words)| {
            let meets =
                uses.get(words.as_str()).is_some_and(|uses| *uses > 1) || namespaces.contains(words.as_str());
            (name.clone(), if meets { marked(words, name) } else { words.clone() })
        })
        .collect()
}

fn words_of(name: &str) -> String {
    let segments: Vec<String> =
        name.split(['.', '/']).map(segment).filter(|segment| !segment.is_empty()).collect();
    let words = segments.join(".");
    match words.len() {
        0 => marked("tool", name),
        length if length > MAX_NAME_BYTES => marked(&words, name),
        _ => words,
    }
}

fn segment(text: &str) -> String {
    let mut words = String::new();
    let mut previous = '_';
    for original in text.chars() {
        // Only the first of several capitals starts a word: `getURL` is `get_url`.
        if original.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            words.push('_');
        }
        let c = if original.is_ascii_alphanumeric() { original.to_ascii_lowercase() } else { '_' };
        if c != '_' || !words.ends_with('_') {
            words.push(c);
        }
        previous = original;
    }
    let words = words.trim_matches('_');
    match words.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("n{words}"),
        _ => words.to_owned(),
    }
}

fn marked(words: &str, name: &str) -> String {
    let hash = Sha256::digest(name.as_bytes());
    let mark: String = hash.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    let room = MAX_NAME_BYTES - mark.len() - 1;
    let kept = words[..words.len().min(room)].trim_end_matches(['_', '.']);
    format!("{kept}_{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sdk::ToolPath;

    fn one(name: &str) -> String {
        path_words([name], &[])[name].clone()
    }

    #[test]
    fn ordinary_names_stay_and_others_become_words_of_a_path() {
        for (name, words) in [
            ("read_file", "read_file"),
            ("get-env", "get_env"),
            ("readFile", "read_file"),
            ("getURL", "get_url"),
            ("issues/create", "issues.create"),
            ("a.b", "a.b"),
            ("2fa", "n2fa"),
            ("__x--y__", "x_y"),
            ("Größe", "gr_e"),
        ] {
            assert_eq!(one(name), words, "{name}");
        }
    }

    #[test]
    fn every_name_gives_a_path() {
        for name in ["", "...", "日本語", "a\u{202e}b", "\0", "a//b", &"x".repeat(500), &"a.".repeat(300)]
        {
            let path = format!("source.{}", one(name));
            assert!(ToolPath::parse(&path).is_ok(), "{name:?} became {path:?}");
            assert!(one(name).len() <= MAX_NAME_BYTES);
        }
        assert_ne!(one("日本"), one("日本語"));
    }

    #[test]
    fn names_that_meet_are_told_apart_by_themselves_and_not_by_their_order() {
        let words = path_words(["readFile", "read_file", "other"], &[]);
        assert_eq!(words, path_words(["other", "read_file", "readFile"], &[]));
        assert_ne!(words["readFile"], words["read_file"]);
        assert!(words.values().filter(|words| words.starts_with("read_file_")).count() == 2);
        assert_eq!(words["other"], "other");
    }

    #[test]
    fn a_tool_is_never_also_a_namespace() {
        let words = path_words(["issues", "issues/create"], &[]);
        assert_eq!(words["issues/create"], "issues.create");
        assert!(words["issues"].starts_with("issues_"));
    }

    #[test]
    fn words_that_are_taken_stay_with_the_tool_that_has_them() {
        let words = path_words(["resources/read", "resources", "other"], &["resources.read"]);
        assert!(words["resources/read"].starts_with("resources.read_"), "{words:?}");
        assert!(words["resources"].starts_with("resources_"), "{words:?}");
        assert_eq!(words["other"], "other");
    }
}
