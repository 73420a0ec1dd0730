//! The checks of a predicate before any call: its names exist, its parts fit together, it is a boolean.
//!
//! Promise: what is refused here could only ever have failed, which is to say denied, or is a name that does not
//! exist. What depends on the arguments (their types are the tools' business) is left to evaluation.

use std::sync::Arc;

use cel::Env;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use super::ast::{children, is_binding, is_within_depth, plain_name};
use super::functions::{self, Function};
use super::meter::is_comparison;
use super::regex;
use crate::policy::near::{did_you_mean, nearest};

/// The deepest syntax tree. The interpreter recurses, and a chain of 2,000 additions overflows its stack.
const MAX_TREE_DEPTH: usize = 64;
/// The most loops inside one another.
const MAX_LOOP_DEPTH: usize = 3;

/// The known type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    List,
    Map,
    Null,
    Type,
    Optional,
    /// `tool`, `principal` or `session`.
    Record(&'static Record),
    /// Anything: it is only known when the call is.
    Dyn,
}

/// A variable with known fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    name: &'static str,
    fields: &'static [(&'static str, Kind)],
}

static TOOL: Record = Record {
    name: "tool",
    fields: &[
        ("path", Kind::String),
        ("source", Kind::String),
        ("destructive", Kind::Bool),
        ("idempotent", Kind::Bool),
        ("openWorld", Kind::Bool),
        ("readOnly", Kind::Bool),
        ("effect", Kind::String),
    ],
};
static PRINCIPAL: Record = Record {
    name: "principal",
    fields: &[("id", Kind::String), ("kind", Kind::String), ("roles", Kind::List)],
};
static SESSION: Record = Record { name: "session", fields: &[("id", Kind::String)] };

const VARIABLES: [&str; 4] = ["args", "tool", "principal", "session"];

/// Everything that is wrong with the expression.
pub(super) fn check(expr: &IdedExpr, env: &Arc<Env>) -> Vec<String> {
    // First, because everything after it recurses.
    if !is_within_depth(&expr.expr, MAX_TREE_DEPTH) {
        return vec![format!(
            "when is nested deeper than {MAX_TREE_DEPTH} levels; split it over several rules"
        )];
    }
    let loops = loop_depth(&expr.expr);
    if loops > MAX_LOOP_DEPTH {
        return vec![format!("when has {loops} loops inside one another; at most {MAX_LOOP_DEPTH}")];
    }
    let mut checker = Checker { env, scope: Vec::new(), problems: Vec::new() };
    let kind = checker.infer(expr);
    if checker.problems.is_empty() && !kind.may_be(Kind::Bool) {
        checker.problems.push(format!("when is {}, not true or false", kind.named()));
    }
    let mut problems = checker.problems;
    problems.dedup();
    problems
}

fn loop_depth(expr: &Expr) -> usize {
    let own = usize::from(matches!(expr, Expr::Comprehension(c) if !is_binding(&c.iter_range.expr)));
    own + children(expr).into_iter().map(|child| loop_depth(&child.expr)).max().unwrap_or(0)
}

impl Kind {
    fn may_be(self, wanted: Kind) -> bool {
        self == wanted || self == Kind::Dyn || wanted == Kind::Dyn
    }

    fn is_number(self) -> bool {
        matches!(self, Kind::Int | Kind::Uint | Kind::Double)
    }

    /// Whether `<` and its like can put the two in order.
    fn orders_with(self, other: Kind) -> bool {
        let has_order = |kind: Kind| {
            kind.is_number() || matches!(kind, Kind::Bool | Kind::String | Kind::Bytes | Kind::Dyn)
        };
        has_order(self) && has_order(other) && (self.may_be(other) || self.is_number() && other.is_number())
    }

    /// Whether the two can ever be equal.
    fn equals_with(self, other: Kind) -> bool {
        let is_map = |kind: Kind| matches!(kind, Kind::Map | Kind::Record(_));
        self.may_be(other)
            || self.is_number() && other.is_number()
            || is_map(self) && is_map(other)
            || self == Kind::Null
            || other == Kind::Null
    }

    fn named(self) -> &'static str {
        match self {
            Kind::Bool => "a boolean",
            Kind::Int => "an int",
            Kind::Uint => "a uint",
            Kind::Double => "a double",
            Kind::String => "a string",
            Kind::Bytes => "bytes",
            Kind::List => "a list",
            Kind::Map | Kind::Record(_) => "a map",
            Kind::Null => "null",
            Kind::Type => "a type",
            Kind::Optional => "an optional value",
            Kind::Dyn => "anything",
        }
    }
}

struct Checker<'e> {
    env: &'e Arc<Env>,
    /// The variables of the loops around, innermost last.
    scope: Vec<(String, Kind)>,
    problems: Vec<String>,
}

impl Checker<'_> {
    /// What the expression is. Where something is wrong the problem is noted, and what it is is left open, so that one
    /// mistake is reported once.
    fn infer(&mut self, expr: &IdedExpr) -> Kind {
        match &expr.expr {
            Expr::Literal(literal) => kind_of_literal(literal),
            Expr::Ident(name) => self.infer_ident(name),
            Expr::Select(select) => self.infer_select(select),
            Expr::Call(call) => self.infer_call(call),
            Expr::Comprehension(comprehension) => self.infer_comprehension(comprehension),
            Expr::List(_) => {
                self.infer_children(expr);
                Kind::List
            }
            Expr::Map(_) => {
                self.infer_children(expr);
                Kind::Map
            }
            Expr::Struct(strct) => {
                self.refuse(format!("there is no type `{}` to make a value of", strct.type_name))
            }
            Expr::Unspecified => self.refuse("when cannot be parsed".to_owned()),
        }
    }

    fn infer_children(&mut self, expr: &IdedExpr) {
        for child in children(&expr.expr) {
            self.infer(child);
        }
    }

    fn infer_ident(&mut self, ident: &str) -> Kind {
        if let Some((_, kind)) = self.scope.iter().rev().find(|(name, _)| name == ident) {
            return *kind;
        }
        match plain_name(ident) {
            "args" => Kind::Map,
            "tool" => Kind::Record(&TOOL),
            "principal" => Kind::Record(&PRINCIPAL),
            "session" => Kind::Record(&SESSION),
            name if self.env.types().find_type(name).is_some() => Kind::Type,
            name => {
                let own =
                    self.scope.iter().map(|(name, _)| name.as_str()).filter(|name| !name.starts_with('@'));
                let known: Vec<&str> = VARIABLES.into_iter().chain(own).collect();
                self.refuse(format!("`{name}` is not known here; {}", did_you_mean(name, &known)))
            }
        }
    }

    fn infer_select(&mut self, select: &SelectExpr) -> Kind {
        let operand = self.infer(&select.operand);
        let field = self.field_of(operand, &select.field);
        if select.test { Kind::Bool } else { field }
    }

    fn field_of(&mut self, operand: Kind, field: &str) -> Kind {
        match operand {
            Kind::Record(record) => match record.fields.iter().find(|(name, _)| *name == field) {
                Some((_, kind)) => *kind,
                None => {
                    let names: Vec<&str> = record.fields.iter().map(|(name, _)| *name).collect();
                    self.refuse(format!("{} has no `{field}`; {}", record.name, did_you_mean(field, &names)))
                }
            },
            Kind::Map | Kind::Dyn => Kind::Dyn,
            Kind::Optional => Kind::Optional,
            other => self.refuse(format!("{} has no fields, so no `{field}`", other.named())),
        }
    }

    fn infer_comprehension(&mut self, comprehension: &ComprehensionExpr) -> Kind {
        let range = self.infer(&comprehension.iter_range);
        if !matches!(range, Kind::List | Kind::Map | Kind::Record(_) | Kind::Dyn) {
            self.refuse(format!("{} cannot be gone through", range.named()));
        }
        let start = self.infer(&comprehension.accu_init);
        if VARIABLES.contains(&comprehension.iter_var.as_str()) {
            let name = &comprehension.iter_var;
            self.refuse(format!("a loop cannot call its variable `{name}`, which is taken"));
        }
        let outer = self.scope.len();
        self.scope.push((comprehension.accu_var.clone(), start));
        if !is_binding(&comprehension.iter_range.expr) {
            self.scope.push((comprehension.iter_var.clone(), Kind::Dyn));
            self.infer(&comprehension.loop_cond);
            self.infer(&comprehension.loop_step);
            self.scope.truncate(outer + 1);
        }
        let result = self.infer(&comprehension.result);
        self.scope.truncate(outer);
        result
    }

    fn infer_call(&mut self, call: &CallExpr) -> Kind {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (operators::CONDITIONAL, None, [condition, yes, no]) => {
                self.want_bool("? :", condition);
                let (yes, no) = (self.infer(yes), self.infer(no));
                if yes == no { yes } else { Kind::Dyn }
            }
            (operators::OPT_SELECT | operators::OPT_INDEX, None, [operand, key]) => {
                self.infer(operand);
                self.infer(key);
                Kind::Optional
            }
            (operators::INDEX, None, [operand, key]) => self.infer_index(operand, key),
            (name, None, [left, right]) if is_binary_operator(name) => self.infer_binary(name, left, right),
            (operators::LOGICAL_NOT, None, [operand]) => self.want_bool("!", operand),
            (operators::NEGATE, None, [operand]) => match self.infer(operand) {
                kind @ (Kind::Int | Kind::Double | Kind::Dyn) => kind,
                other => self.refuse(format!("- does not go with {}", other.named())),
            },
            (name, Some(IdedExpr { expr: Expr::Ident(space), .. }), args) if space == "optional" => {
                self.infer_optional_maker(name, args)
            }
            (name, target, args) => self.infer_function(name, target, args),
        }
    }

    fn infer_index(&mut self, operand: &IdedExpr, key: &IdedExpr) -> Kind {
        let (operand, key_kind) = (self.infer(operand), self.infer(key));
        match (operand, &key.expr) {
            (Kind::Record(_), Expr::Literal(LiteralValue::String(field))) => {
                self.field_of(operand, field.inner())
            }
            (Kind::List, _) if !key_kind.is_number() && key_kind != Kind::Dyn => {
                self.refuse(format!("a list is indexed by a number, not by {}", key_kind.named()))
            }
            (Kind::List | Kind::Map | Kind::Record(_) | Kind::Dyn, _) => Kind::Dyn,
            (Kind::Optional, _) => Kind::Optional,
            (other, _) => self.refuse(format!("{} cannot be indexed", other.named())),
        }
    }

    fn infer_binary(&mut self, name: &str, left_expr: &IdedExpr, right_expr: &IdedExpr) -> Kind {
        let sign = if name == operators::IN { "in" } else { name.trim_matches('_') };
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            self.want_bool(sign, left_expr);
            return self.want_bool(sign, right_expr);
        }
        let (left, right) = (self.infer(left_expr), self.infer(right_expr));
        let (fits, result) = match name {
            operators::EQUALS | operators::NOT_EQUALS => {
                if !left.equals_with(right) {
                    let (left, right) = (left.named(), right.named());
                    self.refuse(format!(
                        "{left} and {right} are never equal, so {sign} always says the same"
                    ));
                }
                (true, Kind::Bool)
            }
            operators::IN => {
                (matches!(right, Kind::List | Kind::Map | Kind::Record(_) | Kind::Dyn), Kind::Bool)
            }
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
                (left.orders_with(right), Kind::Bool)
            }
            _ => (computes(name, left, right), if left == Kind::Dyn { right } else { left }),
        };
        if fits {
            return result;
        }
        let hint = if left.is_number() && right.is_number() {
            "; numbers must be of one kind to be computed with, as in double(args.amount) * 1.5"
        } else {
            ""
        };
        self.problems.push(format!("{sign} does not go with {} and {}{hint}", left.named(), right.named()));
        // A comparison has a known type, which helps to find further problems.
        if result == Kind::Bool { Kind::Bool } else { Kind::Dyn }
    }

    fn infer_optional_maker(&mut self, name: &str, args: &[IdedExpr]) -> Kind {
        for arg in args {
            self.infer(arg);
        }
        if functions::optional_maker(name) != Some(args.len()) {
            self.refuse(format!(
                "there is no optional.{name} with {} arguments; there are optional.of(x), optional.ofNonZeroValue(x) and optional.none()",
                args.len()
            ));
        }
        Kind::Optional
    }

    fn infer_function(&mut self, name: &str, target: Option<&IdedExpr>, args: &[IdedExpr]) -> Kind {
        let Some(function) = functions::find(name) else { return self.refuse_function(name, target, args) };
        let kinds: Vec<Kind> = target.into_iter().chain(args).map(|given| self.infer(given)).collect();
        let takes = if target.is_some() { function.member } else { function.global };
        if takes != Some(args.len()) {
            self.refuse(format!("`{name}` is called as in {}", function.usage));
            return function.gives;
        }
        if let Some(wrong) = kinds.iter().find(|kind| !kind.may_be(function.takes)) {
            self.refuse(format!("`{name}` takes {}, not {}", function.takes.named(), wrong.named()));
        }
        if name == "matches" {
            self.check_regex(function, args);
        }
        function.gives
    }

    fn refuse_function(&mut self, name: &str, target: Option<&IdedExpr>, args: &[IdedExpr]) -> Kind {
        target.map(|target| self.infer(target));
        if let Some(usage) = functions::macro_usage(name) {
            return self.refuse(format!("`{name}` is written as in {usage}"));
        }
        let known: Vec<&str> = functions::names().filter(|name| !name.starts_with('@')).collect();
        self.problems.push(format!("there is no function `{name}`; {}", did_you_mean(name, &known)));
        // The variable of a misspelt macro is no mistake of its own.
        if nearest(name, known).is_none_or(|meant| functions::macro_usage(meant).is_none()) {
            for arg in args {
                self.infer(arg);
            }
        }
        Kind::Dyn
    }

    /// The pattern must be there to be read: the call may not choose it, and a bad one is found now.
    fn check_regex(&mut self, function: &Function, args: &[IdedExpr]) {
        let Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(pattern)), .. }) = args.last() else {
            self.refuse(format!(
                "the regular expression of `matches` must be written out, as in {}",
                function.usage
            ));
            return;
        };
        if let Some(problem) = regex::problem(pattern.inner(), self.env) {
            self.refuse(problem);
        }
    }

    fn want_bool(&mut self, sign: &str, expr: &IdedExpr) -> Kind {
        let kind = self.infer(expr);
        if !kind.may_be(Kind::Bool) {
            self.refuse(format!("{sign} needs true or false, not {}", kind.named()));
        }
        Kind::Bool
    }

    fn refuse(&mut self, problem: String) -> Kind {
        self.problems.push(problem);
        Kind::Dyn
    }
}

fn kind_of_literal(literal: &LiteralValue) -> Kind {
    match literal {
        LiteralValue::Boolean(_) => Kind::Bool,
        LiteralValue::Bytes(_) => Kind::Bytes,
        LiteralValue::Double(_) => Kind::Double,
        LiteralValue::Int(_) => Kind::Int,
        LiteralValue::Null => Kind::Null,
        LiteralValue::String(_) => Kind::String,
        LiteralValue::UInt(_) => Kind::Uint,
    }
}

/// Whether it is an operator between two values. A user may write the name `_f`, so the underscore alone does not tell.
fn is_binary_operator(name: &str) -> bool {
    is_comparison(name)
        || matches!(
            name,
            operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::IN
                | operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
        )
}

/// Whether `+ - * / %` goes with the two.
fn computes(name: &str, left: Kind, right: Kind) -> bool {
    let can = |kind: Kind| match kind {
        Kind::Dyn | Kind::Int | Kind::Uint => true,
        Kind::Double => name != operators::MODULO,
        Kind::String | Kind::Bytes | Kind::List => name == operators::ADD,
        _ => false,
    };
    can(left) && can(right) && left.may_be(right)
}
