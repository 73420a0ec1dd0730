//! Values that leave the VM: serialised once, as JSON text, and from then on out of the script's reach.
//!
//! Getters, `toJSON` and proxies run once, while the value is serialised; that result is digested, shown and run. What JSON
//! cannot express is refused, never rounded or truncated.

use countersign_core::bounds::{self, BoundsError};
use countersign_core::canonical::{Canonical, Verbatim};
use countersign_sdk::MAX_PATH_BYTES;
use rquickjs::{Ctx, Value};

use super::display;
use crate::limits::Limits;

/// Why a value is refused, as the script sees it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn input(message: impl Into<String>) -> Self {
        Self { code: "invalid_input", message: message.into() }
    }
}

/// A tool path, as the script wrote it.
pub(super) fn path(value: &Value<'_>) -> Result<String, Refusal> {
    let path = value.as_string().and_then(|path| path.to_string().ok());
    match path {
        Some(path) if path.is_empty() => {
            Err(Refusal::input("tools is not a tool itself; call one as tools.<path>(args)"))
        }
        Some(path) if path.len() > MAX_PATH_BYTES => Err(Refusal::input(format!(
            "a tool path may have {MAX_PATH_BYTES} bytes; this one has {}",
            path.len()
        ))),
        Some(path) if path.contains('\0') => Err(Refusal::input("a tool path contains a NUL character")),
        Some(path) => Ok(path),
        None => Err(Refusal::input("a tool path contains half of a character (a lone surrogate)")),
    }
}

/// The arguments of a call. The outer error is an exception that must stop the script.
pub(super) fn arguments<'js>(
    ctx: &Ctx<'js>,
    value: Value<'js>,
    limits: &Limits,
) -> rquickjs::Result<Result<Canonical, Refusal>> {
    let text = match text(ctx, value, limits)? {
        Serialized::Text(text) => text,
        Serialized::NotJson(what) => return Ok(Err(Refusal::input(format!("{what} cannot be an argument")))),
        Serialized::TooLarge => return Ok(Err(too_large(limits))),
        Serialized::Failed(why) => {
            return Ok(Err(Refusal::input(format!("the arguments cannot be written as JSON: {why}"))));
        }
    };
    Ok(parse(&text, "invalid_input").and_then(|value| {
        Canonical::of(&value).map_err(|error| Refusal { code: error.code(), message: error.to_string() })
    }))
}

/// The value that a script returned.
pub(super) fn returned<'js>(
    ctx: &Ctx<'js>,
    value: Value<'js>,
    limits: &Limits,
) -> rquickjs::Result<Result<Verbatim, Refusal>> {
    const CODE: &str = "invalid_output";
    if value.is_undefined() {
        return Ok(Ok(Verbatim::null()));
    }
    let refuse = |message| Refusal { code: CODE, message };
    let text = match text(ctx, value, limits)? {
        Serialized::Text(text) => text,
        Serialized::NotJson(what) => {
            return Ok(Err(refuse(format!("the script returned {what}, which is not a value"))));
        }
        Serialized::TooLarge => return Ok(Err(too_large(limits))),
        Serialized::Failed(why) => {
            return Ok(Err(refuse(format!("what the script returned cannot be written as JSON: {why}"))));
        }
    };
    Ok(parse(&text, CODE).and_then(|value| {
        Verbatim::of(&value).map_err(|error| match error {
            BoundsError::TooLarge | BoundsError::TooDeep => {
                Refusal { code: error.code(), message: error.to_string() }
            }
            BoundsError::Nul | BoundsError::InexactNumber(_) => refuse(error.to_string()),
        })
    }))
}

enum Serialized {
    Text(String),
    NotJson(&'static str),
    TooLarge,
    Failed(String),
}

fn text<'js>(ctx: &Ctx<'js>, value: Value<'js>, limits: &Limits) -> rquickjs::Result<Serialized> {
    let kind = match () {
        () if value.is_undefined() => "undefined",
        () if value.is_function() => "a function",
        () if value.is_symbol() => "a symbol",
        () => "a value that turns into nothing",
    };
    // The engine's own stringify: what the script made of `JSON.stringify` does not matter here.
    let written = match ctx.json_stringify(value) {
        Ok(Some(written)) => written,
        Ok(None) => return Ok(Serialized::NotJson(kind)),
        Err(_) => return Ok(Serialized::Failed(display::catch_as_text(ctx)?)),
    };
    match written.to_string() {
        Ok(text) if text.len() > limits.value_bytes => Ok(Serialized::TooLarge),
        Ok(text) => Ok(Serialized::Text(text)),
        Err(_) => Ok(Serialized::Failed(display::catch_as_text(ctx)?)),
    }
}

fn parse(text: &str, code: &'static str) -> Result<serde_json::Value, Refusal> {
    if nesting(text) > bounds::MAX_VALUE_DEPTH {
        let error = BoundsError::TooDeep;
        return Err(Refusal { code: error.code(), message: error.to_string() });
    }
    serde_json::from_str(text).map_err(|_| Refusal {
        code,
        // The only thing that the engine writes and JSON's readers refuse.
        message: "a text contains half of a character (a lone surrogate)".to_owned(),
    })
}

fn too_large(limits: &Limits) -> Refusal {
    Refusal {
        code: BoundsError::TooLarge.code(),
        message: format!("the value is larger than {} bytes", limits.value_bytes),
    }
}

/// How deep a JSON text nests; looked at before it is parsed, because parsers stop at depths of their own.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_of_texts() {
        assert_eq!(nesting("1"), 0);
        assert_eq!(nesting(r#"{"a":[1,[2]],"b":{}}"#), 3);
        assert_eq!(nesting(r#"["[[[\"[[[\\"]"#), 1);
    }
}
