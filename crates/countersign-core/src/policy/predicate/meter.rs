//! The meter: no arguments can make a predicate run for long.
//!
//! The CEL interpreter has no step limit, and an agent chooses the arguments: `args.a.all(x, x in args.b)` over a
//! mebibyte of both would hold a thread for minutes. So each loop body and each regular expression gets a coin slot at
//! load: it is wrapped in `@slot ? body : …`, and looking up `@slot` (which nobody can write, `@` being no letter of
//! CEL) takes from a budget. When the budget is gone the slot says false, which ends the loops, and the answer is
//! thrown away for an error.

use std::sync::atomic::{AtomicI64, Ordering};

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

use super::ast::{children, children_mut, is_binding, plain_name};

/// What one decision may spend, over all its predicates together. A unit takes some ten nanoseconds.
const BUDGET: i64 = 4_000_000;

/// A loop body that looks only at its own element: the elements together are no larger than the arguments.
const STEP: &str = "@step";
/// A loop body that also looks at something from outside the loop, and may have to go through all of it each time.
const SWEEP: &str = "@sweep";
/// A regular expression: the interpreter compiles it anew each time.
const REGEX: &str = "@regex";

const REGEX_UNITS: i64 = 2_500;

/// Puts the slots into a checked expression.
pub(super) fn install(expr: &mut IdedExpr) {
    install_within(expr, &mut vec!["args".to_owned()]);
}

/// What is left to spend.
#[derive(Debug)]
pub(super) struct Meter {
    left: AtomicI64,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { left: AtomicI64::new(BUDGET) }
    }

    /// Takes the price of this slot. `None` if the name is no slot, `Some(false)` if the budget is gone.
    pub(super) fn take(&self, slot: &str, args_size: usize) -> Option<bool> {
        let units = match slot {
            STEP => 1,
            SWEEP => i64::try_from(args_size).unwrap_or(BUDGET).saturating_add(1),
            REGEX => REGEX_UNITS,
            _ => return None,
        };
        // An evaluation is one thread; the atomic is only there because the interpreter wants `Sync`. Subtracting on
        // below zero cannot wrap: it would take longer than the loops that are left.
        Some(self.left.fetch_sub(units, Ordering::Relaxed) >= units)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }
}

/// `outside` holds the names that may stand for something large.
fn install_within(expr: &mut IdedExpr, outside: &mut Vec<String>) {
    let Expr::Comprehension(comprehension) = &mut expr.expr else {
        for child in children_mut(&mut expr.expr) {
            install_within(child, outside);
        }
        if matches!(&expr.expr, Expr::Call(call) if call.func_name == "matches") {
            wrap(expr, REGEX, literal(false));
        }
        return;
    };
    install_within(&mut comprehension.iter_range, outside);
    install_within(&mut comprehension.accu_init, outside);
    if is_binding(&comprehension.iter_range.expr) {
        outside.push(comprehension.accu_var.clone());
        install_within(&mut comprehension.result, outside);
        outside.pop();
        return;
    }
    let own = comprehension.iter_var.clone();
    let slot = if mentions(&comprehension.loop_step.expr, outside, &own) { SWEEP } else { STEP };
    outside.push(own);
    install_within(&mut comprehension.loop_step, outside);
    outside.pop();
    wrap_body(comprehension, slot);
}

/// Whether one of these names is used. That a loop further in may use the same name for its own only makes the price
/// higher than it needs to be.
fn mentions(expr: &Expr, outside: &[String], own: &str) -> bool {
    if let Expr::Ident(name) = expr {
        let name = plain_name(name);
        return name != own && outside.iter().any(|n| n == name);
    }
    children(expr).into_iter().any(|child| mentions(&child.expr, outside, own))
}

/// Wraps the part of the step that the macro's user wrote. The interpreter knows the steps of its own macros by their
/// shape (it absorbs errors in `all`, and builds the list of `map` in place), so the shape must stay.
fn wrap_body(comprehension: &mut ComprehensionExpr, slot: &str) {
    let accumulator = comprehension.accu_var.clone();
    let step = &mut comprehension.loop_step;
    if let Expr::Call(call) = &mut step.expr {
        match (call.func_name.as_str(), call.args.as_mut_slice()) {
            // all, and then exists: the literal is the one that ends the loop.
            (operators::LOGICAL_AND, [_, body]) => return wrap(body, slot, literal(false)),
            (operators::LOGICAL_OR, [_, body]) => return wrap(body, slot, literal(true)),
            // filter, exists_one, and map with a condition.
            (operators::CONDITIONAL, [condition, _, _]) => return wrap(condition, slot, literal(false)),
            // map.
            (operators::ADD, [_, IdedExpr { expr: Expr::List(list), .. }]) => {
                if let [element] = list.elements.as_mut_slice() {
                    return wrap(element, slot, literal(false));
                }
            }
            _ => {}
        }
    }
    wrap(step, slot, Expr::Ident(accumulator));
}

/// `body` becomes `@slot ? body : otherwise`.
fn wrap(body: &mut IdedExpr, slot: &str, otherwise: Expr) {
    let id = body.id;
    let inner = std::mem::take(body);
    let node = |expr| IdedExpr { id, expr };
    body.id = id;
    body.expr = Expr::Call(CallExpr {
        func_name: operators::CONDITIONAL.to_owned(),
        target: None,
        args: vec![node(Expr::Ident(slot.to_owned())), inner, node(otherwise)],
    });
}

fn literal(value: bool) -> Expr {
    Expr::Literal(LiteralValue::Boolean(value.into()))
}
