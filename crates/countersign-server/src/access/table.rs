//! Route by role. A route that does not stand here is served to nobody.
// tidy: uniform table

use axum::http::Method;
use countersign_sdk::{Principal, Role};

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

/// One route.
pub(crate) struct Route {
    /// The method; none where the route takes any.
    pub(crate) method: Option<Method>,
    /// The path, as the router writes it.
    pub(crate) path: &'static str,
    /// Whom it is for.
    pub(crate) allowed: Allowed,
}

const fn route(method: Method, path: &'static str, allowed: Allowed) -> Route {
    Route { method: Some(method), path, allowed }
}

/// Every route there is.
pub(crate) const ROUTES: &[Route] = &[
    route(Method::GET, "/healthz", Allowed::Anyone),
    route(Method::GET, "/readyz", Allowed::Anyone),
    route(Method::GET, "/metrics", Allowed::Anyone),
    route(Method::GET, "/openapi.json", Allowed::Anyone),
    // Signposts: they tell nothing but what their address says.
    route(Method::GET, "/", Allowed::Anyone),
    route(Method::GET, "/elicitations/{id}", Allowed::Anyone),
    // The link is the credential; opening it changes nothing.
    route(Method::GET, "/login", Allowed::Anyone),
    route(Method::POST, "/login", Allowed::Anyone),
    route(Method::POST, "/logout", Allowed::Known),
    route(Method::GET, "/api/whoami", Allowed::Known),
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
    Route { method: None, path: "/mcp", allowed: Allowed::Callers },
];

/// Whom a route is for; nothing where there is no such route.
pub(crate) fn allowed(method: &Method, path: &str) -> Option<Allowed> {
    // HEAD is GET without its body.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let here = |route: &&Route| route.path == path && route.method.as_ref().is_none_or(|m| m == method);
    ROUTES.iter().find(here).map(|route| route.allowed)
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

    /// What somebody reads who is not.
    pub(crate) fn refusal(self) -> &'static str {
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
        ] {
            let allowed = allowed(&method, path).unwrap();
            for kind in [PrincipalKind::Agent, PrincipalKind::Service] {
                let roles = vec![Role::Agent, Role::Service, Role::Approver, Role::Admin];
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
