//! Which regular expressions JavaScript (in its Unicode mode) and Python both read, and read alike.
//!
//! It errs on one side: a pattern that is called portable is; one that is not may still be.

use std::iter::Peekable;
use std::str::Chars;

/// What may follow a backslash.
const ESCAPES: &str = "dDwWsS.*+?^$()[]{}|/\\tnrfv";
/// The escapes that stand for a set of characters, and so cannot begin or end a range.
const SETS: &str = "dDwWsS";

/// Whether clients' validators can be given this pattern.
pub(super) fn is_portable(pattern: &str) -> bool {
    reads(pattern).is_some()
}

fn reads(pattern: &str) -> Option<()> {
    let mut rest = pattern.chars().peekable();
    // Whether something stands before that can be repeated.
    let mut repeatable = false;
    let mut depth = 0_usize;
    while let Some(c) = rest.next() {
        repeatable = match c {
            '\\' => rest.next().filter(|escaped| ESCAPES.contains(*escaped)).map(|_| true)?,
            '[' => class(&mut rest).map(|()| true)?,
            '(' => {
                depth += 1;
                group(&mut rest)?;
                false
            }
            ')' => {
                depth = depth.checked_sub(1)?;
                true
            }
            '*' | '+' | '?' if repeatable => lazily(&mut rest),
            '{' if repeatable => {
                count(&mut rest)?;
                lazily(&mut rest)
            }
            '^' | '$' | '|' => false,
            '*' | '+' | '?' | '{' | '}' | ']' => return None,
            _ => true,
        };
    }
    (depth == 0).then_some(())
}

/// After `(`: nothing, or `?:`.
fn group(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    if rest.next_if_eq(&'?').is_some() {
        rest.next_if_eq(&':')?;
    }
    Some(())
}

/// After a repetition: it may be lazy, and is not repeated itself.
fn lazily(rest: &mut Peekable<Chars<'_>>) -> bool {
    rest.next_if_eq(&'?');
    false
}

/// After `{`: `2}`, `2,}` or `2,3}`.
fn count(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    rest.next_if(char::is_ascii_digit)?;
    while rest.next_if(char::is_ascii_digit).is_some() {}
    if rest.next_if_eq(&',').is_some() {
        while rest.next_if(char::is_ascii_digit).is_some() {}
    }
    rest.next_if_eq(&'}').map(|_| ())
}

/// After `[`, to its `]`.
fn class(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    rest.next_if_eq(&'^');
    let mut before_is_set = false;
    let mut is_empty = true;
    loop {
        let c = rest.next()?;
        match c {
            ']' if is_empty => return None,
            ']' => return Some(()),
            // JavaScript's newer mode and Python's coming one read these otherwise.
            '[' | '&' | '~' => return None,
            '-' if is_empty || rest.peek() == Some(&']') => before_is_set = false,
            '-' => {
                let after = rest.next()?;
                let after_is_set = match after {
                    '\\' => {
                        rest.next().filter(|c| ESCAPES.contains(*c) || *c == '-').map(|c| SETS.contains(c))?
                    }
                    '[' | '-' => return None,
                    _ => false,
                };
                if before_is_set || after_is_set {
                    return None;
                }
            }
            '\\' => {
                let escaped = rest.next().filter(|c| ESCAPES.contains(*c) || *c == '-')?;
                before_is_set = SETS.contains(escaped);
            }
            _ => before_is_set = false,
        }
        is_empty = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_patterns_are_portable() {
        for pattern in [
            "",
            "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$",
            "^-?\\d+$",
            "^[^@\\s]+@[^@\\s]+$",
            "^(?:a|b)*?c{2,}d{1,3}$",
            "^[\\w\\-.]+$",
            "[-a]",
            "[a-]",
            "grüße",
            "^/tmp/.*\\.txt$",
            "a{2}?",
        ] {
            assert!(is_portable(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_one_of_them_refuses_or_reads_otherwise_is_not() {
        for pattern in [
            "\\_", "\\-", "(?i)x", "(?<n>x)", "(?=x)", "\\p{L}", "\\z", "\\1", "[\\w-.]", "[a-\\d]", "a++",
            "^*", "x{", "x}", "]", "x{,3}", "(", ")", "[]", "[^]", "[[a]]", "[a&&b]", "[a", "\\", "|*",
        ] {
            assert!(!is_portable(pattern), "{pattern}");
        }
    }
}
