//! Principals, their roles, and the session they act in.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest identifier accepted, in bytes.
const MAX_ID_BYTES: usize = 200;

/// The immutable id of a principal. Names and addresses may change hands; this may not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrincipalId(Arc<str>);

/// The id of a session, `ses_…`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Arc<str>);

/// Why a string is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id: use 1 to 200 visible ASCII characters")]
pub struct IdError(String);

/// The kind of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// A person.
    User,
    /// A program driven by a model.
    Agent,
    /// A program without a model, which acts for its owner.
    Service,
    /// A program that runs tools for the gateway.
    Worker,
}

/// A right of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Calls tools and waits.
    Agent,
    /// Decides.
    Approver,
    /// Does everything.
    Admin,
    /// Calls tools that allow service accounts.
    Service,
    /// Registers and runs tools; it neither calls nor decides.
    Worker,
}

/// The acting party. Its roles may change at any time; records keep its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The immutable id.
    pub id: PrincipalId,
    /// Person, agent, service or worker.
    pub kind: PrincipalKind,
    /// The rights it has; none if empty.
    pub roles: Vec<Role>,
    /// The user for whom an agent, service or worker acts. A user has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<PrincipalId>,
}

impl Principal {
    /// An agent: calls and waits, never decides.
    pub fn agent(id: &str) -> Result<Self, IdError> {
        Self::with(id, PrincipalKind::Agent, Role::Agent)
    }

    /// A person who may decide.
    pub fn approver(id: &str) -> Result<Self, IdError> {
        Self::with(id, PrincipalKind::User, Role::Approver)
    }

    /// A person who may do everything.
    pub fn admin(id: &str) -> Result<Self, IdError> {
        Self::with(id, PrincipalKind::User, Role::Admin)
    }

    /// A service account.
    pub fn service(id: &str) -> Result<Self, IdError> {
        Self::with(id, PrincipalKind::Service, Role::Service)
    }

    /// Whether it may decide elicitations. Only people may: an agent or a service never does, whatever its roles are.
    pub fn may_decide(&self) -> bool {
        self.kind == PrincipalKind::User
            && self.roles.iter().any(|r| matches!(r, Role::Approver | Role::Admin))
    }

    /// The same principal, acting for this user.
    #[must_use]
    pub fn owned_by(mut self, user: PrincipalId) -> Self {
        self.owner = Some(user);
        self
    }

    /// The user behind it: a user itself, else the owner.
    pub fn user(&self) -> Option<&PrincipalId> {
        match self.kind {
            PrincipalKind::User => Some(&self.id),
            PrincipalKind::Agent | PrincipalKind::Service | PrincipalKind::Worker => self.owner.as_ref(),
        }
    }

    /// Whether it may call tools at all.
    pub fn may_call(&self) -> bool {
        self.roles.iter().any(|r| matches!(r, Role::Agent | Role::Admin | Role::Service))
    }

    fn with(id: &str, kind: PrincipalKind, role: Role) -> Result<Self, IdError> {
        Ok(Self { id: PrincipalId::parse(id)?, kind, roles: vec![role], owner: None })
    }
}

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// Parses an id: visible ASCII, 1 to 200 bytes.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let fits =
                    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
                if fits { Ok(Self(text.into())) } else { Err(IdError(text.chars().take(40).collect())) }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.to_string()
            }
        }
    };
}

text_id!(PrincipalId);
text_id!(SessionId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_never_decides_whatever_its_roles_say() {
        let mut agent = Principal::agent("agent-1").unwrap();
        agent.roles = vec![Role::Agent, Role::Approver, Role::Admin];
        assert!(!agent.may_decide());
        assert!(Principal::approver("ann").unwrap().may_decide());
        assert!(!Principal { roles: vec![], ..Principal::approver("ann").unwrap() }.may_decide());
    }

    #[test]
    fn ids_are_visible_ascii_of_bounded_length() {
        for bad in ["", " ", "a b", "a\0", "\u{202e}x", &"x".repeat(201)] {
            assert!(PrincipalId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(SessionId::parse(&"x".repeat(200)).is_ok());
    }
}
