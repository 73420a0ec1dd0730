//! `Approved<T>`: input that was approved by an authorised person, rule or grant.

use std::ops::Deref;

/// The authority on which a destructive call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Authority {
    /// A person decided this very call.
    Decision {
        elicitation: String,
        /// The immutable id of the person.
        by: String,
    },
    /// A remembered approval covers it.
    Grant { id: String },
    /// The operator's policy allows it outright.
    Rule {
        /// The rule, as the policy names it.
        rule: String,
    },
}

/// The input of a destructive call, together with the authority it runs on.
///
/// There is no public way to make one: the kernel does, from a recorded approval, at the moment it starts the handler.
///
/// ```compile_fail
/// use countersign_sdk::Approved;
/// let forged = Approved { input: 1, authority: unimplemented!() };
/// ```
#[derive(Debug)]
pub struct Approved<T> {
    input: T,
    authority: Authority,
}

impl<T> Approved<T> {
    pub(crate) fn new(input: T, authority: Authority) -> Self {
        Self { input, authority }
    }

    /// The approved input.
    pub fn into_inner(self) -> T {
        self.input
    }

    /// The authority on which the call runs.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}

impl<T> Deref for Approved<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.input
    }
}
