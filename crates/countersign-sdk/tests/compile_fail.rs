//! What must not compile, and beside each its twin that does: so that the failure is for the right reason.
//!
//! The compiler is run on each case alone, against the very libraries that this test is linked with: they lie beside it in
//! the target folder. Nothing is built a second time, so that a busy machine makes this slower and not red.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a tool's author has: the libraries that the cases name.
struct Libraries {
    folder: PathBuf,
    named: Vec<(&'static str, PathBuf)>,
}

/// What the compiler made of a case.
struct Compiled {
    success: bool,
    said: String,
}

#[test]
fn forgetting_to_ask_does_not_compile() {
    let libraries = Libraries::of_this_test();
    // Cargo unifies features, so in this workspace the door to the kernel may be open; a permit cannot be forged either way.
    let door = if cfg!(feature = "kernel") { "door_open" } else { "door_shut" };
    let mut refused = cases("tests/compile_fail");
    refused.extend(cases(&format!("tests/compile_fail/{door}")));
    assert_eq!(refused.len(), 6, "{refused:?}");
    for case in refused {
        assert_refused_as_expected(&case, &libraries.compile(&case));
    }
    let accepted = cases("tests/compile_pass");
    assert_eq!(accepted.len(), 4, "{accepted:?}");
    for case in accepted {
        let compiled = libraries.compile(&case);
        assert!(compiled.success, "{} does not compile:\n{}", case.display(), compiled.said);
    }
}

#[test]
#[should_panic(expected = "compiles, and must not")]
fn a_case_that_compiles_is_noticed() {
    let case = Path::new("tests/compile_pass/bare_input.rs");
    assert_refused_as_expected(case, &Libraries::of_this_test().compile(case));
}

#[test]
#[should_panic(expected = "is refused for another reason")]
fn a_case_that_is_refused_for_another_reason_is_noticed() {
    let compiled = Compiled { success: false, said: "error[E0432]: unresolved import".to_owned() };
    assert_refused_as_expected(Path::new("tests/compile_fail/bare_input.rs"), &compiled);
}

/// Its errors are the lines of the file beside it, and no others.
fn assert_refused_as_expected(case: &Path, compiled: &Compiled) {
    assert!(!compiled.success, "{} compiles, and must not", case.display());
    let expected = std::fs::read_to_string(case.with_extension("stderr")).unwrap();
    let errors = compiled.said.lines().filter(|line| line.starts_with("error[")).count();
    let same = compiled.said.starts_with(expected.trim_end()) && errors == 1;
    assert!(same, "{} is refused for another reason:\n{}", case.display(), compiled.said);
}

fn cases(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
    cases.sort();
    cases
}

impl Libraries {
    /// Those that this test was linked with. Several builds of one library may lie in the folder, each with names of its
    /// own for its functions; the one whose names this program has is the right one. `serde` has no functions of its own: of
    /// its builds, the right one is that with which something compiles.
    fn of_this_test() -> Self {
        keep_functions();
        let program = std::env::current_exe().unwrap();
        let folder = program.parent().unwrap().to_owned();
        let program = std::fs::read(&program).unwrap();
        let linked = ["countersign_sdk", "schemars", "serde_json"];
        let named: Vec<_> = linked.map(|name| (name, linked_build(name, &folder, &program))).into();
        for serde in builds("serde", &folder) {
            let mut libraries = Self { folder: folder.clone(), named: named.clone() };
            libraries.named.push(("serde", serde));
            if libraries.compile(Path::new("tests/compile_pass/what_authors_may.rs")).success {
                return libraries;
            }
        }
        panic!("no build of serde in {} fits {named:?}", folder.display());
    }

    #[expect(clippy::disallowed_methods, reason = "whether something compiles is the compiler's to say")]
    fn compile(&self, case: &Path) -> Compiled {
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(compiler);
        command.args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata"]);
        command.args(["--cap-lints", "allow", "--color", "never", "--out-dir", env!("CARGO_TARGET_TMPDIR")]);
        command.arg("-L").arg(format!("dependency={}", self.folder.display()));
        for (name, library) in &self.named {
            command.arg("--extern").arg(format!("{name}={}", library.display()));
        }
        let output = command.arg(case).output().unwrap();
        Compiled { success: output.status.success(), said: String::from_utf8(output.stderr).unwrap() }
    }
}

/// So that the names of these libraries' functions are in this program.
fn keep_functions() {
    assert!(countersign_sdk::ToolPath::parse("a.b").is_ok());
    assert!(serde_json::from_str::<serde_json::Value>("{}").is_ok());
    assert!(schemars::SchemaGenerator::default().into_root_schema_for::<String>().as_object().is_some());
}

fn builds(name: &str, folder: &Path) -> Vec<PathBuf> {
    let start = format!("lib{name}-");
    let is_one = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy();
        file.starts_with(&start) && file.ends_with(".rlib")
    };
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_one).collect()
}

/// The build of a library that has the most function names in common with a program.
fn linked_build(name: &str, folder: &Path, program: &[u8]) -> PathBuf {
    let ours = function_names(name, program);
    assert!(!ours.is_empty(), "this program has no function of {name}");
    let in_common = |path: &PathBuf| {
        let library = std::fs::read(path).unwrap();
        function_names(name, &library).intersection(&ours).count()
    };
    let best = builds(name, folder).into_iter().map(|path| (in_common(&path), path)).max();
    match best {
        Some((1.., path)) => path,
        _ => panic!("{} has no build of {name} that this program was linked with", folder.display()),
    }
}

/// The mangled names of a library's functions; part of each is a hash that is another in every build.
fn function_names(library: &str, bytes: &[u8]) -> std::collections::BTreeSet<Vec<u8>> {
    let mark = format!("{}{library}", library.len());
    let is_of_a_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    bytes
        .split(|byte| !is_of_a_name(byte))
        .filter(|word| word.starts_with(b"_") && contains(word, mark.as_bytes()))
        .map(<[u8]>::to_vec)
        .collect()
}

fn contains(word: &[u8], part: &[u8]) -> bool {
    word.windows(part.len()).any(|window| window == part)
}
