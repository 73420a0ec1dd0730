//! `resolve(id, true)` does not say what is true. A public function takes an enum instead, or is two functions.
//!
//! Clippy's `fn_params_excessive_bools` counts the parameters of all functions alike, so that a bound of 0 would also refuse
//! private functions and the fixtures of tests.

use syn::visit::{self, Visit};
use syn::{
    Attribute, FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Pat, Signature, Type, Visibility,
};

use crate::tidy::source::{Place, SourceFile};
use crate::tidy::tokens::{each_level, is_ident};
use crate::tidy::violation::Violation;

const RULE: &str = "bool-parameters";

struct Exception {
    file_suffix: &'static str,
    function: &'static str,
    #[expect(dead_code, reason = "for readers of the table")]
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[Exception {
    file_suffix: "countersign-kernel/src/engine.rs",
    function: "resolve",
    reason: "seed 001 fixes `resolve(id, approved, data)`",
}];

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    if is_test_file(file) {
        return Vec::new();
    }
    let mut finder = Finder { file, violations: Vec::new() };
    finder.visit_file(&file.syntax);
    finder.violations
}

struct Finder<'f> {
    file: &'f SourceFile,
    violations: Vec<Violation>,
}

impl Finder<'_> {
    fn judge(&mut self, signature: &Signature) {
        let function = signature.ident.to_string();
        if is_exception(&self.file.path, &function) {
            return;
        }
        for parameter in signature.inputs.iter().filter_map(bool_parameter) {
            let line = signature.ident.span().start().line;
            let message = format!("`{function}` takes `{parameter}: bool`; an enum says what is meant");
            self.violations.push(self.file.violation(line, RULE, message));
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        if !is_test_only(&block.attrs) {
            visit::visit_item_impl(self, block);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if is_public(&function.vis) && !is_test_only(&function.attrs) {
            self.judge(&function.sig);
        }
        visit::visit_item_fn(self, function);
    }

    /// A method of a trait's implementation has no visibility of its own and is not judged: the trait is.
    fn visit_impl_item_fn(&mut self, method: &'ast ImplItemFn) {
        if is_public(&method.vis) && !is_test_only(&method.attrs) {
            self.judge(&method.sig);
        }
        visit::visit_impl_item_fn(self, method);
    }

    fn visit_item_trait(&mut self, definition: &'ast ItemTrait) {
        if is_public(&definition.vis) && !is_test_only(&definition.attrs) {
            for item in &definition.items {
                if let syn::TraitItem::Fn(method) = item {
                    self.judge(&method.sig);
                }
            }
        }
        visit::visit_item_trait(self, definition);
    }
}

fn is_test_file(file: &SourceFile) -> bool {
    file.place() == Place::Tests || file.path.ends_with("/tests.rs") || file.path.contains("/tests/")
}

fn is_exception(path: &str, function: &str) -> bool {
    EXCEPTIONS.iter().any(|exception| path.ends_with(exception.file_suffix) && function == exception.function)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether `#[cfg(test)]` is among the attributes, also as part of a longer condition.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let Ok(condition) = attribute.meta.require_list() else { return false };
        let (mut test, mut not) = (false, false);
        each_level(&condition.tokens, &mut |siblings| {
            test |= siblings.iter().any(|token| is_ident(token, "test"));
            not |= siblings.iter().any(|token| is_ident(token, "not"));
        });
        test && !not
    })
}

/// Its name, if the parameter is a `bool`.
fn bool_parameter(parameter: &FnArg) -> Option<String> {
    let FnArg::Typed(parameter) = parameter else { return None };
    let Type::Path(of_type) = &*parameter.ty else { return None };
    of_type.path.is_ident("bool").then(|| match &*parameter.pat {
        Pat::Ident(name) => name.ident.to_string(),
        _ => "_".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&SourceFile::sample(path, text)).into_iter().map(|violation| violation.message).collect()
    }

    const LIB: &str = "crates/countersign-kernel/src/lib.rs";

    #[test]
    fn private_functions_tests_and_other_types_pass() {
        let text = "
            fn private(x: bool) {}
            pub(crate) fn of_the_crate(x: bool) {}
            pub fn optional(x: Option<bool>) -> bool { true }
            impl Tr for S { fn given_by_the_trait(&self, x: bool) {} }
            #[cfg(test)] mod tests { pub fn f(x: bool) {} }
            #[cfg(all(test, unix))] pub fn f(x: bool) {}
        ";
        assert_eq!(found(LIB, text), [] as [String; 0]);
        assert_eq!(found("crates/a/tests/b.rs", "pub fn f(x: bool) {}"), [] as [String; 0]);
    }

    #[test]
    fn public_functions_methods_and_traits_fail() {
        let text = "
            pub fn one(a: u8, b: bool) {}
            impl S { pub async fn two(&self, mut c: bool, _: bool) {} }
            pub trait Tr { fn three(&self, d: bool); }
            #[cfg(not(test))] pub fn four(e: bool) {}
        ";
        let parameters: Vec<String> = found(LIB, text)
            .iter()
            .map(|message| message.split(';').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(
            parameters,
            [
                "`one` takes `b: bool`",
                "`two` takes `c: bool`",
                "`two` takes `_: bool`",
                "`three` takes `d: bool`",
                "`four` takes `e: bool`",
            ]
        );
    }

    #[test]
    fn an_exception_holds_for_its_function_in_its_file() {
        let exception = &EXCEPTIONS[0];
        let path = format!("crates/{}", exception.file_suffix);
        let text = format!("pub fn {}(approved: bool) {{}}", exception.function);
        assert_eq!(found(&path, &text), [] as [String; 0]);
        assert_eq!(found(LIB, &text).len(), 1);
        assert_eq!(found(&path, "pub fn other(approved: bool) {}").len(), 1);
    }
}
