//! Names without meaning. A module called `utils` collects code that belongs elsewhere.

use syn::visit::{self, Visit};

use crate::tidy::source::SourceFile;
use crate::tidy::violation::Violation;

const RULE: &str = "names";
const BANNED: &[&str] = &["common", "helper", "helpers", "manager", "misc", "util", "utils"];

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    let mut violations = Vec::new();
    for part in file.path.split('/').skip(2) {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        if BANNED.contains(&name) {
            violations.push(file.violation(1, RULE, message(name)));
        }
    }
    let mut inline = InlineModules { file, violations };
    inline.visit_file(&file.syntax);
    inline.violations
}

/// A module with a file of its own is judged by its path.
struct InlineModules<'f> {
    file: &'f SourceFile,
    violations: Vec<Violation>,
}

impl<'ast> Visit<'ast> for InlineModules<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_some() && BANNED.contains(&name.as_str()) {
            let line = module.ident.span().start().line;
            self.violations.push(self.file.violation(line, RULE, message(&name)));
        }
        visit::visit_item_mod(self, module);
    }
}

fn message(name: &str) -> String {
    format!("`{name}` says nothing about what is inside; name it after that")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_something_passes() {
        let text = "mod digest { fn utils() {} }\nmod utility_bills {}\n";
        assert_eq!(check(&SourceFile::sample("crates/a/src/commonplace.rs", text)), []);
    }

    #[test]
    fn banned_names_fail_as_file_folder_and_module() {
        for path in ["crates/a/src/utils.rs", "crates/a/tests/common/mod.rs"] {
            assert_eq!(check(&SourceFile::sample(path, "")).len(), 1, "{path}");
        }
        let nested = SourceFile::sample("crates/a/src/lib.rs", "mod tests {\n    mod helpers {}\n}\n");
        assert_eq!(check(&nested)[0].line, 2);
    }
}
