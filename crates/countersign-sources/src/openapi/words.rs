//! Words inside identifiers: `GET_DeleteDBCluster` is `get delete db cluster`.

/// The words of an identifier or a sentence, in lower case: split at everything that is no letter or digit, and where
/// capitals begin a new word. An acronym is one word, also in the plural (`URLs`).
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|piece| !piece.is_empty())
        .flat_map(camel_words)
        .collect()
}

/// The words joined by underscores, as one segment of a tool path; none where nothing is left.
pub(crate) fn snake_case(text: &str) -> Option<String> {
    let joined = words(text).join("_");
    match joined.chars().next() {
        None => None,
        // A segment begins with a letter.
        Some(first) if first.is_ascii_digit() => Some(format!("n{joined}")),
        Some(_) => Some(joined),
    }
}

fn camel_words(piece: &str) -> Vec<String> {
    let letters: Vec<char> = piece.chars().collect();
    let mut found = Vec::new();
    let mut word = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if at > 0 && begins_word(&letters, at) {
            found.push(std::mem::take(&mut word));
        }
        word.push(letter.to_ascii_lowercase());
    }
    found.push(word);
    found
}

fn begins_word(letters: &[char], at: usize) -> bool {
    let (before, here) = (letters[at - 1], letters[at]);
    if !here.is_ascii_uppercase() {
        return false;
    }
    if !before.is_ascii_uppercase() {
        return true;
    }
    // The last capital of a run begins the next word, unless only the plural's `s` follows.
    let after = letters.get(at + 1);
    let is_plural = after == Some(&'s') && letters.get(at + 2).is_none_or(|next| !next.is_ascii_lowercase());
    after.is_some_and(char::is_ascii_lowercase) && !is_plural
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_every_custom_become_snake_case() {
        let cases = [
            ("issues", "issues"),
            ("get-content", "get_content"),
            ("postMessage", "post_message"),
            ("GET_DeleteDBCluster", "get_delete_db_cluster"),
            ("listURLs", "list_urls"),
            ("getURLsOfUser", "get_urls_of_user"),
            ("readCoreV1NamespacedPod", "read_core_v1_namespaced_pod"),
            ("  Retrieve a Page ", "retrieve_a_page"),
            ("2fa", "n2fa"),
        ];
        for (given, wanted) in cases {
            assert_eq!(snake_case(given).as_deref(), Some(wanted), "{given}");
        }
        assert_eq!(snake_case("…"), None);
    }
}
