//! What is somebody's own. Whoever may decide sees everything; an agent sees what it asked for, and nothing else exists.

use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::ports::{ElicitationRow, ExecutionRow};
use countersign_kernel::{Caller, Target};
use countersign_sdk::PrincipalId;

use crate::refusal::Refusal;
use crate::shared::Shared;

/// Whose things a caller sees: only one requester's, or everybody's where nothing is given.
pub(super) fn scope(caller: &Caller) -> Option<PrincipalId> {
    (!caller.principal.may_decide()).then(|| caller.principal.id.clone())
}

fn sees(caller: &Caller, requester: &PrincipalId) -> bool {
    scope(caller).is_none_or(|own| own == *requester)
}

/// An execution that the caller may see.
pub(super) async fn execution(shared: &Shared, caller: &Caller, id: &str) -> Result<ExecutionRow, Refusal> {
    let parsed = id.parse::<ExecutionId>().map_err(|_| no_execution())?;
    crate::trace::execution(id);
    let row = shared.gateway.execution(parsed).await?;
    row.filter(|row| sees(caller, &row.requester)).ok_or_else(no_execution)
}

/// An elicitation that the caller may see, by its own id or its execution's.
pub(super) async fn elicitation(
    shared: &Shared,
    caller: &Caller,
    id: &str,
) -> Result<ElicitationRow, Refusal> {
    let id = match target(id)? {
        Target::Elicitation(id) | Target::Shown(id, _) => id,
        Target::Execution(execution) | Target::ShownBy(execution, _) => {
            only_open(shared, caller, execution).await?
        }
    };
    let row = shared.gateway.elicitation(id).await?;
    row.filter(|row| sees(caller, &row.requester)).ok_or_else(no_elicitation)
}

/// What an id on a deciding route names.
pub(super) fn target(id: &str) -> Result<Target, Refusal> {
    if let Ok(id) = id.parse::<ElicitationId>() {
        return Ok(Target::Elicitation(id));
    }
    id.parse::<ExecutionId>().map(Target::Execution).map_err(|_| no_elicitation())
}

async fn only_open(
    shared: &Shared,
    caller: &Caller,
    execution: ExecutionId,
) -> Result<ElicitationId, Refusal> {
    self::execution(shared, caller, &execution.to_string()).await?;
    let result = shared.gateway.result(execution).await?.ok_or_else(no_elicitation)?;
    let open: Vec<ElicitationId> = result.pending.iter().map(|pending| pending.elicitation.id).collect();
    match open[..] {
        [] => Err(no_elicitation()),
        [only] => Ok(only),
        _ => Err(countersign_kernel::DecideError::Ambiguous(open).into()),
    }
}

fn no_execution() -> Refusal {
    Refusal::not_found("there is no such execution")
}

fn no_elicitation() -> Refusal {
    Refusal::not_found("there is no such elicitation")
}
