//! Walking CEL's syntax tree: its children, as one list, so that each pass says only what it is about.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// The expressions directly inside this one.
pub(super) fn children(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(c) => vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(of_entry).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(strct) => strct.entries.iter().flat_map(of_entry).collect(),
    }
}

/// The same, to be changed.
pub(super) fn children_mut(expr: &mut Expr) -> Vec<&mut IdedExpr> {
    match expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(c) => {
            let c = &mut **c;
            vec![&mut c.iter_range, &mut c.accu_init, &mut c.loop_cond, &mut c.loop_step, &mut c.result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(of_entry_mut).collect(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Struct(strct) => strct.entries.iter_mut().flat_map(of_entry_mut).collect(),
    }
}

/// Whether the tree is no deeper than this. Never goes deeper itself, so it is safe on any tree.
pub(super) fn is_within_depth(expr: &Expr, levels: usize) -> bool {
    match levels.checked_sub(1) {
        None => false,
        Some(below) => children(expr).into_iter().all(|child| is_within_depth(&child.expr, below)),
    }
}

/// `optMap` binds its variable by a loop over nothing; that is no loop.
pub(super) fn is_binding(range: &Expr) -> bool {
    matches!(range, Expr::List(list) if list.elements.is_empty())
}

/// `.args` is `args`, looked up from the outermost scope.
pub(super) fn plain_name(ident: &str) -> &str {
    ident.strip_prefix('.').unwrap_or(ident)
}

fn of_entry(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn of_entry_mut(entry: &mut IdedEntryExpr) -> Vec<&mut IdedExpr> {
    match &mut entry.expr {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
    }
}
