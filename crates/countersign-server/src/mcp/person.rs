//! Whose decision it is when a client answers.

use countersign_core::digest::Digest;
use countersign_kernel::Caller;
use countersign_sdk::{Principal, PrincipalId, PrincipalKind, Role};

/// The channel of a decision that came through the client's own prompt.
pub(super) const CHANNEL: &str = "mcp";
/// The channel of a decision that an agent made with `resume`.
pub(super) const AGENT_CHANNEL: &str = "mcp-resume";

/// The person at the agent's own client, who answered a prompt there.
///
/// This is not the agent (R10): the gateway asked the client to ask its user, the model has no part in that exchange, and the
/// decision is recorded as this person's, `mcp-user:…`, through the channel `mcp`. It is built only here, and only where the
/// operator left `client_elicitation` on, and not for a service account, which has no user: an accept is as good as the client, and one
/// that answers prompts by itself answers for its user. The decision stands on the agent's token, so revoking that voids what was not used yet.
pub(super) fn person_at_client(caller: &Caller) -> Caller {
    deciding("mcp-user", caller)
}

/// The agent itself, where the operator set `agent_may_decide`. Recorded as `mcp-agent:…`, so that an auditor sees what it
/// was: nobody looked.
pub(super) fn agent_that_may_decide(caller: &Caller) -> Caller {
    deciding("mcp-agent", caller)
}

fn deciding(kind: &str, caller: &Caller) -> Caller {
    let whose = caller.token.map_or_else(|| caller.principal.id.to_string(), |token| token.to_string());
    let id = PrincipalId::parse(&format!("{kind}:{whose}"))
        // A principal's id of the greatest length has no room for the prefix; its digest names it as well.
        .or_else(|_| PrincipalId::parse(&format!("{kind}:{}", Digest::of(whose.as_bytes()))));
    let principal = match id {
        Ok(id) => Principal { id, kind: PrincipalKind::User, roles: vec![Role::Approver] },
        // Unreachable, and if it were not: the agent, which decides nothing.
        Err(_) => caller.principal.clone(),
    };
    Caller { principal, token: caller.token }
}
