//! Names of what sources have, as MCP clients see them: prompts as `<source>__<prompt>`, resources with the source in front of
//! the scheme, `files+file:///docs/a.md`. Pure, and the same every time.
//!
//! A scheme may have `+` and `-` and no `_`, so a source's `_` is written `-` there; a name of a source has no `-`, so two
//! sources never look the same. A URI template with a source in front expands to URIs with that source in front.

/// Separates a source from its prompt.
const BEFORE_PROMPT: &str = "__";
/// Separates a source from the scheme of its resource.
const BEFORE_SCHEME: char = '+';

/// What clients call a prompt of a source.
pub(super) fn prompt_name(source: &str, prompt: &str) -> String {
    format!("{source}{BEFORE_PROMPT}{prompt}")
}

/// The source of a prompt and its name there. Where two sources could be meant, it is the one with the longer name.
pub(super) fn prompt_of<'a>(name: &'a str, sources: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let below = |source: &&'a str| Some((*source, name.strip_prefix(*source)?.strip_prefix(BEFORE_PROMPT)?));
    sources.iter().filter_map(below).max_by_key(|(source, _)| source.len())
}

/// What clients call a resource of a source, or a template of its resources.
pub(super) fn resource_uri(source: &str, uri: &str) -> String {
    format!("{}{BEFORE_SCHEME}{uri}", source.replace('_', "-"))
}

/// The source that a resource's URI names, and its URI there.
pub(super) fn resource_of<'a>(uri: &'a str, sources: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let (head, rest) = uri.split_once(BEFORE_SCHEME)?;
    // Schemes are the same in any case.
    let head = head.to_ascii_lowercase().replace('-', "_");
    sources.iter().find(|source| **source == head).map(|source| (*source, rest))
}

/// Whether a URI can have come from a URI template (RFC 6570). An expression stands for any text without `/`, or with it
/// where the expression says so (`{+path}`, `{#x}`, `{/x}`, `{?x}`).
pub(super) fn fits_template(uri: &str, template: &str) -> bool {
    let Some((literal, rest)) = template.split_once('{') else { return uri == template };
    let (Some(uri), Some((expression, rest))) = (uri.strip_prefix(literal), rest.split_once('}')) else {
        return false;
    };
    let is_simple = !expression.starts_with(['+', '#', '.', '/', ';', '?', '&']);
    let longest = if is_simple { uri.find('/').unwrap_or(uri.len()) } else { uri.len() };
    // A simple expression stands for something; `{?x}` may stand for nothing.
    let shortest = usize::from(is_simple);
    let ends = (shortest..=longest).rev().filter(|end| uri.is_char_boundary(*end));
    match rest.split('{').next() {
        // What follows begins with a literal: only where that is can the expression end.
        Some(next) if !next.is_empty() => {
            let mut ends = ends.filter(|end| uri[*end..].starts_with(next)).take(MAX_TRIES);
            ends.any(|end| fits_template(&uri[end..], rest))
        }
        _ if rest.is_empty() => longest == uri.len() && uri.len() >= shortest,
        // Two expressions side by side: the first takes what it can.
        _ => fits_template(&uri[longest..], rest),
    }
}

/// How many ends of one expression are tried.
const MAX_TRIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_source() {
        let sources = ["a", "a__b", "files", "my_files"];
        for (source, prompt) in [("files", "summarise"), ("my_files", "x__y"), ("a__b", "c")] {
            assert_eq!(prompt_of(&prompt_name(source, prompt), &sources), Some((source, prompt)));
        }
        assert_eq!(prompt_of("nobody__x", &sources), None);
        for (source, uri) in [("files", "file:///docs/a+b.md"), ("my_files", "demo://x"), ("a", "note")] {
            assert_eq!(resource_of(&resource_uri(source, uri), &sources), Some((source, uri)));
        }
        assert_eq!(resource_uri("my_files", "file:///a"), "my-files+file:///a");
        assert_eq!(resource_of("FILES+file:///A", &sources), Some(("files", "file:///A")));
        assert_eq!(resource_of("file:///a+b", &sources), None);
        assert_eq!(resource_of("git+ssh://x", &sources), None);
    }

    #[test]
    fn a_uri_fits_the_template_that_it_can_have_come_from() {
        for (uri, template) in [
            ("demo://resource/text/1", "demo://resource/text/{id}"),
            ("test://template/7/data", "test://template/{id}/data"),
            ("file:///a/b/c", "file:///{+path}"),
            ("x://a?q=1", "x://a{?q}"),
            ("x://a", "x://a{?q}"),
            ("x://a/b", "x://{one}/{two}"),
            ("x://plain", "x://plain"),
        ] {
            assert!(fits_template(uri, template), "{uri} {template}");
        }
        for (uri, template) in [
            ("demo://resource/text/1/2", "demo://resource/text/{id}"),
            ("demo://resource/text/", "demo://resource/text/{id}"),
            ("test://template/7/other", "test://template/{id}/data"),
            ("y://a", "x://{a}"),
            ("x://a", "x://{broken"),
        ] {
            assert!(!fits_template(uri, template), "{uri} {template}");
        }
    }

    #[test]
    fn a_template_that_fits_in_many_ways_does_not_take_for_ever() {
        let (uri, template) = (format!("{}!", "a".repeat(5_000)), "{+a}a".repeat(6));
        assert!(!fits_template(&uri, &template));
    }
}
