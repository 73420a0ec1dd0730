//! A Rust source file, read once for all rules: its text, its tokens and its syntax tree.

use proc_macro2::TokenStream;

use super::violation::Violation;

pub(super) struct SourceFile {
    /// Relative to the repository root: `crates/countersign-core/src/lib.rs`.
    pub(super) path: String,
    pub(super) text: String,
    /// Without comments; strings are single tokens, so what they contain never looks like code.
    pub(super) tokens: TokenStream,
    /// Sees structure that tokens do not, but nothing inside macro calls.
    pub(super) syntax: syn::File,
}

/// The folder of a package that a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Src,
    Tests,
    Examples,
    /// `benches/`, `build.rs` and all other folders.
    Elsewhere,
}

impl SourceFile {
    pub(super) fn parse(path: String, text: String) -> Result<SourceFile, Violation> {
        let parsed = text
            .parse::<TokenStream>()
            .map_err(syn::Error::from)
            .and_then(|tokens| Ok((syn::parse2(tokens.clone())?, tokens)));
        match parsed {
            Ok((syntax, tokens)) => Ok(SourceFile { path, text, tokens, syntax }),
            Err(error) => Err(Violation {
                file: path,
                line: error.span().start().line.max(1),
                rule: "syntax",
                message: error.to_string(),
            }),
        }
    }

    /// The package's folder under `crates/`.
    pub(super) fn package(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    pub(super) fn place(&self) -> Place {
        match self.path.split('/').nth(2) {
            Some("src") => Place::Src,
            Some("tests") => Place::Tests,
            Some("examples") => Place::Examples,
            _ => Place::Elsewhere,
        }
    }

    pub(super) fn violation(&self, line: usize, rule: &'static str, message: impl Into<String>) -> Violation {
        Violation { file: self.path.clone(), line, rule, message: message.into() }
    }
}

#[cfg(test)]
impl SourceFile {
    /// A sample for the tests of the rules.
    pub(super) fn sample(path: &str, text: &str) -> SourceFile {
        SourceFile::parse(path.to_owned(), text.to_owned()).unwrap_or_else(|violation| panic!("{violation}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_package_and_place() {
        let file = SourceFile::sample("crates/countersign-core/tests/replay/main.rs", "");
        assert_eq!((file.package(), file.place()), ("countersign-core", Place::Tests));
        assert_eq!(SourceFile::sample("crates/xtask/build.rs", "").place(), Place::Elsewhere);
    }

    #[test]
    fn what_is_not_rust_is_a_violation_at_its_line() {
        for broken in ["//! Doc.\n\nfn f( {}\n", "//! Doc.\n\nfn 7() {}\n"] {
            let Err(violation) = SourceFile::parse("crates/a/src/lib.rs".to_owned(), broken.to_owned())
            else {
                panic!("parsed {broken:?}");
            };
            assert_eq!((violation.rule, violation.line), ("syntax", 3), "{violation}");
        }
    }
}
