//! Texts from outside, cut to a bound.

/// The text, or its beginning with an ellipsis; never more than this many bytes, and never half a character.
pub(crate) fn bounded(text: &str, most_bytes: usize) -> String {
    if text.len() <= most_bytes {
        return text.to_owned();
    }
    let mut end = most_bytes.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text[..end].trim_end())
}
