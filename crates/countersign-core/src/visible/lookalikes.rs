//! Letters and digits that can be taken for others.
//!
//! Promise: in a word of several alphabets every foreign letter is written out; a word that is wholly of another alphabet and
//! could be read as a Latin one is followed by the alphabet's name, unless it stands among words that are plainly of that
//! alphabet; a number has digits of one kind. Chinese, Japanese and Korean text mixes scripts as it always does.

use icu_properties::props::Script;
use unicode_security::mixed_script::AugmentedScriptSet;

use super::letters::{
    alphabet, is_digit, is_disguised_ascii, is_east_asian, is_mark, is_of_a_word, looks_like_ascii, script,
};
use super::{Note, Plan, Rendering, Warning};

/// Writes out, or remarks on, what can be taken for something else.
pub(super) fn write_out(letters: &[char], plan: &mut Plan) {
    for (at, c) in letters.iter().enumerate() {
        if plan.is_kept(at) && is_disguised_ascii(*c) {
            plan.set(at, Rendering::Escaped(Some(Warning::LookAlike)));
        }
    }
    mixed_digits(letters, plan);
    let words = words(letters, plan);
    for (nth, word) in words.iter().enumerate() {
        match word.kind {
            Kind::Mixed => write_out_foreign(letters, word, plan),
            Kind::Ambiguous if !is_among_its_alphabet(&words, nth) => {
                let name = letters.iter().take(word.end).skip(word.start).find_map(|c| alphabet(*c));
                plan.notes.push(Note {
                    after: word.end - 1,
                    text: name.unwrap_or("not Latin").to_owned(),
                    warning: Some(Warning::LookAlike),
                });
            }
            Kind::Ambiguous | Kind::Latin | Kind::Foreign | Kind::Neutral => {}
        }
    }
}

/// A run of letters, marks and numbers.
struct Word {
    start: usize,
    end: usize,
    /// The script of its first letter that has one.
    script: Option<Script>,
    kind: Kind,
    /// Words are neighbours within one phrase only: a line, or what stands between quotes.
    phrase: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Plain Latin, ASCII or not.
    Latin,
    /// Plainly of one other alphabet, or a mixture that people write.
    Foreign,
    /// Wholly of another alphabet, and every letter could be taken for an ASCII one.
    Ambiguous,
    /// Of several alphabets.
    Mixed,
    /// Numbers.
    Neutral,
}

fn words(letters: &[char], plan: &Plan) -> Vec<Word> {
    let (mut all, mut at, mut phrase) = (Vec::new(), 0, 0);
    while let Some(&c) = letters.get(at) {
        if !is_part(letters, plan, at) {
            phrase += usize::from(c == '\n' || c == '"');
            at += 1;
            continue;
        }
        let start = at;
        while is_part(letters, plan, at) {
            at += 1;
        }
        let word = letters.get(start..at).unwrap_or_default();
        let script = word.iter().find_map(|c| script(*c));
        all.push(Word { start, end: at, script, kind: kind(word), phrase });
    }
    all
}

fn is_part(letters: &[char], plan: &Plan, at: usize) -> bool {
    plan.is_kept(at) && letters.get(at).is_some_and(|c| is_of_a_word(*c))
}

fn kind(word: &[char]) -> Kind {
    if word.iter().all(char::is_ascii) {
        return if word.iter().any(char::is_ascii_alphabetic) { Kind::Latin } else { Kind::Neutral };
    }
    let foreign = |c: &&char| script(**c).is_some_and(|script| script != Script::Latin);
    let (others, latin): (Vec<char>, Vec<char>) = (
        word.iter().filter(foreign).copied().collect(),
        word.iter().filter(|c| !foreign(c)).copied().collect(),
    );
    let has_latin = latin.iter().any(|c| script(*c) == Some(Script::Latin));
    let of_one = |letters: &[char]| {
        let text: String = letters.iter().filter(|c| !is_mark(**c)).collect();
        !AugmentedScriptSet::for_str(&text).is_empty()
    };
    let east_asian = others.iter().all(|c| script(*c).is_none_or(is_east_asian));
    match (others.is_empty(), has_latin) {
        (true, true) => Kind::Latin,
        (true, false) if word.iter().all(|c| looks_like_ascii(*c)) => Kind::Ambiguous,
        (true, false) => Kind::Neutral,
        _ if east_asian && of_one(&others) => Kind::Foreign,
        _ if !of_one(&others) => Kind::Mixed,
        (false, true) if others.iter().any(|c| looks_like_ascii(*c) || is_bicameral(*c)) => Kind::Mixed,
        (false, true) => Kind::Foreign,
        (false, false) if word.iter().all(|c| looks_like_ascii(*c)) => Kind::Ambiguous,
        (false, false) => Kind::Foreign,
    }
}

/// Alphabets with capitals are drawn so much like Latin that no word mixes them with it by accident.
fn is_bicameral(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase()
}

fn write_out_foreign(letters: &[char], word: &Word, plan: &mut Plan) {
    let range = word.start..word.end;
    let scripts = || letters.iter().take(word.end).skip(word.start).filter_map(|c| script(*c));
    let home =
        if scripts().any(|script| script == Script::Latin) { Some(Script::Latin) } else { word.script };
    for at in range {
        let own = letters.get(at).and_then(|c| script(*c));
        if own.is_some() && own != home {
            plan.set(at, Rendering::Named(Warning::LookAlike));
        }
    }
}

/// Whether the nearest plain words of the phrase are of the same alphabet: then this one is not read as Latin.
fn is_among_its_alphabet(words: &[Word], nth: usize) -> bool {
    let Some(word) = words.get(nth) else { return false };
    let plain = |other: &&Word| !matches!(other.kind, Kind::Ambiguous | Kind::Neutral);
    let near = |other: &&Word| other.phrase == word.phrase;
    let before = words.iter().take(nth).rev().take_while(near).find(plain);
    let after = words.iter().skip(nth + 1).take_while(near).find(plain);
    let own =
        |other: &&Word| other.kind == Kind::Foreign && (word.script.is_none() || other.script == word.script);
    let neighbours = [before, after];
    neighbours.iter().flatten().next().is_some() && neighbours.iter().flatten().all(own)
}

/// Digits of two systems in one number: `৪00` is 400, and looks like 800.
fn mixed_digits(letters: &[char], plan: &mut Plan) {
    let mut at = 0;
    while at < letters.len() {
        let of_number = |c: &&char| is_digit(**c) || matches!(**c, '.' | ',' | '\'' | '_' | '٫' | '٬');
        let run = letters.iter().skip(at).take_while(of_number).count();
        let number = letters.get(at..at + run).unwrap_or_default();
        if number.iter().any(char::is_ascii_digit) && !number.iter().all(char::is_ascii) {
            for (nth, c) in number.iter().enumerate() {
                if is_digit(*c) && !c.is_ascii() && plan.is_kept(at + nth) {
                    plan.set(at + nth, Rendering::Named(Warning::LookAlike));
                }
            }
        }
        at += run.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::letters::is_letter;
    use super::*;

    #[test]
    fn words_are_told_apart_by_their_alphabets() {
        for (word, expected) in [
            ("payment", Kind::Latin),
            ("Straße", Kind::Latin),
            ("100", Kind::Neutral),
            ("оплата", Kind::Foreign),
            ("сахар", Kind::Ambiguous),
            ("pаypal", Kind::Mixed),
            ("このAPIを使う", Kind::Foreign),
            ("한국어OK", Kind::Foreign),
            ("कखग", Kind::Foreign),
            ("gօogle", Kind::Mixed),
            ("αб", Kind::Mixed),
        ] {
            let letters: Vec<char> = word.chars().collect();
            assert_eq!(kind(&letters), expected, "{word}");
            assert!(letters.iter().all(|c| is_letter(*c) || c.is_numeric()));
        }
    }
}
