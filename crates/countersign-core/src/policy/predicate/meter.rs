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

/// The budget of one decision, over all its predicates together. A unit is about twenty nanoseconds.
const BUDGET: i64 = 10_000_000;

/// A loop body that goes through its own element at most. The elements together are no larger than the arguments.
const STEP: &str = "@step";
/// A loop body that may go through all of something from outside the loop, each time.
const SWEEP: &str = "@sweep";
/// A regular expression: the interpreter compiles it each time.
const REGEX: &str = "@regex";

const STEP_UNITS: i64 = 20;
/// For each part of the arguments: looking at it takes less than a unit, copying it takes some.
const SWEEP_UNITS: i64 = 4;
const REGEX_UNITS: i64 = 20_000;

/// Puts the slots into a checked expression.
pub(super) fn install(expr: &mut IdedExpr) {
    install_within(expr, &mut vec!["args".to_owned()]);
}

/// The rest of the budget.
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
            STEP => STEP_UNITS,
            SWEEP => STEP_UNITS + SWEEP_UNITS * i64::try_from(args_size).unwrap_or(BUDGET).min(BUDGET),
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

/// `outside` holds the names whose values may be large.
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
    let scope = LoopScope { outside, own: &own };
    let slot = if scope.may_traverse(&comprehension.loop_step.expr) { SWEEP } else { STEP };
    outside.push(own);
    install_within(&mut comprehension.loop_step, outside);
    outside.pop();
    wrap_body(comprehension, slot);
}

/// The names that a loop body can use. An inner loop that reuses an outer name for its own only makes the price
/// higher than it needs to be.
struct LoopScope<'s> {
    outside: &'s [String],
    own: &'s str,
}

impl LoopScope<'_> {
    /// Whether evaluating this may take a step for each part of something from outside. Merely finding the thing, and
    /// comparing it with something of the loop's own, does not: a comparison ends where the shorter side does.
    fn may_traverse(&self, expr: &Expr) -> bool {
        if let Some(name) = self.path_root(expr) {
            return self.is_outside(name);
        }
        match expr {
            Expr::Select(select) if select.test && self.path_root(&select.operand.expr).is_some() => false,
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, operands) => {
                    operands.iter().any(|operand| {
                        self.path_root(&operand.expr).is_none() && self.may_traverse(&operand.expr)
                    })
                }
                (name, [left, right]) if is_comparison(name) => {
                    self.comparison_may_traverse(&left.expr, &right.expr)
                }
                _ => self.any_child_may_traverse(expr),
            },
            _ => self.any_child_may_traverse(expr),
        }
    }

    fn comparison_may_traverse(&self, left: &Expr, right: &Expr) -> bool {
        let is_found_outside = |expr| self.path_root(expr).is_some_and(|name| self.is_outside(name));
        match (is_found_outside(left), is_found_outside(right)) {
            (true, true) => true,
            (true, false) => self.may_traverse(right),
            (false, true) => self.may_traverse(left),
            (false, false) => self.may_traverse(left) || self.may_traverse(right),
        }
    }

    fn any_child_may_traverse(&self, expr: &Expr) -> bool {
        children(expr).into_iter().any(|child| self.may_traverse(&child.expr))
    }

    /// The name that `name`, `name.field` and `name[key]` begin with: expressions that only find.
    fn path_root<'e>(&self, expr: &'e Expr) -> Option<&'e str> {
        match expr {
            Expr::Ident(name) => Some(plain_name(name)),
            Expr::Select(select) if !select.test => self.path_root(&select.operand.expr),
            Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
                [operand, key] if !self.may_traverse(&key.expr) => self.path_root(&operand.expr),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_outside(&self, name: &str) -> bool {
        name != self.own && self.outside.iter().any(|outside| outside == name)
    }
}

pub(super) fn is_comparison(name: &str) -> bool {
    matches!(
        name,
        operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use cel::Env;

    /// The slots of an expression, from the outermost loop inwards.
    fn slots(source: &str) -> Vec<String> {
        let mut expr = Env::stdlib().parser().parse(source).unwrap();
        install(&mut expr);
        let mut found = Vec::new();
        collect(&expr.expr, &mut found);
        found
    }

    fn collect(expr: &Expr, found: &mut Vec<String>) {
        match expr {
            Expr::Ident(name) if [STEP, SWEEP, REGEX].contains(&name.as_str()) => found.push(name.clone()),
            _ => children(expr).into_iter().for_each(|child| collect(&child.expr, found)),
        }
    }

    #[test]
    fn a_body_that_stays_with_its_own_element_pays_a_step() {
        for source in [
            "args.l.all(x, x > 1)",
            "args.l.exists(x, x.a.b == 'c' && x.n < 2)",
            "args.l.map(x, x.name)",
            "args.l.filter(x, size(x.list) > 2)",
            "args.l.all(x, x in ['a', 'b'])",
            "args.l.all(x, type(x) == string)",
            "args.l.all(x, tool.path.startsWith(x))",
            "args.l.all(x, x.owner == args.owner)",
            "args.l.all(x, args.owner != x.owner)",
            "args.l.all(x, args.limits[x.kind] >= x.amount)",
            "args.l.all(x, has(args.owner) && args.flag || !args.other)",
            "args.all(k, args[k] == 1)",
        ] {
            assert_eq!(slots(source), [STEP], "{source}");
        }
    }

    #[test]
    fn a_body_that_may_go_through_something_else_pays_for_a_sweep() {
        for source in [
            "args.l.all(x, x in args.b)",
            "args.l.all(x, args.a == args.b)",
            "args.l.all(x, size(args.text) > x)",
            "args.l.all(x, args.text.contains(x))",
            "args.l.all(x, args.a + [x] == [])",
            "args.l.map(x, args.b)",
            "args.l.map(x, [args.b])",
            "args.l.all(x, (x ? args.a : args.b) == x)",
            "args.l.all(x, x.m[args.text] == 1)",
            "args.l.filter(x, .args.b.contains(x))",
        ] {
            assert_eq!(slots(source), [SWEEP], "{source}");
        }
    }

    #[test]
    fn what_an_inner_loop_sees_of_an_outer_one_is_outside() {
        assert_eq!(slots("args.a.all(x, args.b.exists(y, y == x))"), [SWEEP, STEP]);
        assert_eq!(slots("args.a.all(x, x.l.all(y, y in x.m))"), [STEP, SWEEP]);
        assert_eq!(slots("args.a.all(x, x.l.all(x, x > 1))"), [STEP, STEP]);
        assert_eq!(slots("[args.a].all(l, l.all(x, l.all(y, true)))"), [STEP, SWEEP, STEP]);
        assert_eq!(slots("args.?a.optMap(l, l.all(x, x in l)).hasValue()"), [SWEEP]);
    }

    #[test]
    fn a_regular_expression_pays_wherever_it_stands() {
        assert_eq!(slots("args.t.matches('x')"), [REGEX]);
        assert_eq!(slots("args.l.all(x, matches(x, 'x'))"), [STEP, REGEX]);
    }
}
