//! Emoji that are made of several characters.
//!
//! Promise: an invisible character stays only inside a sequence that Unicode lists as an emoji, and it is one of two.

use super::{Plan, Rendering};

/// Joins two emoji into one.
const JOINER: char = '\u{200d}';
/// Asks for the coloured form.
const EMOJI_FORM: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';
/// The longest emoji that Unicode lists has so many characters.
const LONGEST_EMOJI: usize = 10;

/// Keeps what holds a standard emoji together.
pub(super) fn keep_emoji(letters: &[char], plan: &mut Plan) {
    let mut at = 0;
    while at < letters.len() {
        // Only sequences are of interest, and each has one of the two as its second or third character.
        let near = letters.iter().skip(at + 1).take(2);
        let long = if near.clone().any(|c| is_invisible_part(*c)) { emoji_at(letters, at) } else { 0 };
        (at..at + long).for_each(|part| plan.set(part, Rendering::Fixed));
        at += long.max(1);
    }
}

/// How many characters the emoji has that begins here and holds one of the two.
fn emoji_at(letters: &[char], at: usize) -> usize {
    if letters.get(at).copied().is_none_or(is_invisible_part) {
        return 0;
    }
    let most = LONGEST_EMOJI.min(letters.len() - at);
    let listed = |long: &usize| {
        let sequence = letters.get(at..at + long).unwrap_or_default();
        sequence.iter().any(|c| is_invisible_part(*c))
            && !sequence.iter().any(|c| is_tag(*c))
            && is_drawn_as_emoji(sequence)
            && emojis::get(&sequence.iter().collect::<String>()).is_some()
    };
    (2..=most).rev().find(listed).unwrap_or(0)
}

fn is_invisible_part(c: char) -> bool {
    c == JOINER || c == EMOJI_FORM
}

/// A digit is an emoji only inside a keycap; with the selector alone it is drawn as any digit.
fn is_drawn_as_emoji(sequence: &[char]) -> bool {
    sequence.first().is_some_and(|c| !c.is_ascii()) || sequence.last() == Some(&KEYCAP)
}

/// Tags can spell invisible texts, so they are written out, and with them three flags.
fn is_tag(c: char) -> bool {
    ('\u{e0000}'..='\u{e007f}').contains(&c)
}
