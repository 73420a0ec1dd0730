//! From a place in the JavaScript that runs back to the place in the source that was written.
//!
//! Positions are a courtesy: a script can lie about its own, and what cannot be led back is left out.

use countersign_kernel::ports::Stripped;

/// The name under which the engine knows the script; it stands in stack traces.
pub(super) const SCRIPT: &str = "script";
/// Lines before the script's first.
const LINES_BEFORE: u32 = 1;

/// A place in the source, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The innermost place of a stack trace that lies in the script, as a place in its source.
pub(super) fn place(stack: &str, stripped: &Stripped) -> Option<Place> {
    let (line, byte) = stack.lines().find_map(frame)?;
    let line = line.checked_sub(LINES_BEFORE + 1)?;
    let text = stripped.code.lines().nth(usize::try_from(line).ok()?)?;
    // The engine counts columns in bytes, a source map in UTF-16 units.
    let column = text.char_indices().take_while(|(at, _)| *at + 1 < byte).map(|(_, c)| c.len_utf16()).sum();
    original(&stripped.mappings, line, column)
}

/// `    at name (script:3:9)`, or `    at script:3:9` for a syntax error.
fn frame(text: &str) -> Option<(u32, usize)> {
    let text = text.trim_end_matches(')');
    let start = text.rfind(['(', ' '])? + 1;
    let (line, column) = text[start..].strip_prefix(SCRIPT)?.strip_prefix(':')?.split_once(':')?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// The last mapping of the line that does not lie behind the column.
fn original(mappings: &str, line: u32, column: usize) -> Option<Place> {
    let mut at = Segment::default();
    let mut found = None;
    for (number, group) in (0_u32..).zip(mappings.split(';')) {
        at.generated = 0;
        for segment in group.split(',').filter(|segment| !segment.is_empty()) {
            at.advance(segment)?;
            let here = number == line;
            if here && (found.is_none() || usize::try_from(at.generated).is_ok_and(|from| from <= column)) {
                found = Some(Place {
                    line: u32::try_from(at.line + 1).ok()?,
                    column: u32::try_from(at.column + 1).ok()?,
                });
            }
        }
        if number == line {
            break;
        }
    }
    found
}

#[derive(Default)]
struct Segment {
    generated: i64,
    line: i64,
    column: i64,
}

impl Segment {
    fn advance(&mut self, text: &str) -> Option<()> {
        let mut digits = text.bytes();
        self.generated += number(&mut digits)?;
        // A segment without a source says that nothing was written here.
        if number(&mut digits).is_some() {
            self.line += number(&mut digits)?;
            self.column += number(&mut digits)?;
        }
        Some(())
    }
}

/// A number in base64 VLQ: five bits a digit, the least first, the sign in the lowest bit.
fn number(digits: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0_i64;
    for shift in (0..40).step_by(5) {
        let digit = i64::from(match digits.next()? {
            c @ b'A'..=b'Z' => c - b'A',
            c @ b'a'..=b'z' => c - b'a' + 26,
            c @ b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        });
        value |= (digit & 31) << shift;
        if digit & 32 == 0 {
            return Some(if value & 1 == 0 { value >> 1 } else { -(value >> 1) });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_sign_and_more_than_one_digit() {
        let read = |text: &str| number(&mut text.bytes());
        assert_eq!(read("A"), Some(0));
        assert_eq!(read("C"), Some(1));
        assert_eq!(read("D"), Some(-1));
        assert_eq!(read("gB"), Some(16));
        assert_eq!(read("!"), None);
        assert_eq!(read("gggggggggggg"), None, "no end");
    }

    #[test]
    fn the_nearest_mapping_before_a_place_counts() {
        // Line 0: column 0 from 0:0, column 4 from 0:8. Line 1: column 2 from 3:1.
        let mappings = "AAAA,IAAQ;EAGP";
        assert_eq!(original(mappings, 0, 0), Some(Place { line: 1, column: 1 }));
        assert_eq!(original(mappings, 0, 9), Some(Place { line: 1, column: 9 }));
        assert_eq!(original(mappings, 1, 0), Some(Place { line: 4, column: 2 }), "none before: the first");
        assert_eq!(original(mappings, 2, 0), None);
        assert_eq!(original("!!", 0, 0), None);
    }

    #[test]
    fn only_frames_of_the_script_count() {
        assert_eq!(frame("    at f (script:3:9)"), Some((3, 9)));
        assert_eq!(frame("    at script:3:9"), Some((3, 9)));
        assert_eq!(frame("    at apply (countersign:3:9)"), None);
        assert_eq!(frame("    at map (native)"), None);
        assert_eq!(frame(""), None);
    }
}
