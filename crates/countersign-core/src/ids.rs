//! Ids: a prefix that names their kind, and 128 random bits that cannot be guessed.
//!
//! The bits arrive from outside (the kernel's `Entropy` port); this module only gives them a form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::digest::hex_text;

/// Why a string is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an id of this kind: it should be {prefix} followed by 32 hexadecimal digits")]
pub struct IdError {
    given: String,
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(u128);

        impl $name {
            /// The start of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id of 128 random bits.
            pub const fn from_random(bits: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bits))
            }

            fn with_text<T>(self, use_text: impl FnOnce(&str) -> T) -> T {
                const START: usize = $prefix.len();
                let mut text = [0; START + 32];
                text[..START].copy_from_slice($prefix.as_bytes());
                hex_text(&self.0.to_be_bytes(), &mut text[START..]);
                // The prefix and the digits are ASCII.
                use_text(std::str::from_utf8(&text).unwrap_or_default())
            }
        }

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

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix).filter(|d| d.len() == 32);
                let digits = digits.filter(|d| d.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
                let bits = digits.and_then(|d| u128::from_str_radix(d, 16).ok());
                bits.map(Self).ok_or_else(|| IdError { given: text.chars().take(60).collect(), prefix: $prefix })
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

id!(
    /// Names an execution.
    ExecutionId,
    "exec_"
);
id!(
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
        let id = ExecutionId::from_random([7; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string(), "exec_07070707070707070707070707070707");
    }

    #[test]
    fn near_ids_are_refused() {
        let good = "eli_00000000000000000000000000000000";
        assert!(good.parse::<ElicitationId>().is_ok());
        for bad in [
            "",
            "eli_",
            "exec_00000000000000000000000000000000",
            &good[..35],
            &format!("{good}0"),
            &good.replace('0', "+"),
        ] {
            assert!(bad.parse::<ElicitationId>().is_err(), "{bad}");
        }
        assert!(good.replace('0', "A").parse::<ElicitationId>().is_err(), "one id has one spelling");
    }
}
