//! Whose decision it is when a client answers.

use countersign_core::digest::Digest;
use countersign_core::elicitation::Proof;
use countersign_kernel::Caller;
use countersign_sdk::{Principal, PrincipalId, PrincipalKind, Role};

/// The channel of a decision that came through the client's own prompt.
pub(super) const CHANNEL: &str = "mcp";
/// The channel of a decision that an agent made with `resume`.
pub(super) const AGENT_CHANNEL: &str = "mcp-resume";

/// The user at an attended client, who answered a prompt there.
///
/// This is not the agent (R10): a person declared that this client's prompts reach a person, the model has no part in that
/// exchange, and the decision is recorded as the owner's, with the client as its proof. It is built only here, and nobody is
/// asked through a client that is not attended. The store checks, when the decision is taken and again when the call starts, that the
/// owner may decide and that the client's token is good.
pub(super) fn person_at_client(caller: &Caller) -> Caller {
    let proof = caller.token.map(|token| Proof::AttendedClient { token });
    match &caller.principal.owner {
        Some(owner) => Caller { principal: approver(owner.clone()), proof, ..caller.clone() },
        // A program that embeds the gateway without users.
        None => Caller { proof, ..deciding("mcp-user", caller) },
    }
}

/// The agent itself, where the operator set `agent_may_decide`. Recorded as `mcp-agent:…` and without proof, so that an
/// auditor sees what it was: nobody looked.
pub(super) fn agent_that_may_decide(caller: &Caller) -> Caller {
    Caller { proof: Some(Proof::AgentSetting), ..deciding("mcp-agent", caller) }
}

fn deciding(kind: &str, caller: &Caller) -> Caller {
    let whose = caller.token.map_or_else(|| caller.principal.id.to_string(), |token| token.to_string());
    let id = PrincipalId::parse(&format!("{kind}:{whose}"))
        // A principal's id of the greatest length has no room for the prefix; its digest names it as well.
        .or_else(|_| PrincipalId::parse(&format!("{kind}:{}", Digest::of(whose.as_bytes()))));
    // Unreachable otherwise, and if it were not: the agent, which decides nothing.
    let principal = id.map_or_else(|_| caller.principal.clone(), approver);
    Caller { principal, ..caller.clone() }
}

fn approver(id: PrincipalId) -> Principal {
    Principal { id, kind: PrincipalKind::User, roles: vec![Role::Approver], owner: None }
}
