//! Ids: a prefix that names their kind, and 128 random bits that cannot be guessed. Ids of executions and elicitations also say when
//! they were made.
//!
//! The bits arrive from outside (the kernel's `Entropy` port); this module only gives them a form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::digest::hex_text;
use crate::time::Timestamp;

/// Hexadecimal digits of the random bits.
const RANDOM_DIGITS: usize = 32;
/// Hexadecimal digits of the moment.
const MOMENT_DIGITS: usize = 12;

/// Why a string is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an id of this kind: it should be {prefix} followed by {digits} hexadecimal digits")]
pub struct IdError {
    given: String,
    prefix: &'static str,
    digits: &'static str,
}

impl IdError {
    fn new(given: &str, prefix: &'static str, digits: &'static str) -> Self {
        Self { given: given.chars().take(60).collect(), prefix, digits }
    }
}

/// Implements the text form that all ids share: in JSON, in messages and in logs.
macro_rules! text_form {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.with_text(|text| serializer.serialize_str(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.with_text(|text| f.write_str(text))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name([u8; 16]);

        impl $name {
            /// The start of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id of 128 random bits.
            pub const fn from_random(bits: [u8; 16]) -> Self {
                Self(bits)
            }

            /// Its bits.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0
            }

            fn with_text<T>(self, use_text: impl FnOnce(&str) -> T) -> T {
                const START: usize = $prefix.len();
                let mut text = [0; START + RANDOM_DIGITS];
                text[..START].copy_from_slice($prefix.as_bytes());
                hex_text(&self.0, &mut text[START..]);
                // The prefix and the digits are ASCII.
                use_text(std::str::from_utf8(&text).unwrap_or_default())
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix).map(str::as_bytes);
                let bits = digits.and_then(|digits| bytes_of(digits));
                bits.map(Self).ok_or_else(|| IdError::new(text, $prefix, "32"))
            }
        }

        text_form!($name);
    };
}

/// An id that says when it was made. Rows with such ids lie in the order in which they were made, so that a store adds
/// them at the end of its index instead of all over it.
macro_rules! timed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name {
            /// The low 48 bits of the milliseconds; zero where no moment was given.
            moment: [u8; 6],
            random: [u8; 16],
        }

        impl $name {
            /// The start of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id at a moment, of 128 random bits.
            pub const fn new(at: Timestamp, random: [u8; 16]) -> Self {
                let [_, _, moment @ ..] = at.as_millis().to_be_bytes();
                Self { moment, random }
            }

            /// Makes an id of 128 random bits without a moment. Its text ends with them.
            pub const fn from_random(random: [u8; 16]) -> Self {
                Self { moment: [0; 6], random }
            }

            /// Its bits, the moment first: sorted, they lie in the order in which the ids were made.
            pub fn to_bytes(self) -> [u8; 22] {
                let mut bytes = [0; 22];
                bytes[..6].copy_from_slice(&self.moment);
                bytes[6..].copy_from_slice(&self.random);
                bytes
            }

            /// The id with these bits.
            pub const fn from_bytes(bytes: [u8; 22]) -> Self {
                let [a, b, c, d, e, f, random @ ..] = bytes;
                Self { moment: [a, b, c, d, e, f], random }
            }

            /// The random bits stand first, so that a few digits tell ids of one day apart.
            fn with_text<T>(self, use_text: impl FnOnce(&str) -> T) -> T {
                const START: usize = $prefix.len();
                const RANDOM_END: usize = START + RANDOM_DIGITS;
                let mut text = [0; RANDOM_END + MOMENT_DIGITS];
                text[..START].copy_from_slice($prefix.as_bytes());
                hex_text(&self.random, &mut text[START..RANDOM_END]);
                hex_text(&self.moment, &mut text[RANDOM_END..]);
                let end = if self.moment == [0; 6] { RANDOM_END } else { text.len() };
                // The prefix and the digits are ASCII.
                use_text(std::str::from_utf8(&text[..end]).unwrap_or_default())
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix).map(str::as_bytes);
                let id = digits.and_then(|digits| {
                    let (random, moment) = digits.split_at_checked(RANDOM_DIGITS)?;
                    let moment = match moment {
                        [] => [0; 6],
                        // One id has one spelling.
                        moment => bytes_of(moment).filter(|moment| *moment != [0; 6])?,
                    };
                    Some(Self { moment, random: bytes_of(random)? })
                });
                id.ok_or_else(|| IdError::new(text, $prefix, "44"))
            }
        }

        text_form!($name);
    };
}

/// The bytes that so many lower-case hexadecimal digits are.
fn bytes_of<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; BYTES] = pairs.try_into().ok()?;
    let mut bytes = [0; BYTES];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (nibble(*high)? << 4) | nibble(*low)?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

timed_id!(
    /// Names an execution.
    ExecutionId,
    "exec_"
);
timed_id!(
    /// Names an elicitation.
    ElicitationId,
    "eli_"
);
id!(
    /// Names a grant.
    GrantId,
    "gra_"
);
id!(
    /// Names a token; never the secret itself.
    TokenId,
    "tok_"
);

id!(
    /// Names a user: a person, whatever credential they use.
    UserId,
    "usr_"
);
id!(
    /// Names one login to the console.
    LoginId,
    "log_"
);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(
    /// The number of a call inside its execution, in issue order, from 0.
    CallNo
);
number!(
    /// The number of a script's request, in the order it asked, from 0: a call, a call that was refused, or a sleep.
    RequestNo
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form() {
        let id = GrantId::from_random([7; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string(), "gra_07070707070707070707070707070707");
    }

    #[test]
    fn an_id_with_a_moment_survives_its_text_and_its_bytes() {
        let id = ExecutionId::new(Timestamp::from_millis(1_700_000_000_000), [7; 16]);
        assert_eq!(id.to_string(), "exec_07070707070707070707070707070707018bcfe56800");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(ExecutionId::from_bytes(id.to_bytes()), id);
        let without = ExecutionId::from_random([7; 16]);
        assert_eq!(without.to_string(), "exec_07070707070707070707070707070707");
        assert_eq!(without.to_string().parse(), Ok(without));
    }

    #[test]
    fn the_bytes_of_ids_sort_by_the_moment_at_which_they_were_made() {
        let at = |ms, bits| ExecutionId::new(Timestamp::from_millis(ms), bits).to_bytes();
        assert!(at(1_700_000_000_000, [0xff; 16]) < at(1_700_000_000_001, [0; 16]));
    }

    #[test]
    fn near_ids_are_refused() {
        let good = "eli_00000000000000000000000000000000";
        assert!(good.parse::<ElicitationId>().is_ok());
        assert!(format!("{good}018bcfe56800").parse::<ElicitationId>().is_ok());
        for bad in [
            "",
            "eli_",
            "exec_00000000000000000000000000000000",
            &good[..35],
            &format!("{good}0"),
            &format!("{good}000000000000"),
            &format!("{good}018bcfe5680"),
            &format!("{good}018bcfe568000"),
            &format!("{good}018bcfe5680G"),
            &good.replace('0', "+"),
            &good.replace('0', "é"),
        ] {
            assert!(bad.parse::<ElicitationId>().is_err(), "{bad}");
        }
        for bad in
            ["gra_", "gra_0", "gra_000000000000000000000000000000000", "tok_00000000000000000000000000000000"]
        {
            assert!(bad.parse::<GrantId>().is_err(), "{bad}");
        }
        assert!(good.replace('0', "A").parse::<ElicitationId>().is_err(), "one id has one spelling");
    }
}
