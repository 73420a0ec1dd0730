//! The table of faults, `crates/xtask/sabotage.toml`.
//!
//! Promise, kept by the tests below: every fault still fits the sources, the test that it names exists, and every rule that can be
//! broken has a fault.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::moved;
use super::named_test::NamedTest;

const TABLE: &str = "crates/xtask/sabotage.toml";

/// One way to break a rule of the design.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// The rule that it breaks: `R1` to `R19`.
    pub(super) rule: String,
    /// The behaviour of the broken program, in one sentence.
    pub(super) says: String,
    /// The source file, from the root of the repository.
    pub(super) file: String,
    /// The text that is replaced; it is exactly once in the file.
    pub(super) find: String,
    pub(super) replace: String,
    /// The test that must go red, as nextest prints it.
    pub(super) test: NamedTest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    fault: Vec<Fault>,
}

/// All faults, in the order of the table.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<Fault>> {
    let path = root.join(TABLE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let table: Table = toml::from_str(&text).with_context(|| format!("{TABLE} is not a table of faults"))?;
    Ok(table.fault)
}

impl Fault {
    /// How messages name it.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.rule, self.says)
    }

    /// The source with the fault in it; where it does not fit, an error that names the fault and where its text is now.
    pub(super) fn planted(&self, root: &Path) -> anyhow::Result<String> {
        let source = std::fs::read_to_string(root.join(&self.file));
        let times = source.as_ref().map_or(0, |source| source.matches(&self.find).count());
        let problem = match (&source, times) {
            (Ok(source), 1) => return Ok(source.replacen(&self.find, &self.replace, 1)),
            (Ok(_), times) => format!("the text to be replaced is {times} times in {}", self.file),
            (Err(error), _) => format!("{} cannot be read ({error})", self.file),
        };
        let hint = if times == 0 { moved::hint(root, &self.find) } else { String::new() };
        anyhow::bail!("{}: {problem}{hint}", self.name())
    }

    /// Whether it still fits the sources, changes them, and names a test that is there.
    pub(super) fn check(&self, root: &Path) -> anyhow::Result<()> {
        self.planted(root)?;
        anyhow::ensure!(self.find != self.replace, "{}: it changes nothing", self.name());
        self.test.find(root).with_context(|| self.name())
    }

    /// Whether a choice on the command line means it: its rule, or words of its sentence.
    pub(super) fn is_chosen_by(&self, choice: &str) -> bool {
        self.rule == choice || self.says.contains(choice) && choice.contains(' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are no nodes (R17) and no passkeys (R19) yet, so there is nothing to break.
    const NOT_BUILT_YET: [u32; 2] = [17, 19];
    const LAST_RULE: u32 = 19;
    const FEWEST: usize = 30;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn every_fault_still_fits_the_sources_changes_them_and_names_a_test_that_is_there() {
        let faults = read(root()).unwrap();
        let wrong: Vec<String> =
            faults.iter().filter_map(|f| f.check(root()).err()).map(|e| format!("{e:#}")).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_rule_that_can_be_broken_has_a_fault_and_no_fault_is_there_twice() {
        let faults = read(root()).unwrap();
        assert!(faults.len() >= FEWEST, "{} faults", faults.len());
        let known: Vec<String> = (1..=LAST_RULE).map(|rule| format!("R{rule}")).collect();
        for (at, fault) in faults.iter().enumerate() {
            assert!(known.contains(&fault.rule), "{} is no rule of the design", fault.rule);
            assert!(
                faults[..at].iter().all(|other| other.says != fault.says),
                "{} is there twice",
                fault.says
            );
        }
        for rule in (1..=LAST_RULE).filter(|rule| !NOT_BUILT_YET.contains(rule)) {
            let name = format!("R{rule}");
            assert!(faults.iter().any(|fault| fault.rule == name), "no fault breaks {name}");
        }
    }

    fn fault(file: &str, find: &str) -> Fault {
        Fault {
            rule: "R1".into(),
            says: "Always yes.".into(),
            file: file.into(),
            find: find.into(),
            replace: "yes()".into(),
            test: "a::one two".to_owned().try_into().unwrap(),
        }
    }

    #[test]
    fn text_that_is_there_twice_or_not_at_all_is_not_replaced() {
        let here = "crates/xtask/src/sabotage/fault.rs";
        let once = fault(here, concat!("const FEW", "EST: usize = 30;"));
        assert!(once.planted(root()).unwrap().contains("    yes()\n\n    fn root()"));
        let twice =
            fault(here, "crates/xtask/src/sabotage/fault.rs").planted(root()).unwrap_err().to_string();
        assert!(twice.starts_with("R1 (Always yes.): the text to be replaced is 3 times"), "{twice}");
    }

    #[test]
    fn a_fault_is_chosen_by_its_rule_or_by_words_of_its_sentence() {
        let fault = fault("", "");
        assert!(fault.is_chosen_by("R1") && fault.is_chosen_by("Always yes"));
        assert!(!fault.is_chosen_by("R10") && !fault.is_chosen_by("A") && !fault.is_chosen_by("Always no"));
    }

    #[test]
    fn a_fault_whose_file_or_text_moved_says_where_the_text_is() {
        let text = concat!("const LAST", "_RULE: u32 = 19;");
        for gone in ["crates/xtask/src/gone.rs", "crates/xtask/src/main.rs"] {
            let error = fault(gone, text).planted(root()).unwrap_err().to_string();
            assert!(error.starts_with("R1 (Always yes.): ") && error.contains(gone), "{error}");
            assert!(error.ends_with("it is in crates/xtask/src/sabotage/fault.rs now"), "{error}");
        }
        let nowhere = fault("crates/xtask/src/gone.rs", concat!("no", "where")).planted(root());
        assert!(nowhere.is_err());
    }
}
