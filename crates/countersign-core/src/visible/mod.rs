//! Text made visible for a person who decides by it (R13).
//!
//! Promise: nothing that comes out steers a terminal, reorders letters or hides; two different texts never come out the
//! same. Everything a person cannot see is written as `⟦U+202E⟧`, long runs of blanks as `⟦40 spaces⟧`, a letter that stands
//! among letters of another alphabet as `⟦U+0430 Cyrillic⟧`; a word that could be read as a Latin one is followed by
//! `⟦Cyrillic⟧`, a long number by `⟦= 100 000 000⟧`; and the bracket itself is escaped too. What a character is comes from
//! Unicode's own tables.
//!
//! One exception: the joiner and the emoji variation selector (U+200D, U+FE0F) stay inside a sequence that Unicode lists as an
//! emoji. Everything else in ordinary text of any living script is left as it is.

mod form;
mod joined;
mod json;
mod letters;
mod lookalikes;
mod marks;
mod numbers;

pub use form::{VisibleForm, exact_answer, offered_texts, visible_form};
pub use json::visible_json;
pub use numbers::visible_number;

use letters::{is_mark, warning_about};

/// Text for a person, and its warnings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Visible {
    /// The text, harmless wherever text is printed literally.
    pub text: String,
    /// The warnings for the person, each once.
    pub warnings: Vec<Warning>,
}

/// Something in a text that is meant to mislead, or could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Control characters, terminal escapes among them.
    Control,
    /// Characters that reorder the text around them.
    Bidirectional,
    /// Characters without a shape: invisible, private or unassigned.
    Invisible,
    /// Blanks that push text out of sight.
    Padding,
    /// Letters or digits that can be taken for those of another alphabet.
    LookAlike,
    /// Accents apart from their letter, or too many of them.
    Combining,
    /// Numbers that programs with 64-bit floats show differently.
    Rounded,
}

impl Warning {
    /// Every kind, in the order in which they are listed for people.
    pub const ALL: [Self; 7] = [
        Self::Control,
        Self::Bidirectional,
        Self::Invisible,
        Self::Padding,
        Self::LookAlike,
        Self::Combining,
        Self::Rounded,
    ];

    /// A description of the warning, as part of a sentence that a person reads.
    pub fn words(self) -> &'static str {
        match self {
            Self::Control => "control characters (they can steer a terminal)",
            Self::Bidirectional => "characters that reorder text",
            Self::Invisible => "invisible characters",
            Self::Padding => "blanks that push text out of sight",
            Self::LookAlike => "letters or digits that look like those of another alphabet",
            Self::Combining => "accents stored apart from their letter",
            Self::Rounded => "numbers that some programs round",
        }
    }
}

/// A description of the texts' warnings as part of a sentence; nothing where there are none.
pub fn listed(warnings: &[Warning]) -> Option<String> {
    let found: Vec<&str> =
        Warning::ALL.into_iter().filter(|kind| warnings.contains(kind)).map(Warning::words).collect();
    match found.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        [some @ .., last] => Some(format!("{} and {last}", some.join(", "))),
    }
}

/// The longest run of blanks that is shown as it is.
const LONGEST_BLANK_RUN: usize = 16;
/// The longest run of line breaks that is shown as it is.
const LONGEST_BREAK_RUN: usize = 3;

/// Makes a text visible. Line breaks stay, everything else that has no shape is written out.
pub fn visible(text: &str) -> Visible {
    let letters: Vec<char> = text.chars().collect();
    let mut plan = Plan::of(&letters);
    if !text.is_ascii() {
        joined::keep_emoji(&letters, &mut plan);
        marks::write_out(text, &letters, &mut plan);
        lookalikes::write_out(&letters, &mut plan);
    }
    numbers::note(&letters, &mut plan);
    plan.render(&letters, text.len())
}

/// Whether a character may be printed as it is at any position: it has a shape, and is not the bracket.
pub fn has_shape(c: char) -> bool {
    c != '⟦' && warning_about(c).is_none()
}

impl Visible {
    /// Notes a warning, once.
    fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Adds another text and its warnings.
    fn append(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        other.warnings.iter().for_each(|warning| self.warn(*warning));
    }

    fn push_run(&mut self, c: char, run: usize, bound: usize) {
        if run <= bound {
            self.text.extend(std::iter::repeat_n(c, run));
            return;
        }
        let what = if c == ' ' { "spaces" } else { "line breaks" };
        self.warn(Warning::Padding);
        self.text.push_str(&format!("⟦{run} {what}⟧"));
    }
}

/// How one character is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rendering {
    /// Shown as it is.
    Kept,
    /// Shown as it is, also after later passes: a part of an emoji.
    Fixed,
    /// Written out by its number.
    Escaped(Option<Warning>),
    /// Written out by its number and its alphabet.
    Named(Warning),
}

/// A remark that is put behind a character.
struct Note {
    /// The number of the character that it follows.
    after: usize,
    text: String,
    warning: Option<Warning>,
}

/// How a text is shown, character by character.
struct Plan {
    renderings: Vec<Rendering>,
    notes: Vec<Note>,
}

impl Plan {
    fn of(letters: &[char]) -> Self {
        let rendering = |c: &char| match warning_about(*c) {
            None if *c == '⟦' => Rendering::Escaped(None),
            None => Rendering::Kept,
            warning => Rendering::Escaped(warning),
        };
        Self { renderings: letters.iter().map(rendering).collect(), notes: Vec::new() }
    }

    fn is_kept(&self, at: usize) -> bool {
        self.renderings.get(at) == Some(&Rendering::Kept)
    }

    fn is_written_out(&self, at: usize) -> bool {
        matches!(self.renderings.get(at), Some(Rendering::Escaped(_) | Rendering::Named(_)))
    }

    fn set(&mut self, at: usize, rendering: Rendering) {
        if let Some(place) = self.renderings.get_mut(at) {
            *place = rendering;
        }
    }

    fn render(mut self, letters: &[char], length: usize) -> Visible {
        let mut out = Visible { text: String::with_capacity(length), warnings: Vec::new() };
        self.notes.sort_by_key(|note| note.after);
        let mut notes = std::mem::take(&mut self.notes).into_iter().peekable();
        let mut at = 0;
        while let Some(&c) = letters.get(at) {
            let bound = match c {
                ' ' => LONGEST_BLANK_RUN,
                '\n' => LONGEST_BREAK_RUN,
                _ => 0,
            };
            if bound > 0 {
                let run = letters.iter().skip(at).take_while(|next| **next == c).count();
                out.push_run(c, run, bound);
                at += run;
                continue;
            }
            // A mark would land on the bracket of what was written out before it.
            if at > 0 && is_mark(c) && self.is_kept(at) && self.is_written_out(at - 1) {
                self.set(at, Rendering::Escaped(Some(Warning::Combining)));
            }
            out.push(c, self.renderings.get(at).copied().unwrap_or(Rendering::Kept));
            while let Some(note) = notes.next_if(|note| note.after <= at) {
                out.text.push_str(&format!("⟦{}⟧", note.text));
                note.warning.into_iter().for_each(|warning| out.warn(warning));
            }
            at += 1;
        }
        out
    }
}

impl Visible {
    fn push(&mut self, c: char, rendering: Rendering) {
        let (warning, alphabet) = match rendering {
            Rendering::Kept | Rendering::Fixed => {
                self.text.push(c);
                return;
            }
            Rendering::Escaped(warning) => (warning, None),
            Rendering::Named(warning) => (Some(warning), letters::alphabet(c)),
        };
        warning.into_iter().for_each(|warning| self.warn(warning));
        let number = u32::from(c);
        match alphabet {
            Some(name) => self.text.push_str(&format!("⟦U+{number:04X} {name}⟧")),
            None => self.text.push_str(&format!("⟦U+{number:04X}⟧")),
        }
    }
}

#[cfg(test)]
mod tests;
