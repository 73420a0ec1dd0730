//! Unicode properties of one character.

use icu_properties::props::{
    BidiControl, DefaultIgnorableCodePoint, EastAsianWidth, GeneralCategory, GeneralCategoryGroup, Script,
    SoftDotted,
};
use icu_properties::script::ScriptWithExtensions;
use icu_properties::{CodePointMapData, CodePointSetData, PropertyNamesLong};
use unicode_security::GeneralSecurityProfile;
use unicode_security::confusable_detection::skeleton;

use super::Warning;

/// Characters that are drawn as nothing, though every property of theirs says letter or symbol: the blank of Braille, the note
/// without a head, the two blanks of hieroglyphs, the filler of Khitan, and the place of an object that is not there.
const DRAWN_BLANK: [char; 6] = ['\u{2800}', '\u{1d159}', '\u{13441}', '\u{13442}', '\u{16fe4}', '\u{fffc}'];
/// Punctuation that gives an address its parts.
const PARTS_OF_ADDRESSES: [char; 10] = ['/', '.', ':', '@', '\\', '?', '#', '&', '=', '%'];
/// Ordinals of Spanish, Italian and Portuguese: raised, so nobody takes them for the letter.
const ORDINALS: [char; 2] = ['ª', 'º'];

/// The warning about a character that hides or misleads at any position.
pub(super) fn warning_about(c: char) -> Option<Warning> {
    if c.is_ascii() {
        return (c.is_ascii_control() && c != '\n').then_some(Warning::Control);
    }
    if CodePointSetData::new::<BidiControl>().contains(c) {
        return Some(Warning::Bidirectional);
    }
    if CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c) || DRAWN_BLANK.contains(&c) {
        return Some(Warning::Invisible);
    }
    match category(c) {
        GeneralCategory::Control | GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => {
            Some(Warning::Control)
        }
        GeneralCategory::Format
        | GeneralCategory::PrivateUse
        | GeneralCategory::Surrogate
        | GeneralCategory::Unassigned => Some(Warning::Invisible),
        GeneralCategory::SpaceSeparator => Some(Warning::Padding),
        _ => None,
    }
}

/// The general category.
pub(super) fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

/// Whether it is drawn onto, or around, the character before it.
pub(super) fn is_mark(c: char) -> bool {
    !c.is_ascii() && GeneralCategoryGroup::Mark.contains(category(c))
}

/// A mark that takes no room of its own.
pub(super) fn is_nonspacing(c: char) -> bool {
    !c.is_ascii() && matches!(category(c), GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark)
}

pub(super) fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || (!c.is_ascii() && GeneralCategoryGroup::Letter.contains(category(c)))
}

/// A digit of any counting system.
pub(super) fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && category(c) == GeneralCategory::DecimalNumber)
}

/// Letters, marks and numbers make words.
pub(super) fn is_of_a_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    let category = category(c);
    GeneralCategoryGroup::Letter.contains(category)
        || GeneralCategoryGroup::Mark.contains(category)
        || GeneralCategoryGroup::Number.contains(category)
}

/// Letters that lose their dot under an accent, so that a dot set on them is not seen.
pub(super) fn is_soft_dotted(c: char) -> bool {
    CodePointSetData::new::<SoftDotted>().contains(c)
}

/// The script, where a character has one of its own.
pub(super) fn script(c: char) -> Option<Script> {
    let script = CodePointMapData::<Script>::new().get(c);
    (script != Script::Common && script != Script::Inherited).then_some(script)
}

/// Whether a mark is used in a script. Marks that name no script are used in all.
pub(super) fn is_written_with(mark: char, home: Script) -> bool {
    let all = ScriptWithExtensions::new().get_script_extensions_val(mark);
    all.iter().all(|script| script == Script::Common || script == Script::Inherited) || all.contains(&home)
}

/// The scripts that write with Chinese characters or beside them: no letter of theirs is as narrow as a Latin one.
pub(super) fn is_east_asian(script: Script) -> bool {
    [Script::Han, Script::Hiragana, Script::Katakana, Script::Hangul, Script::Bopomofo].contains(&script)
}

/// The common name of a character's alphabet.
pub(super) fn alphabet(c: char) -> Option<&'static str> {
    let script = script(c).or_else(|| {
        let all = ScriptWithExtensions::new().get_script_extensions_val(c);
        all.iter().find(|script| *script != Script::Common && *script != Script::Inherited)
    })?;
    PropertyNamesLong::<Script>::new().get(script)
}

/// Whether a character can be taken for an ASCII one.
pub(super) fn looks_like_ascii(c: char) -> bool {
    c.is_ascii() || skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii())
}

/// Whether a character of no foreign script poses as an ASCII one: mathematical letters, the letters of phonetics, and signs
/// that look like the slash or dot of an address. Full-width forms look different, and letters that some language is
/// written with stay.
pub(super) fn is_disguised_ascii(c: char) -> bool {
    if c.is_ascii() || ORDINALS.contains(&c) || is_full_width(c) || !looks_like_ascii(c) {
        return false;
    }
    match script(c) {
        Some(Script::Latin) => !c.identifier_allowed(),
        Some(_) => false,
        None if is_letter(c) || GeneralCategoryGroup::Number.contains(category(c)) => {
            alphabet(c).is_none() && !c.identifier_allowed()
        }
        None => {
            let mut twin = skeleton(c.encode_utf8(&mut [0; 4])).collect::<Vec<_>>().into_iter();
            !is_mark(c)
                && twin.next().is_some_and(|twin| PARTS_OF_ADDRESSES.contains(&twin))
                && twin.next().is_none()
        }
    }
}

fn is_full_width(c: char) -> bool {
    CodePointMapData::<EastAsianWidth>::new().get(c) == EastAsianWidth::Fullwidth
}
