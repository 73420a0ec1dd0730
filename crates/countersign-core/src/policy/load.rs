//! Reading rules from a `countersign.toml`.
//!
//! Promise: either every rule is sound and its examples hold, or there is a list of everything that is wrong, each with
//! its line. A file that is no TOML is reported as that alone, because its rules cannot be read.

use std::ops::Range;
use std::time::Duration;

use countersign_sdk::Remember;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::duration::parse_duration;
use super::errors::{PolicyError, PolicyErrors};
use super::example::{Example, Expectation};
use super::near::did_you_mean;
use super::pattern::PathPattern;
use super::predicate::Predicate;
use super::rule::{Effect, Rule};

/// The most rules a file may have.
pub const MAX_RULES: usize = 1_000;
/// The longest reason, in bytes: it is shown in a prompt.
pub const MAX_REASON_BYTES: usize = 1_000;
/// The most examples a rule may have, of each kind.
const MAX_EXAMPLES: usize = 100;

const RULE_KEYS: &[&str] = &["match", "when", "effect", "expires", "remember", "reason", "examples"];

/// Reads the `[[rule]]` tables and nothing else.
pub(super) fn read_rules(text: &str) -> Result<Vec<Rule>, PolicyErrors> {
    let lines = Lines::of(text);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    let syntax_errors = syntax_errors.iter().map(|error| PolicyError {
        line: lines.line_at(error.span().map_or(0, |span| span.start)),
        rule: None,
        reason: format!("not TOML: {}", error.message().replace('\n', ", ")),
    });
    PolicyErrors::none_or(syntax_errors.collect())?;

    let mut errors = Vec::new();
    let rules = match document.get_ref().get("rule") {
        None => Vec::new(),
        Some(value) => read_list(value, &lines, &mut errors),
    };
    PolicyErrors::none_or(errors)?;
    Ok(rules)
}

fn read_list(value: &Spanned<DeValue<'_>>, lines: &Lines<'_>, errors: &mut Vec<PolicyError>) -> Vec<Rule> {
    let line = lines.line_at(value.span().start);
    let Some(tables) = value.get_ref().as_array() else {
        let reason = "rules are written as [[rule]], with two brackets".to_owned();
        errors.push(PolicyError { line, rule: None, reason });
        return Vec::new();
    };
    if let Some(first_beyond) = tables.get(MAX_RULES) {
        errors.push(PolicyError {
            line: lines.line_at(first_beyond.span().start),
            rule: None,
            reason: format!("there are {} rules; at most {MAX_RULES}", tables.len()),
        });
    }
    let numbered = (1..).zip(tables.iter().take(MAX_RULES));
    numbered.filter_map(|(number, table)| RuleReader::read(number, table, lines, errors)).collect()
}

/// Reads one rule, noting what is wrong on the way.
struct RuleReader<'r, 't> {
    number: usize,
    header: Range<usize>,
    table: &'r DeTable<'t>,
    lines: &'r Lines<'t>,
    errors: &'r mut Vec<PolicyError>,
}

/// A value of a rule, and its position.
struct Found<'r> {
    text: &'r str,
    span: Range<usize>,
}

impl<'r, 't> RuleReader<'r, 't> {
    fn read(
        number: usize,
        value: &'r Spanned<DeValue<'t>>,
        lines: &'r Lines<'t>,
        errors: &'r mut Vec<PolicyError>,
    ) -> Option<Rule> {
        let header = value.span();
        let Some(table) = value.get_ref().as_table() else {
            let reason = format!("a rule is a table, not {}", type_name(value.get_ref()));
            errors.push(PolicyError { line: lines.line_at(header.start), rule: Some(number), reason });
            return None;
        };
        Self { number, header, table, lines, errors }.rule()
    }

    fn rule(mut self) -> Option<Rule> {
        self.refuse_unknown_keys(self.table, RULE_KEYS, "a rule");
        let pattern = self.pattern();
        let when = self.when();
        let effect = self.effect();
        let expires = self.expires();
        let remember = self.remember();
        let reason = self.reason();
        if let Some(effect) = effect {
            self.refuse_without_ask(effect);
        }
        // Without a predicate that compiles, the examples cannot be checked.
        let (pattern, when) = match (pattern, when) {
            (Some(pattern), Ok(when)) => {
                self.examples(Some((&pattern, when.as_ref())));
                (pattern, when)
            }
            _ => {
                self.examples(None);
                return None;
            }
        };
        let (number, line) = (self.number, self.lines.line_at(self.header.start));
        Some(Rule { number, line, pattern, when, effect: effect?, expires, remember, reason })
    }

    fn pattern(&mut self) -> Option<PathPattern> {
        let Some(found) = self.text("match") else {
            self.refuse_missing("match", "the tools it speaks of, such as match = \"github.issues.*\"");
            return None;
        };
        let pattern = PathPattern::parse(found.text);
        self.noted(&found.span, pattern.map_err(|error| error.to_string()))
    }

    /// `Err` where there is one and it is unsound.
    fn when(&mut self) -> Result<Option<Predicate>, ()> {
        let Some(found) = self.text("when") else {
            return if self.table.contains_key("when") { Err(()) } else { Ok(None) };
        };
        Predicate::compile(found.text).map(Some).map_err(|problems| {
            let first_line = self.lines.line_of_content(&found.span);
            for problem in problems {
                self.refuse_at_line(first_line + problem.line_offset, problem.text);
            }
        })
    }

    fn effect(&mut self) -> Option<Effect> {
        let Some(found) = self.text("effect") else {
            self.refuse_missing(
                "effect",
                "what becomes of the call: effect = \"allow\", \"ask\" or \"deny\"",
            );
            return None;
        };
        let effect = match found.text {
            "allow" => Ok(Effect::Allow),
            "ask" => Ok(Effect::Ask),
            "deny" => Ok(Effect::Deny),
            other => Err(format!("{other:?} is no effect; there are \"allow\", \"ask\" and \"deny\"")),
        };
        self.noted(&found.span, effect)
    }

    fn expires(&mut self) -> Option<Duration> {
        let found = self.text("expires")?;
        self.noted(&found.span, parse_duration(found.text).map_err(|error| format!("expires: {error}")))
    }

    fn remember(&mut self) -> Option<Remember> {
        let found = self.text("remember")?;
        let remember = match found.text {
            "call" => Ok(Remember::Call),
            "session" => Ok(Remember::Session),
            other => Err(format!("remember cannot be {other:?}; there are \"call\" and \"session\"")),
        };
        self.noted(&found.span, remember)
    }

    fn reason(&mut self) -> Option<String> {
        let found = self.text("reason")?;
        let length = found.text.len();
        let reason = if length > MAX_REASON_BYTES {
            Err(format!("the reason has {length} bytes; at most {MAX_REASON_BYTES}"))
        } else if found.text.trim().is_empty() {
            Err("the reason is empty; leave it out".to_owned())
        } else {
            Ok(found.text.to_owned())
        };
        self.noted(&found.span, reason)
    }

    fn refuse_without_ask(&mut self, effect: Effect) {
        if effect == Effect::Ask {
            return;
        }
        for name in ["expires", "remember"] {
            if let Some((key, _)) = self.table.get_key_value(name) {
                let reason = format!(
                    "{name} has no meaning where effect is \"{effect}\": only \"ask\" has an answer to wait for"
                );
                self.refuse(&key.span(), reason);
            }
        }
    }

    /// Reads the examples, and tries them if there is something to try them on.
    fn examples(&mut self, rule: Option<(&PathPattern, Option<&Predicate>)>) {
        let Some(value) = self.table.get("examples") else { return };
        let Some(table) = value.get_ref().as_table() else {
            let is = type_name(value.get_ref());
            self.refuse(
                &value.span(),
                format!("examples is {is}; write examples = {{ matches = ['…'], misses = ['…'] }}"),
            );
            return;
        };
        let lists = [Expectation::Matches, Expectation::Misses];
        self.refuse_unknown_keys(table, &lists.map(Expectation::key), "examples");
        for expected in lists {
            let Some(value) = table.get(expected.key()) else { continue };
            for (text, span) in self.example_texts(expected, value) {
                let checked = Example::parse(text).and_then(|example| match rule {
                    Some((pattern, when)) => example.check(expected, pattern, when),
                    None => Ok(()),
                });
                self.noted(&span, checked);
            }
        }
    }

    fn example_texts<'v>(
        &mut self,
        expected: Expectation,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Vec<(&'v str, Range<usize>)> {
        let key = expected.key();
        let Some(items) = value.get_ref().as_array() else {
            let is = type_name(value.get_ref());
            self.refuse(&value.span(), format!("examples.{key} is {is}; write {key} = ['…']"));
            return Vec::new();
        };
        if items.len() > MAX_EXAMPLES {
            let reason = format!("examples.{key} has {} examples; at most {MAX_EXAMPLES}", items.len());
            self.refuse(&value.span(), reason);
        }
        let mut texts = Vec::new();
        for item in items.iter().take(MAX_EXAMPLES) {
            match item.get_ref().as_str() {
                Some(text) => texts.push((text, item.span())),
                None => {
                    let is = type_name(item.get_ref());
                    self.refuse(
                        &item.span(),
                        format!("an example is a string, not {is}: 'PATH' or 'PATH {{…}}'"),
                    );
                }
            }
        }
        texts
    }

    /// The text under a key. That it is missing is `None`, and so is that it is no text, which is noted.
    fn text(&mut self, key: &str) -> Option<Found<'r>> {
        let value = self.table.get(key)?;
        let found = value.get_ref().as_str().map(|text| Found { text, span: value.span() });
        if found.is_none() {
            self.refuse(
                &value.span(),
                format!("{key} is {}; it must be a string", type_name(value.get_ref())),
            );
        }
        found
    }

    fn refuse_missing(&mut self, key: &str, meaning: &str) {
        // Where it is there and is no text, that was noted.
        if !self.table.contains_key(key) {
            self.refuse(&self.header.clone(), format!("{key} is missing: {meaning}"));
        }
    }

    fn refuse_unknown_keys(&mut self, table: &DeTable<'_>, known: &[&str], of: &str) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                self.refuse(&key.span(), format!("{of} has no key `{name}`; {}", did_you_mean(name, known)));
            }
        }
    }

    fn noted<T>(&mut self, span: &Range<usize>, result: Result<T, String>) -> Option<T> {
        result.map_err(|reason| self.refuse(span, reason)).ok()
    }

    fn refuse(&mut self, span: &Range<usize>, reason: String) {
        self.refuse_at_line(self.lines.line_at(span.start), reason);
    }

    fn refuse_at_line(&mut self, line: usize, reason: String) {
        self.errors.push(PolicyError { line, rule: Some(self.number), reason });
    }
}

fn type_name(value: &DeValue<'_>) -> String {
    match value.type_str() {
        name @ ("integer" | "array") => format!("an {name}"),
        name => format!("a {name}"),
    }
}

/// Where the lines of a text begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// The line, from 1, of a place in the text.
    fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// The line, from 1, on which the content of a string begins: a string in three quotes may begin after them.
    fn line_of_content(&self, span: &Range<usize>) -> usize {
        let raw = self.text.get(span.clone()).unwrap_or_default();
        let content = raw.strip_prefix("'''").or_else(|| raw.strip_prefix("\"\"\"")).unwrap_or_default();
        let begins_below = content.starts_with('\n') || content.starts_with("\r\n");
        self.line_at(span.start) + usize::from(begins_below)
    }
}
