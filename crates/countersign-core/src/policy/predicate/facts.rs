//! The variables of a predicate as CEL values: `args`, `tool`, `principal`, `session`.
//!
//! Promise: nothing is converted before a predicate looks at it, and everything at most once per decision. Texts are
//! borrowed, not copied. A number without a fractional part is an `int` however it was spelt (`1`, `1.0`, `1e0`), as in
//! the canonical form that approvals are bound to: an agent cannot change an answer by spelling.

use std::collections::HashMap;
use std::sync::OnceLock;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use countersign_sdk::{EffectClass, PrincipalKind, Role};
use serde_json::{Number, Value};

use super::meter::Meter;
use crate::bounds::{MAX_VALUE_BYTES, MAX_VALUE_DEPTH};
use crate::policy::Subject;

/// The facts of one decision.
pub(in crate::policy) struct Facts<'a> {
    subject: Subject<'a>,
    args: OnceLock<Result<Args<'a>, ArgsError>>,
    tool: OnceLock<CelMap<'a>>,
    principal: OnceLock<CelMap<'a>>,
    session: OnceLock<CelMap<'a>>,
    meter: Meter,
}

impl<'a> Facts<'a> {
    pub(in crate::policy) fn new(subject: Subject<'a>) -> Self {
        Self {
            subject,
            args: OnceLock::new(),
            tool: OnceLock::new(),
            principal: OnceLock::new(),
            session: OnceLock::new(),
            meter: Meter::new(),
        }
    }

    /// Why no answer that was computed from these facts counts, if so.
    pub(super) fn cut_short(&self) -> Option<String> {
        if let Some(Err(error)) = self.args.get() {
            return Some(error.to_string());
        }
        self.meter.is_exhausted().then(|| {
            "the arguments are too large for this predicate: it would take too many steps; compare fewer things, or leave the large lists out".to_owned()
        })
    }

    fn args(&self) -> Option<&Args<'a>> {
        self.args.get_or_init(|| Args::of(self.subject.args)).as_ref().ok()
    }

    fn args_size(&self) -> usize {
        self.args.get().and_then(|args| args.as_ref().ok()).map_or(0, |args| args.size)
    }
}

impl VariableResolver for Facts<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        match variable {
            "args" => self.args().map(|args| CowVal::Borrowed(&*args.value)),
            "tool" => Some(CowVal::Borrowed(self.tool.get_or_init(|| tool(&self.subject)))),
            "principal" => Some(CowVal::Borrowed(self.principal.get_or_init(|| principal(&self.subject)))),
            "session" => Some(CowVal::Borrowed(self.session.get_or_init(|| session(&self.subject)))),
            slot if slot.starts_with('@') => {
                let pays = self.meter.take(slot, self.args_size())?;
                Some(CowVal::owned(CelBool::from(pays)))
            }
            _ => None,
        }
    }
}

/// The arguments, converted.
struct Args<'a> {
    value: Box<dyn Val + 'a>,
    /// Roughly how much there is to go through: the values, and their texts by the piece.
    size: usize,
}

#[derive(Debug, thiserror::Error)]
enum ArgsError {
    #[error("the arguments are nested deeper than {MAX_VALUE_DEPTH} levels")]
    TooDeep,
    #[error("the arguments are larger than {MAX_VALUE_BYTES} bytes")]
    TooLarge,
    #[error("a number in the arguments cannot be read")]
    Number,
}

impl<'a> Args<'a> {
    fn of(json: &'a Value) -> Result<Self, ArgsError> {
        let mut converter = Converter { size: 0 };
        let value = converter.convert(json, 0)?;
        Ok(Self { value, size: converter.size })
    }
}

/// As many bytes as comparing one value takes time for.
const BYTES_PER_UNIT: usize = 64;

struct Converter {
    size: usize,
}

impl Converter {
    fn convert<'a>(&mut self, json: &'a Value, depth: usize) -> Result<Box<dyn Val + 'a>, ArgsError> {
        if depth > MAX_VALUE_DEPTH {
            return Err(ArgsError::TooDeep);
        }
        self.count(1)?;
        Ok(match json {
            Value::Null => Box::new(CelNull),
            Value::Bool(b) => Box::new(CelBool::from(*b)),
            Value::Number(n) => number(n)?,
            Value::String(s) => {
                self.count(s.len() / BYTES_PER_UNIT)?;
                Box::new(CelString::from(s.as_str()))
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| self.convert(item, depth + 1));
                Box::new(CelList::from(items.collect::<Result<Vec<_>, _>>()?))
            }
            Value::Object(fields) => {
                let mut map = HashMap::with_capacity(fields.len());
                for (key, value) in fields {
                    self.count(key.len() / BYTES_PER_UNIT)?;
                    map.insert(CelMapKey::from(key.as_str()), self.convert(value, depth + 1)?);
                }
                Box::new(CelMap::from(map))
            }
        })
    }

    /// Every value takes at least a byte, so whatever is beyond this was beyond the bound of arguments before.
    fn count(&mut self, units: usize) -> Result<(), ArgsError> {
        self.size += units;
        if self.size > MAX_VALUE_BYTES { Err(ArgsError::TooLarge) } else { Ok(()) }
    }
}

fn number<'a>(number: &Number) -> Result<Box<dyn Val + 'a>, ArgsError> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if let Some(int) = number.as_i64() {
        return Ok(Box::new(CelInt::from(int)));
    }
    if let Some(uint) = number.as_u64() {
        return Ok(Box::new(CelUInt::from(uint)));
    }
    let double = number.as_f64().ok_or(ArgsError::Number)?;
    // Whole and in range, so the conversions below are exact.
    if double.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&double) {
        return Ok(Box::new(CelInt::from(double as i64)));
    }
    if double.fract() == 0.0 && (TWO_TO_63..2.0 * TWO_TO_63).contains(&double) {
        return Ok(Box::new(CelUInt::from(double as u64)));
    }
    Ok(Box::new(CelDouble::from(double)))
}

fn tool<'a>(subject: &Subject<'a>) -> CelMap<'a> {
    record([
        ("path", text(subject.path.as_str())),
        ("source", text(subject.source)),
        ("destructive", truth(subject.effects.destructive)),
        ("idempotent", truth(subject.effects.idempotent)),
        ("openWorld", truth(subject.effects.open_world)),
        ("readOnly", truth(subject.effects.class() == EffectClass::Reads)),
        ("effect", text(subject.effects.class().as_str())),
    ])
}

fn principal<'a>(subject: &Subject<'a>) -> CelMap<'a> {
    let kind = match subject.principal.kind {
        PrincipalKind::User => "user",
        PrincipalKind::Agent => "agent",
        PrincipalKind::Service => "service",
        PrincipalKind::Worker => "worker",
    };
    let roles = subject.principal.roles.iter().map(|role| {
        text(match role {
            Role::Agent => "agent",
            Role::Approver => "approver",
            Role::Admin => "admin",
            Role::Service => "service",
            Role::Worker => "worker",
        })
    });
    record([
        ("id", text(subject.principal.id.as_str())),
        ("kind", text(kind)),
        ("roles", Box::new(CelList::from(roles.collect::<Vec<_>>()))),
    ])
}

fn session<'a>(subject: &Subject<'a>) -> CelMap<'a> {
    record([("id", text(subject.session.as_str()))])
}

fn record<'a, const N: usize>(fields: [(&'static str, Box<dyn Val + 'a>); N]) -> CelMap<'a> {
    CelMap::from(
        fields.into_iter().map(|(name, value)| (CelMapKey::from(name), value)).collect::<HashMap<_, _>>(),
    )
}

fn text<'a>(text: &'a str) -> Box<dyn Val + 'a> {
    Box::new(CelString::from(text))
}

fn truth<'a>(value: bool) -> Box<dyn Val + 'a> {
    Box::new(CelBool::from(value))
}
