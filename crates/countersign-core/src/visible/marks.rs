//! Marks that are drawn onto other characters: accents, vowel signs, points.
//!
//! Promise: a letter with its marks is shown as it is only in its composed form (NFC), on a letter, without repetition, and
//! with few of them. All other marks that look the same are written out.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::Script;

use super::letters::{is_letter, is_mark, is_nonspacing, is_soft_dotted, is_written_with, script};
use super::{Plan, Rendering, Warning};

/// The most marks on one letter; Unicode's security report (UTS 39, 5.4) draws the line here.
const MOST_MARKS: usize = 4;
const DOT_ABOVE: char = '\u{307}';
/// The circle that replaces the letter in texts about marks.
const DOTTED_CIRCLE: char = '\u{25cc}';

/// Writes out marks that mislead.
pub(super) fn write_out(text: &str, letters: &[char], plan: &mut Plan) {
    floods(letters, plan);
    if !is_composed(text) {
        decomposed(letters, plan);
    }
}

fn floods(letters: &[char], plan: &mut Plan) {
    let (mut before, mut run, mut home) = (' ', 0, None);
    for (at, &c) in letters.iter().enumerate() {
        if is_mark(c) && plan.is_kept(at) {
            let based = is_letter(before) || before == DOTTED_CIRCLE || is_mark(before);
            let unseen = c == DOT_ABOVE && is_soft_dotted(before);
            let repeated = is_nonspacing(c) && c == before;
            let astray = home.is_some_and(|script| !is_written_with(c, script));
            run = if is_nonspacing(c) { run + 1 } else { 0 };
            if !based || unseen || repeated || astray || run > MOST_MARKS {
                plan.set(at, Rendering::Escaped(Some(Warning::Combining)));
            }
        } else {
            run = 0;
            home = script(c);
        }
        // A mark after a character that is written out has no letter to sit on.
        before = if plan.is_written_out(at) && !is_mark(c) { ' ' } else { c };
    }
}

/// Finds each letter whose spelling is not the composed one, and writes out what follows the letter, or the letter itself
/// where it is only another number for the same.
fn decomposed(letters: &[char], plan: &mut Plan) {
    let mut at = 0;
    while at < letters.len() {
        if !plan.is_kept(at) {
            at += 1;
            continue;
        }
        let end = end_of_cluster(letters, at);
        let cluster: String = letters.get(at..end).unwrap_or_default().iter().collect();
        if !is_composed(&cluster) && !is_only_reordered(&cluster) {
            let first_is_fine = letters.get(at).is_some_and(|c| is_composed(c.encode_utf8(&mut [0; 4])));
            for part in (at + usize::from(first_is_fine))..end {
                if plan.is_kept(part) {
                    plan.set(part, Rendering::Escaped(Some(Warning::Combining)));
                }
            }
        }
        at = end;
    }
}

/// Whether the spelling is the composed one.
fn is_composed(text: &str) -> bool {
    text.is_ascii() || ComposingNormalizerBorrowed::new_nfc().is_normalized(text)
}

/// Where the characters end that may be composed with the one here.
fn end_of_cluster(letters: &[char], at: usize) -> usize {
    let mut end = at + 1;
    while let (Some(&last), Some(&next)) = (letters.get(end - 1), letters.get(end)) {
        let joins = !next.is_ascii() && (is_mark(next) || !is_composed_pair(last, next));
        if !joins {
            break;
        }
        end += 1;
    }
    end
}

fn is_composed_pair(last: char, next: char) -> bool {
    // The two cannot be compared by a character that is not composed.
    let alone = |c: char| is_composed(c.encode_utf8(&mut [0; 4]));
    !alone(next) || !alone(last) || is_composed(&String::from_iter([last, next]))
}

/// Keyboards for Arabic and Hebrew put out several points on one letter in the order in which they were typed; both orders are
/// ordinary text there.
fn is_only_reordered(cluster: &str) -> bool {
    let sorted = |text: &str| {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all
    };
    let pointed = cluster.chars().next().and_then(script);
    pointed.is_some_and(|script| {
        script != Script::Latin && script != Script::Greek && script != Script::Cyrillic
    }) && sorted(cluster) == sorted(&ComposingNormalizerBorrowed::new_nfc().normalize(cluster))
}
