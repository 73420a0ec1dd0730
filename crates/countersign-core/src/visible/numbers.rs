//! Numbers whose size is hard to see, or that a reader's program would change.
//!
//! Promise: the exact number always stands there; what is added stands behind it. `10000000` and `100000000` are told apart by
//! their groups.

use serde_json::Number;

use super::{Note, Plan, Visible, Warning};

/// The longest run of digits that is read at a glance.
const LONGEST_PLAIN_DIGITS: usize = 6;
/// The most digits that are put into groups; of longer numbers only the length is shown.
const MOST_GROUPED_DIGITS: usize = 36;

/// A JSON number for a person: exact, with its digits in groups where there are many, and with what a program that has only
/// 64-bit floats (JavaScript) would make of it where that is another number.
pub fn visible_number(number: &Number) -> Visible {
    let exact = number.to_string();
    let mut shown = Visible { text: exact.clone(), warnings: Vec::new() };
    let Some(decimal) = Decimal::read(&exact) else { return shown };
    shown.text.extend(decimal.size().map(|size| format!("⟦= {size}⟧")));
    if let Some(rounded) = decimal.rounded() {
        shown.text.push_str(&format!("⟦JavaScript: {rounded}⟧"));
        shown.warn(Warning::Rounded);
    }
    shown
}

/// Puts the groups of long whole numbers behind them. Numbers inside of names, ids and dates are left alone.
pub(super) fn note(letters: &[char], plan: &mut Plan) {
    let mut at = 0;
    while at < letters.len() {
        let digits = letters.iter().skip(at).take_while(|c| c.is_ascii_digit()).count();
        if digits > LONGEST_PLAIN_DIGITS && begins(letters, at) && ends(letters, at + digits) {
            let number: String = letters.iter().skip(at).take(digits).collect();
            let text = format!("= {}", grouped(&number));
            plan.notes.push(Note { after: at + digits - 1, text, warning: None });
        }
        at += digits.max(1);
    }
}

/// Whether a number may begin here: not inside a word, a fraction, or an id with hyphens.
fn begins(letters: &[char], at: usize) -> bool {
    let back = |steps: usize| at.checked_sub(steps).and_then(|before| letters.get(before)).copied();
    match back(1) {
        None => true,
        Some('-') => back(2).is_none_or(|c| !c.is_alphanumeric()),
        Some(c) => !c.is_alphanumeric() && !matches!(c, '_' | '.' | ','),
    }
}

fn ends(letters: &[char], at: usize) -> bool {
    let next_is_word = || letters.get(at + 1).is_some_and(|c| c.is_alphanumeric());
    match letters.get(at) {
        None => true,
        Some('-') => !next_is_word(),
        Some(c) => !c.is_alphanumeric() && *c != '_',
    }
}

fn grouped(digits: &str) -> String {
    if digits.len() > MOST_GROUPED_DIGITS {
        return format!("{} digits", digits.len());
    }
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A decimal number as its digits, without zeros at either end, and the power of ten of the first one.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    /// The number is 0.DIGITS times ten to this power.
    power: i64,
}

impl Decimal {
    fn read(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i64 = exponent.parse().ok()?;
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let leading = all.len() - all.trim_start_matches('0').len();
        let power = exponent + i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
        let digits = all.trim_matches('0').to_owned();
        let power = if digits.is_empty() { 0 } else { power };
        Some(Self { negative, digits, power })
    }

    /// The whole part in groups, where it is long.
    fn size(&self) -> Option<String> {
        let long = usize::try_from(self.power).ok().filter(|long| *long > LONGEST_PLAIN_DIGITS)?;
        let sign = if self.negative { "-" } else { "" };
        if long > MOST_GROUPED_DIGITS {
            return Some(format!("{long} digits"));
        }
        let padded = format!("{:0<long$}", self.digits);
        Some(format!("{sign}{}", grouped(padded.get(..long)?)))
    }

    /// The text of the nearest 64-bit float, where that is another number.
    fn rounded(&self) -> Option<String> {
        let sign = if self.negative { "-" } else { "" };
        let float: f64 = format!("{sign}0.{}e{}", self.digits, self.power).parse().ok()?;
        let shortest = format!("{float:e}");
        (Self::read(&shortest).as_ref() != Some(self) && !self.digits.is_empty()).then(|| format!("{float}"))
    }
}
