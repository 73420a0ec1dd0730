//! Route by role. A route that does not stand here is served to nobody.
// tidy: uniform table

use axum::http::Method;
use countersign_sdk::{Principal, Role};

use crate::refusal::Refusal;

/// Whom a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Everybody, known or not: it tells nothing of what passes through.
    Anyone,
    /// Every good credential. What it sees is cut to what is its own where it may not decide.
    Known,
    /// Whoever may call tools: agents, services, admins.
    Callers,
    /// People who may decide: approvers, admins. Never an agent.
    Deciders,
    /// Admins.
    Admins,
}

/// Who reads what a route answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// A program.
    Program,
    /// A person, in a browser.
    Page,
}

/// One route.
pub(crate) struct Route {
    /// The method; none where the route takes any.
    pub(crate) method: Option<Method>,
    /// The path, as the router writes it.
    pub(crate) path: &'static str,
    /// Whom it is for.
    pub(crate) allowed: Allowed,
    /// Who reads its answers.
    pub(crate) front: Front,
}

const fn route(method: Method, path: &'static str, allowed: Allowed) -> Route {
    Route { method: Some(method), path, allowed, front: Front::Program }
}

const fn page(path: &'static str, allowed: Allowed) -> Route {
    Route { method: Some(Method::GET), path, allowed, front: Front::Page }
}

/// Every route there is.
pub(crate) const ROUTES: &[Route] = &[
    route(Method::GET, "/healthz", Allowed::Anyone),
    route(Method::GET, "/readyz", Allowed::Anyone),
    route(Method::GET, "/metrics", Allowed::Anyone),
    route(Method::GET, "/openapi.json", Allowed::Anyone),
    page("/", Allowed::Deciders),
    page("/inbox/cards", Allowed::Deciders),
    page("/elicitations/{id}", Allowed::Deciders),
    page("/executions", Allowed::Deciders),
    page("/executions/{id}", Allowed::Deciders),
    page("/tools", Allowed::Deciders),
    page("/tools/{path}", Allowed::Deciders),
    page("/sources", Allowed::Deciders),
    page("/sources/{name}", Allowed::Deciders),
    // Not below /sources, where it would take a name from a source.
    page("/add-source", Allowed::Admins),
    Route {
        method: Some(Method::POST),
        path: "/add-source/preview",
        allowed: Allowed::Admins,
        front: Front::Page,
    },
    page("/sessions", Allowed::Deciders),
    page("/sessions/{id}", Allowed::Deciders),
    page("/audit", Allowed::Deciders),
    page("/tokens", Allowed::Admins),
    page("/users", Allowed::Admins),
    page("/assets/{name}", Allowed::Anyone),
    // The link is the credential; opening it changes nothing.
    page("/login", Allowed::Anyone),
    Route { method: Some(Method::POST), path: "/login", allowed: Allowed::Anyone, front: Front::Page },
    route(Method::POST, "/logout", Allowed::Known),
    route(Method::GET, "/api/whoami", Allowed::Known),
    route(Method::GET, "/api/standing", Allowed::Deciders),
    route(Method::POST, "/api/executions", Allowed::Callers),
    route(Method::GET, "/api/executions", Allowed::Known),
    route(Method::GET, "/api/executions/{id}", Allowed::Known),
    route(Method::GET, "/api/executions/{id}/journal", Allowed::Known),
    // Whoever started it may stop it; the kernel refuses everybody else who may not decide.
    route(Method::POST, "/api/executions/{id}/cancel", Allowed::Known),
    route(Method::POST, "/api/executions/{id}/resume", Allowed::Deciders),
    route(Method::POST, "/api/executions/{id}/settle", Allowed::Deciders),
    route(Method::GET, "/api/elicitation", Allowed::Known),
    route(Method::GET, "/api/elicitation/{id}", Allowed::Known),
    route(Method::POST, "/api/elicitation/{id}/resolve", Allowed::Deciders),
    route(Method::GET, "/api/events", Allowed::Known),
    route(Method::GET, "/api/tools", Allowed::Known),
    route(Method::GET, "/api/tools/{path}", Allowed::Known),
    route(Method::GET, "/api/declarations", Allowed::Known),
    route(Method::POST, "/api/policy/explain", Allowed::Known),
    route(Method::GET, "/api/sessions", Allowed::Deciders),
    route(Method::GET, "/api/sessions/{id}/approvals", Allowed::Known),
    route(Method::POST, "/api/sessions/{id}/approvals", Allowed::Deciders),
    route(Method::DELETE, "/api/sessions/{id}/approvals", Allowed::Deciders),
    route(Method::DELETE, "/api/sessions/{id}/approvals/{grant}", Allowed::Deciders),
    route(Method::GET, "/api/audit", Allowed::Deciders),
    route(Method::GET, "/api/audit/verify", Allowed::Deciders),
    route(Method::GET, "/api/tokens", Allowed::Admins),
    route(Method::POST, "/api/tokens", Allowed::Admins),
    route(Method::DELETE, "/api/tokens/{id}", Allowed::Admins),
    route(Method::POST, "/api/login-links", Allowed::Deciders),
    route(Method::GET, "/api/users", Allowed::Admins),
    route(Method::POST, "/api/users", Allowed::Admins),
    route(Method::PATCH, "/api/users/{id}", Allowed::Admins),
    route(Method::POST, "/api/users/{id}/invite", Allowed::Admins),
    route(Method::GET, "/api/sources", Allowed::Deciders),
    route(Method::POST, "/api/sources", Allowed::Admins),
    route(Method::GET, "/api/sources/{name}", Allowed::Deciders),
    route(Method::PUT, "/api/sources/{name}", Allowed::Admins),
    route(Method::DELETE, "/api/sources/{name}", Allowed::Admins),
    route(Method::POST, "/api/sources/{name}/refresh", Allowed::Admins),
    route(Method::POST, "/api/sources/{name}/accept", Allowed::Admins),
    route(Method::PUT, "/api/sources/{name}/effects", Allowed::Admins),
    route(Method::GET, "/api/configuration", Allowed::Admins),
    Route { method: None, path: "/mcp", allowed: Allowed::Callers, front: Front::Program },
];

/// A route's row; nothing where there is no such route.
pub(crate) fn route_of(method: &Method, path: &str) -> Option<&'static Route> {
    // HEAD is GET without its body.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let here = |route: &&Route| route.path == path && route.method.as_ref().is_none_or(|m| m == method);
    ROUTES.iter().find(here)
}

/// Method and path of every route, `*` for any method: for tests, which hold the table against what they expect of it.
#[doc(hidden)]
pub fn routes() -> Vec<(&'static str, &'static str)> {
    ROUTES.iter().map(|route| (route.method.as_ref().map_or("*", Method::as_str), route.path)).collect()
}

impl Allowed {
    /// Whether this principal is among them.
    pub(crate) fn admits(self, principal: &Principal) -> bool {
        match self {
            Self::Anyone => true,
            Self::Known => !principal.roles.is_empty(),
            Self::Callers => principal.may_call(),
            Self::Deciders => principal.may_decide(),
            Self::Admins => principal.may_decide() && principal.roles.contains(&Role::Admin),
        }
    }

    /// The same, as a yes or a refusal.
    pub(crate) fn check(self, principal: &Principal) -> Result<(), Refusal> {
        match self.admits(principal) {
            true => Ok(()),
            false => Err(Refusal::forbidden("not_allowed", self.refusal())),
        }
    }

    /// What somebody reads who is not.
    fn refusal(self) -> &'static str {
        match self {
            Self::Anyone | Self::Known => "this credential has no role",
            Self::Callers => {
                "this credential does not call tools; use a token with the role agent, service or admin"
            }
            Self::Deciders => "this credential may not decide; ask a person with the role approver or admin",
            Self::Admins => "only an admin may do this",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sdk::PrincipalKind;

    /// The kernel refuses agents as well, with the same words; the table must not rely on it.
    #[test]
    fn a11_the_table_admits_no_agent_or_service_to_a_deciding_route_whatever_roles_it_claims() {
        for (method, path) in [
            (Method::POST, "/api/executions/{id}/resume"),
            (Method::POST, "/api/executions/{id}/settle"),
            (Method::POST, "/api/elicitation/{id}/resolve"),
            (Method::POST, "/api/sessions/{id}/approvals"),
            (Method::DELETE, "/api/sessions/{id}/approvals"),
            (Method::DELETE, "/api/sessions/{id}/approvals/{grant}"),
            (Method::POST, "/api/tokens"),
            (Method::DELETE, "/api/tokens/{id}"),
            (Method::POST, "/api/login-links"),
            (Method::POST, "/api/users"),
            (Method::PATCH, "/api/users/{id}"),
            (Method::POST, "/api/users/{id}/invite"),
            (Method::GET, "/api/sources"),
            (Method::POST, "/api/sources"),
            (Method::GET, "/api/sources/{name}"),
            (Method::PUT, "/api/sources/{name}"),
            (Method::DELETE, "/api/sources/{name}"),
            (Method::POST, "/api/sources/{name}/refresh"),
            (Method::POST, "/api/sources/{name}/accept"),
            (Method::PUT, "/api/sources/{name}/effects"),
        ] {
            let allowed = route_of(&method, path).unwrap().allowed;
            for kind in [PrincipalKind::Agent, PrincipalKind::Service, PrincipalKind::Worker] {
                let roles = vec![Role::Agent, Role::Service, Role::Worker, Role::Approver, Role::Admin];
                let somebody = Principal { kind, roles, ..Principal::agent("x").unwrap() };
                assert!(!allowed.admits(&somebody), "{method} {path} {somebody:?}");
            }
            assert!(allowed.admits(&Principal::admin("root").unwrap()), "{method} {path}");
        }
    }

    #[test]
    fn no_route_stands_twice() {
        for (n, route) in ROUTES.iter().enumerate() {
            let again = |other: &Route| other.path == route.path && other.method == route.method;
            assert!(!ROUTES[..n].iter().any(again), "{}", route.path);
        }
    }
}
