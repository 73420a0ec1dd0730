//! What a client sees of a server behind the gate and would not see of the server itself: found, and held against a table.
//!
//! Promise: a difference that no row of the table names fails the test, and so does a row that no difference meets.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

/// A value at the server itself and behind the gate; null where there is nothing.
struct Difference {
    /// The kind of thing that differs.
    thing: String,
    place: String,
    direct: Value,
    gated: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} became {}", self.thing, self.place, self.direct, self.gated)
    }
}

/// A difference that is meant, of things of these kinds.
pub(crate) struct Meant {
    pub(crate) things: &'static [&'static str],
    pub(crate) place: &'static str,
    pub(crate) why: &'static str,
    /// Whether the values differ as they should.
    pub(crate) is_so: fn(&Value, &Value) -> bool,
}

/// The differences found so far.
#[derive(Default)]
pub(crate) struct Differences {
    found: Vec<Difference>,
}

impl Differences {
    /// Compares two things of a kind.
    pub(crate) fn compare(&mut self, thing: &str, direct: &Value, gated: &Value) {
        self.look(thing, "", direct, gated);
    }

    fn look(&mut self, thing: &str, place: &str, direct: &Value, gated: &Value) {
        match (direct, gated) {
            // A schema is one thing; it means the same only as a whole.
            (Value::Object(direct), Value::Object(gated)) if !place.ends_with("/outputSchema") => {
                let keys: BTreeSet<&String> = direct.keys().chain(gated.keys()).collect();
                for key in keys {
                    // No `_meta` and no `data` of an error say as much as empty ones.
                    let nothing = if key == "_meta" || key == "data" { json!({}) } else { Value::Null };
                    let (direct, gated) = (direct.get(key), gated.get(key));
                    let (direct, gated) = (direct.unwrap_or(&nothing), gated.unwrap_or(&nothing));
                    self.look(thing, &format!("{place}/{key}"), direct, gated);
                }
            }
            (Value::Array(direct), Value::Array(gated)) if direct.len() == gated.len() => {
                for (direct, gated) in direct.iter().zip(gated) {
                    self.look(thing, &format!("{place}/*"), direct, gated);
                }
            }
            (Value::Number(direct), Value::Number(gated)) if direct.as_f64() == gated.as_f64() => {}
            (direct, gated) if direct == gated => {}
            (direct, gated) => self.found.push(Difference {
                thing: thing.to_owned(),
                place: place.to_owned(),
                direct: direct.clone(),
                gated: gated.clone(),
            }),
        }
    }

    /// Holds what was found against the tables.
    pub(crate) fn are(&self, tables: &[&[Meant]]) {
        let rows = || tables.iter().copied().flatten();
        let is_row = |row: &Meant, found: &Difference| {
            row.place == found.place && row.things.contains(&found.thing.as_str())
        };
        let is_meant = |found: &Difference| {
            rows().any(|row| is_row(row, found) && (row.is_so)(&found.direct, &found.gated))
        };
        let unmeant: BTreeSet<String> =
            self.found.iter().filter(|found| !is_meant(found)).map(ToString::to_string).collect();
        let unmeant: Vec<String> = unmeant.into_iter().collect();
        assert!(unmeant.is_empty(), "no row says why these differ:\n{}", unmeant.join("\n"));
        for row in rows() {
            for thing in row.things {
                let is_met = self.found.iter().any(|found| is_row(row, found) && found.thing == *thing);
                assert!(is_met, "no {thing} differs at {:?}, yet a row says: {}", row.place, row.why);
            }
        }
    }
}

#[test]
fn differences_are_found_at_their_places() {
    let mut differences = Differences::default();
    let (direct, gated) =
        (json!({ "a": [{ "b": 1, "c": 2 }] }), json!({ "a": [{ "b": 1.0, "d": 2 }], "_meta": {} }));
    differences.compare("thing", &direct, &gated);
    let found: Vec<String> = differences.found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["thing /a/*/c: 2 became null", "thing /a/*/d: null became 2"]);
}

#[test]
#[should_panic(expected = "no row says why these differ")]
fn a_difference_that_no_row_names_fails() {
    let mut differences = Differences::default();
    differences.compare("thing", &json!({ "a": 1 }), &json!({ "a": 2 }));
    differences.are(&[]);
}

#[test]
#[should_panic(expected = "yet a row says: no more")]
fn a_row_that_no_difference_meets_fails() {
    let row = Meant { things: &["thing"], place: "/a", why: "no more", is_so: |_, _| true };
    Differences::default().are(&[&[row]]);
}
