//! The permission to start a handler: made here and nowhere else, from a recorded start.

use countersign_sdk::permit::Permit;
use countersign_sdk::{Authority, Tool};
use serde_json::Value;

use super::call::PermitState;
use super::{Execution, Phase};
use crate::elicitation::Decider;
use crate::event::StartedBy;
use crate::ids::CallNo;

/// The permission to enter one handler once. The kernel's one place that starts handlers takes it by value.
#[derive(Debug)]
#[must_use = "a permit that is dropped leaves a started call without a handler"]
pub struct StartPermit {
    call: CallNo,
    permit: Permit,
    args: Value,
}

impl StartPermit {
    /// The call it is for.
    pub fn call(&self) -> CallNo {
        self.call
    }

    /// Enters the handler with exactly the arguments that were recorded.
    pub fn enter(
        self,
        tool: &Tool,
        ctx: countersign_sdk::Ctx,
    ) -> impl Future<Output = Result<Value, countersign_sdk::ToolError>> + Send + use<> {
        tool.run(ctx, self.permit, self.args)
    }
}

impl Execution {
    /// The permit of a call whose start or repeated entry was just recorded; each record yields one.
    pub fn take_permit(&mut self, no: CallNo) -> Option<StartPermit> {
        if self.poisoned {
            return None;
        }
        let permit = self.authority(no);
        let call = self.calls.get_mut(no.0 as usize)?;
        let Phase::Running(run) = &mut call.phase else { return None };
        if run.permit != PermitState::Unspent {
            return None;
        }
        run.permit = PermitState::Spent;
        Some(StartPermit { call: no, permit, args: call.args.to_value() })
    }

    fn authority(&self, no: CallNo) -> Permit {
        let Some(call) = self.call(no) else { return Permit::safe() };
        let Some(run) = call.run().filter(|_| call.effects.destructive) else { return Permit::safe() };
        Permit::on(match &run.by {
            StartedBy::Policy { rule } => Authority::Rule { rule: rule.clone() },
            StartedBy::Grant { id } => Authority::Grant { id: id.to_string() },
            StartedBy::Retry => Authority::Rule { rule: "settled as retry by a person".into() },
            StartedBy::Decision { elicitation } => {
                match self.find(*elicitation).and_then(|a| a.decision()).map(|d| &d.by) {
                    Some(Decider::Grant { id }) => Authority::Grant { id: id.to_string() },
                    Some(Decider::Person { principal, .. }) => Authority::Decision {
                        elicitation: elicitation.to_string(),
                        by: principal.to_string(),
                    },
                    // Neither the clock nor the gateway ever approves; a permit without authority enters nothing.
                    Some(Decider::Clock | Decider::Gateway { .. }) | None => return Permit::safe(),
                }
            }
        })
    }
}
