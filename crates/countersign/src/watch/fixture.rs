//! Questions for the tests of the model and the view.

use countersign_core::time::Timestamp;
use countersign_server::wire::{Decision, Elicitation, ExecutionSummary, Pending, PendingKind, Status};
use ratatui::layout::Size;
use serde_json::{Value, json};

use super::model::{Key, Model};
use crate::names::Names;

/// When the tests happen.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Some seconds later.
pub(super) fn later(ms: u64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + ms)
}

/// A question of `notes.delete`, with these arguments.
pub(crate) fn asked(no: u32, args: Value) -> Elicitation {
    Elicitation {
        question: Pending {
            execution_id: format!("exec_{no:032x}"),
            elicitation_id: format!("eli_{no:032x}"),
            tool_path: "notes.delete".to_owned(),
            message: format!("Permanently delete note \"{no}\"? This cannot be undone."),
            args: args.into(),
            digest: "00".repeat(32),
            kind: PendingKind::Approval,
            schema: None,
            because: "no rule matches, and the tool is destructive".to_owned(),
            remember: "session".to_owned(),
            asked_at: Timestamp::from_millis(NOW.as_millis() - 3_000).to_string(),
            expires_at: later(3_600_000).to_string(),
            url: None,
            line: None,
        },
        status: "pending".to_owned(),
        session_id: "ses_local".to_owned(),
        requester: "agent-1".to_owned(),
        requester_name: None,
        owner: None,
        owner_name: None,
        decision: None,
        cannot_approve: None,
    }
}

/// An execution with a call in doubt.
pub(super) fn doubtful(no: u32) -> ExecutionSummary {
    ExecutionSummary {
        execution_id: format!("exec_{no:032x}"),
        status: Status::InDoubt,
        tool: Some("bank.pay".to_owned()),
        session_id: "ses_local".to_owned(),
        requester: "agent-1".to_owned(),
        idempotency_key: None,
        created_at: NOW.to_string(),
        updated_at: NOW.to_string(),
    }
}

/// The same, for each call anew.
pub(crate) fn each_call(no: u32) -> Elicitation {
    let mut asked = asked(no, json!({ "to": "ann", "amount": no }));
    asked.question.tool_path = "bank.pay".to_owned();
    asked.question.message = format!("Pay ${no} to \"ann\"?");
    asked.question.remember = "call".to_owned();
    asked
}

/// A form.
pub(crate) fn form(no: u32) -> Elicitation {
    let mut asked = asked(no, json!({}));
    asked.question.tool_path = "stock.check".to_owned();
    asked.question.message = "Which warehouse should I check?".to_owned();
    asked.question.kind = PendingKind::Form;
    asked.question.schema = Some(json!({
        "type": "object",
        "required": ["units", "warehouseId"],
        "properties": { "units": { "type": "integer" }, "warehouseId": { "type": "string", "title": "Warehouse" } },
    }));
    asked
}

/// Somebody's no.
pub(super) fn denied_by_ann() -> Decision {
    Decision {
        outcome: "denied".to_owned(),
        by: "ann".to_owned(),
        by_name: None,
        channel: "console".to_owned(),
        proof: None,
        at: NOW.to_string(),
        comment: Some("not today".to_owned()),
        data: None,
        reason: None,
    }
}

/// A screen of 80 by 20 that has shown these for a while.
pub(super) fn showing(asked: Vec<Elicitation>) -> Model {
    showing_on(Size { width: 80, height: 20 }, asked)
}

/// A screen of this size that has shown these for a while.
pub(super) fn showing_on(size: Size, asked: Vec<Elicitation>) -> Model {
    let mut model = Model::new("http://127.0.0.1:7420", Names::default(), size, Timestamp::from_millis(0));
    model.listed(asked, false, Timestamp::from_millis(0));
    model
}

/// Types these letters and keys.
pub(super) fn typed(model: &mut Model, keys: &str) {
    for c in keys.chars() {
        let key = if c == '\n' { Key::Enter } else { Key::Char(c) };
        assert_eq!(model.key(key, NOW), None, "{c:?} is not yet the end of it");
    }
}
