//! A test by the name that nextest prints: `package::program path::to::test`, of an integration test.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// The tests that a macro makes for every store.
const CONFORMANCE: &str = "crates/countersign-testkit/src/conformance";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct NamedTest {
    package: String,
    program: String,
    /// Its modules and its name.
    path: String,
}

impl TryFrom<String> for NamedTest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not of the form \"package::program path::to::test\"");
        let (program, path) = text.split_once(' ').ok_or_else(wrong)?;
        let (package, program) = program.split_once("::").ok_or_else(wrong)?;
        Ok(NamedTest { package: package.into(), program: program.into(), path: path.into() })
    }
}

impl fmt::Display for NamedTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{} {}", self.package, self.program, self.path)
    }
}

impl NamedTest {
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// The filter of nextest that selects it and nothing else.
    pub(super) fn filter(&self) -> String {
        format!("package(={}) & binary(={}) & test(={})", self.package, self.program, self.path)
    }

    /// Looks for it in the sources: its program, its modules, and a function that is a test.
    pub(super) fn find(&self, root: &Path) -> anyhow::Result<()> {
        let tests = root.join("crates").join(&self.package).join("tests");
        let file = [tests.join(format!("{}.rs", self.program)), tests.join(&self.program).join("main.rs")]
            .into_iter()
            .find(|file| file.is_file())
            .with_context(|| format!("{} has no test program {}", self.package, self.program))?;
        let program = Module::read(&file)?;
        if program.has_test(&self.path)? || program.makes_tests() && is_of_the_conformance(root, &self.path) {
            return Ok(());
        }
        anyhow::bail!("there is no test {} in {}::{}", self.path, self.package, self.program)
    }
}

/// Whether the suite for stores has a function of this name.
fn is_of_the_conformance(root: &Path, path: &str) -> bool {
    let name = path.rsplit("::").next().unwrap_or_default();
    let Ok(files) = std::fs::read_dir(root.join(CONFORMANCE)) else { return false };
    let texts = files.flatten().filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts.into_iter().any(|text| text.contains(&format!("fn {name}(")))
}

/// A file of a test program.
struct Module {
    items: Vec<syn::Item>,
    folders: Folders,
}

struct Folders {
    /// The folder of the modules that have files of their own.
    children: PathBuf,
    /// The folder that `#[path]` is relative to.
    of_file: PathBuf,
}

impl Module {
    fn read(file: &Path) -> anyhow::Result<Module> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let items = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?.items;
        let of_file = file.parent().map(Path::to_owned).unwrap_or_default();
        let stem = file.file_stem().map(PathBuf::from).unwrap_or_default();
        // The root of a program and `mod.rs` have their modules in the same folder, others in a folder of their name.
        let is_root = stem == Path::new("main") || stem == Path::new("mod") || of_file.ends_with("tests");
        let children = if is_root { of_file.clone() } else { of_file.join(stem) };
        Ok(Module { items, folders: Folders { children, of_file } })
    }

    fn has_test(&self, path: &str) -> anyhow::Result<bool> {
        has_test(&self.items, &self.folders, path)
    }

    /// Whether a macro may make tests here that cannot be seen in the text.
    fn makes_tests(&self) -> bool {
        self.items.iter().any(|item| matches!(item, syn::Item::Macro(_)))
    }
}

fn has_test(items: &[syn::Item], folders: &Folders, path: &str) -> anyhow::Result<bool> {
    let Some((module, rest)) = path.split_once("::") else {
        return Ok(items.iter().any(|item| is_test(item, path)));
    };
    let found = items.iter().find_map(|item| match item {
        syn::Item::Mod(found) if found.ident == module => Some(found),
        _ => None,
    });
    let Some(found) = found else { return Ok(false) };
    match &found.content {
        Some((_, inner)) => {
            let own = folders.children.join(module);
            has_test(inner, &Folders { children: own.clone(), of_file: own }, rest)
        }
        None => Module::read(&folders.file_of(found, module))?.has_test(rest),
    }
}

impl Folders {
    fn file_of(&self, declared: &syn::ItemMod, name: &str) -> PathBuf {
        if let Some(path) = declared.attrs.iter().find_map(path_attribute) {
            return self.of_file.join(path);
        }
        let file = self.children.join(format!("{name}.rs"));
        if file.is_file() { file } else { self.children.join(name).join("mod.rs") }
    }
}

fn is_test(item: &syn::Item, name: &str) -> bool {
    let function = match item {
        syn::Item::Fn(function) => function,
        // `proptest!` and its like.
        syn::Item::Macro(call) => return call.mac.tokens.to_string().contains(&format!("fn {name} ")),
        _ => return false,
    };
    let marks = |attribute: &syn::Attribute| {
        attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
    };
    function.sig.ident == name && function.attrs.iter().any(marks)
}

fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) if pair.path.is_ident("path") => {
            Some(text.value())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    fn named(text: &str) -> NamedTest {
        NamedTest::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_name_is_what_nextest_prints_and_selects_one_test() {
        let test = named("countersign-server::rest places::a_foreign_host_is_refused");
        assert_eq!(test.to_string(), "countersign-server::rest places::a_foreign_host_is_refused");
        assert_eq!(
            test.filter(),
            "package(=countersign-server) & binary(=rest) & test(=places::a_foreign_host_is_refused)"
        );
        for wrong in ["", "rest places::one", "countersign-server::rest"] {
            assert!(NamedTest::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn tests_are_found_in_files_in_modules_and_behind_paths() {
        for there in [
            "countersign-testkit::faulty_store the_same_seed_gives_the_same_faults",
            "countersign-server::rest places::a19_a_foreign_host_is_refused_on_every_route",
            "countersign-core::execution starts::an_approved_call_starts_only_as_it_was_under_the_policy_that_was_and_in_time",
            "countersign::cli finding::a_file_of_the_current_folder_is_not_read",
        ] {
            named(there).find(root()).unwrap();
        }
    }

    #[test]
    fn what_is_no_test_or_not_there_is_not_found() {
        for (gone, why) in [
            ("countersign-testkit::faulty_store wrap", "there is no test wrap"),
            ("countersign-testkit::faulty_store elsewhere::wrap", "there is no test elsewhere::wrap"),
            ("countersign-testkit::nowhere wrap", "has no test program nowhere"),
            ("countersign-nothing::rules one", "has no test program rules"),
        ] {
            let error = named(gone).find(root()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
