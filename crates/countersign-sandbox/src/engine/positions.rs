//! Maps positions in the JavaScript that runs to positions in the source.
//!
//! Positions are only for display: a script can forge its own, and what cannot be mapped is left out.

use std::cell::OnceCell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

use countersign_kernel::ports::Stripped;

/// The script's file name in stack traces.
pub(super) const SCRIPT: &str = "script";
/// Lines before the script's first.
const LINES_BEFORE: u32 = 1;

/// A position in the source, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The source position of the innermost frame of a stack trace that lies in the script.
pub(super) fn source_position(stack: &str, stripped: &Stripped) -> Option<SourcePosition> {
    let (line, byte) = stack.lines().find_map(frame)?;
    let line = line.checked_sub(LINES_BEFORE + 1)?;
    let text = stripped.code.lines().nth(usize::try_from(line).ok()?)?;
    original(&stripped.mappings, line, column(text, byte))
}

/// `    at name (script:3:9)`, or `    at script:3:9` for a syntax error.
fn frame(text: &str) -> Option<(u32, usize)> {
    let text = text.trim_end_matches(')');
    let start = text.rfind(['(', ' '])? + 1;
    let (line, column) = text[start..].strip_prefix(SCRIPT)?.strip_prefix(':')?.split_once(':')?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// A map from positions in the code to lines of the source.
///
/// The mappings are decoded once, when they are first asked for: a loop may ask thousands of times.
pub(super) struct Lines {
    stripped: Rc<Stripped>,
    decoded: OnceCell<Vec<CodeLine>>,
}

/// A line of the code.
struct CodeLine {
    /// Where it lies in the code, in bytes.
    bytes: Range<usize>,
    /// From which column on it comes from which line of the source.
    origins: Vec<(usize, u32)>,
}

impl Lines {
    pub(super) fn of(stripped: &Rc<Stripped>) -> Self {
        Self { stripped: Rc::clone(stripped), decoded: OnceCell::new() }
    }

    /// The line of the source that the innermost place of a stack trace lies in; the same as [`source_position`]'s.
    pub(super) fn line(&self, stack: &str) -> Option<u32> {
        let (line, byte) = stack.lines().find_map(frame)?;
        let line = line.checked_sub(LINES_BEFORE + 1)?;
        let here = self.decoded().get(usize::try_from(line).ok()?)?;
        let (first, others) = here.origins.split_first()?;
        // Most lines of the code come from one source line, so that no column is needed.
        if others.is_empty() {
            return Some(first.1);
        }
        let column = column(self.stripped.code.get(here.bytes.clone())?, byte);
        Some(others.iter().rev().find(|(from, _)| *from <= column).unwrap_or(first).1)
    }

    fn decoded(&self) -> &[CodeLine] {
        self.decoded.get_or_init(|| {
            let mut start = 0;
            let mut lines: Vec<CodeLine> = Vec::new();
            for text in self.stripped.code.split_inclusive('\n') {
                lines.push(CodeLine { bytes: start..start + text.len(), origins: Vec::new() });
                start += text.len();
            }
            // A segment that cannot be decoded ends the list.
            let _ = each_segment(&self.stripped.mappings, |number, segment| {
                let here = usize::try_from(number).ok().and_then(|number| lines.get_mut(number));
                let (Some(here), Some(source)) = (here, segment.source()) else {
                    return ControlFlow::Continue(());
                };
                if here.origins.last().is_none_or(|(_, line)| *line != source.line) {
                    here.origins.push((usize::try_from(segment.generated).unwrap_or(0), source.line));
                }
                ControlFlow::Continue(())
            });
            lines
        })
    }
}

/// The engine counts columns in bytes, a source map in UTF-16 units.
fn column(text: &str, byte: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at + 1 < byte).map(|(_, c)| c.len_utf16()).sum()
}

/// The last mapping of the line that does not lie behind the column.
fn original(mappings: &str, line: u32, column: usize) -> Option<SourcePosition> {
    let mut found = None;
    each_segment(mappings, |number, at| {
        if number > line {
            return ControlFlow::Break(());
        }
        let here = number == line;
        if here && (found.is_none() || usize::try_from(at.generated).is_ok_and(|from| from <= column)) {
            found = Some(at.source());
        }
        ControlFlow::Continue(())
    })?;
    found.flatten()
}

/// Calls `show` with every segment and its line of the code until it breaks; None if a segment cannot be decoded.
fn each_segment(mappings: &str, mut show: impl FnMut(u32, &Segment) -> ControlFlow<()>) -> Option<()> {
    let mut at = Segment::default();
    for (number, group) in (0_u32..).zip(mappings.split(';')) {
        at.generated = 0;
        for segment in group.split(',').filter(|segment| !segment.is_empty()) {
            at.advance(segment)?;
            if show(number, &at).is_break() {
                return Some(());
            }
        }
    }
    Some(())
}

#[derive(Default)]
struct Segment {
    generated: i64,
    line: i64,
    column: i64,
}

impl Segment {
    fn source(&self) -> Option<SourcePosition> {
        let count = |from_zero: i64| u32::try_from(from_zero + 1).ok();
        Some(SourcePosition { line: count(self.line)?, column: count(self.column)? })
    }

    fn advance(&mut self, text: &str) -> Option<()> {
        let mut digits = text.bytes();
        self.generated += number(&mut digits)?;
        // A segment with one number has no source position.
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
        assert_eq!(original(mappings, 0, 0), Some(SourcePosition { line: 1, column: 1 }));
        assert_eq!(original(mappings, 0, 9), Some(SourcePosition { line: 1, column: 9 }));
        assert_eq!(
            original(mappings, 1, 0),
            Some(SourcePosition { line: 4, column: 2 }),
            "none before: the first"
        );
        assert_eq!(original(mappings, 2, 0), None);
        assert_eq!(original("!!", 0, 0), None);
    }

    #[test]
    fn the_line_alone_is_found_as_the_whole_place_is() {
        let code = "await a(); await b();\n\u{1f600}; await c(); await d();\nawait e();\n";
        // Line 0 comes from 0 and, from column 11 on, from 2. Line 1: 4, then 4 from column 4, then 5 from 15. Line 2: 6.
        let mappings = "AAAA,WAEA;AAEA,IAAA,WACA;AACA".to_owned();
        let stripped = Rc::new(Stripped { code: code.to_owned(), mappings });
        let lines = Lines::of(&stripped);
        let mut seen = Vec::new();
        for line in 1..7 {
            for byte in 0..40 {
                let stack = format!("    at apply (countersign:9:9)\n    at f (script:{line}:{byte})\n");
                let whole = source_position(&stack, &stripped).map(|position| position.line);
                assert_eq!(lines.line(&stack), whole, "{line}:{byte}");
                seen.extend(whole);
            }
        }
        seen.dedup();
        assert_eq!(seen, [1, 3, 5, 6, 7]);
        assert_eq!(lines.line("    at map (native)"), None);
    }

    #[test]
    fn mappings_that_cannot_be_decoded_lead_nowhere() {
        let stripped = Rc::new(Stripped { code: "a\nb".to_owned(), mappings: "!!;!!".to_owned() });
        assert_eq!(Lines::of(&stripped).line("    at f (script:2:1)"), None);
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
