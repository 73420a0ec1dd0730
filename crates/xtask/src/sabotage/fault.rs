//! The table of faults, `crates/xtask/sabotage.toml`.
//!
//! Promise, kept by the tests below: every fault still fits the sources, and every rule that can be broken has one.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

const TABLE: &str = "crates/xtask/sabotage.toml";

/// One way to break a rule of the design.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// The rule that it breaks: `R1` to `R19`.
    pub(super) rule: String,
    /// What the broken program does, in one sentence.
    pub(super) says: String,
    /// The source file, from the root of the repository.
    pub(super) file: String,
    /// The text that is replaced; it stands exactly once in the file.
    pub(super) find: String,
    pub(super) replace: String,
    /// The tests of which one must go red, as a filter of nextest. It names each test program as `binary(NAME)`.
    pub(super) tests: String,
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
    /// The source with the fault in it.
    pub(super) fn planted(&self, source: &str) -> anyhow::Result<String> {
        let times = source.matches(&self.find).count();
        anyhow::ensure!(
            times == 1,
            "{} ({}): the text to be replaced stands {times} times in {}",
            self.rule,
            self.says,
            self.file
        );
        Ok(source.replacen(&self.find, &self.replace, 1))
    }

    /// The test programs that the filter names: only these are built.
    pub(super) fn programs(&self) -> Vec<&str> {
        let named = self.tests.split("binary(").skip(1);
        named.filter_map(|rest| rest.split_once(')')).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are no nodes (R17) and no passkeys (R19) yet, so there is nothing to break.
    const NOT_BUILT_YET: [u32; 2] = [17, 19];
    const LAST_RULE: u32 = 19;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn every_fault_still_fits_the_sources_and_changes_them() {
        let faults = read(root()).unwrap();
        let problems: Vec<String> = faults.iter().filter_map(|fault| problem(fault).err()).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    fn problem(fault: &Fault) -> Result<(), String> {
        let source = std::fs::read_to_string(root().join(&fault.file))
            .map_err(|e| format!("{} ({}): {}: {e}", fault.rule, fault.says, fault.file))?;
        let planted = fault.planted(&source).map_err(|e| e.to_string())?;
        if planted == source {
            return Err(format!("{} ({}): it changes nothing", fault.rule, fault.says));
        }
        if fault.programs().is_empty() {
            return Err(format!("{} ({}): its tests name no binary(…)", fault.rule, fault.says));
        }
        Ok(())
    }

    #[test]
    fn every_rule_that_can_be_broken_has_a_fault() {
        let faults = read(root()).unwrap();
        let known: Vec<String> = (1..=LAST_RULE).map(|rule| format!("R{rule}")).collect();
        for fault in &faults {
            assert!(known.contains(&fault.rule), "{} is no rule of the design", fault.rule);
        }
        for rule in (1..=LAST_RULE).filter(|rule| !NOT_BUILT_YET.contains(rule)) {
            let name = format!("R{rule}");
            assert!(faults.iter().any(|fault| fault.rule == name), "no fault breaks {name}");
        }
    }

    #[test]
    fn what_stands_twice_or_nowhere_is_not_replaced() {
        let fault = Fault {
            rule: "R1".into(),
            says: "Always yes.".into(),
            file: "src/gate.rs".into(),
            find: "no()".into(),
            replace: "yes()".into(),
            tests: "package(a) & binary(one) | package(b) & binary(two)".into(),
        };
        assert_eq!(fault.planted("a; no(); b").unwrap(), "a; yes(); b");
        let twice = fault.planted("no(); no()").unwrap_err().to_string();
        assert!(twice.contains("stands 2 times in src/gate.rs"), "{twice}");
        assert!(fault.planted("maybe()").is_err());
        assert_eq!(fault.programs(), ["one", "two"]);
    }
}
