//! What a model's server says, made fit for an error: without the key, and short.

/// The most of each text that an error keeps.
pub const MAX_ERROR_BYTES: usize = 2_000;
/// What stands where the key stood.
const KEY: &str = "[key]";
/// The shortest beginning of the key that is taken for a part of it. What all keys begin with is shorter.
const SHORTEST_PART: usize = 4;

/// The text without the key, cut to [`MAX_ERROR_BYTES`]. The cut comes last, or a key across it would show its beginning.
pub(super) fn shown(text: &str, key: &str) -> String {
    let mut text = without(text, key);
    // Errors quote what they met: there the key stands as JSON writes it.
    let quoted = key.escape_debug().to_string();
    if quoted != key {
        text = without(&text, &quoted);
    }
    text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
    text
}

fn without(text: &str, key: &str) -> String {
    if key.is_empty() {
        return text.to_owned();
    }
    let mut text = text.replace(key, KEY);
    // A text that was not read to its end may end inside the key.
    let mut parts = (SHORTEST_PART..key.len()).rev().filter_map(|length| key.get(..length));
    if let Some(part) = parts.find(|part| text.ends_with(part)) {
        text.truncate(text.len() - part.len());
        text.push_str(KEY);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_nowhere_in_what_is_shown_whole_quoted_or_begun() {
        let key = "sk-a\"b\\c";
        let said = format!("{key} and {key:?} and sk-a\"b");
        assert_eq!(shown(&said, key), "[key] and \"[key]\" and [key]");
        assert_eq!(shown("keys begin with sk-", key), "keys begin with sk-");
        assert_eq!(shown("nothing to hide", ""), "nothing to hide");
    }

    #[test]
    fn a_text_at_its_bound_is_whole_and_one_past_it_is_cut_between_letters() {
        let whole = "x".repeat(MAX_ERROR_BYTES);
        assert_eq!(shown(&whole, "sk-secret"), whole);
        assert_eq!(shown(&format!("{whole}x"), "sk-secret"), whole);
        let before = &whole[1..];
        assert_eq!(shown(&format!("{before}ä"), "sk-secret"), before);
    }
}
