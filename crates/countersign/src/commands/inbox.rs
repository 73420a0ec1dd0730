//! `inbox`: what waits for a person. It only looks.

use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Clock as _, ElicitationRow, SystemClock};

use crate::data_folder::DataFolder;
use crate::exit::Exit;
use crate::local::Setup;
use crate::screen::{Format, Paint};
use crate::{report, wire};

pub(super) async fn run(setup: &Setup) -> anyhow::Result<Exit> {
    let folder = DataFolder::open(&setup.config.data_dir)?;
    let now = SystemClock.now();
    let open = folder.open_questions().await?;
    // What has expired is closed by the next gateway; nobody can decide it any more.
    let (waiting, late): (Vec<_>, Vec<_>) = open.into_iter().partition(|row| is_waiting(row, now));
    let screen = setup.screen;
    if screen.format == Format::Json {
        screen.print_json(&wire::list(waiting.iter().map(wire::elicitation).collect(), None))?;
        return Ok(Exit::Done);
    }
    for row in &waiting {
        screen.print(&entry(row, screen.out, setup))?;
    }
    let late = match late.len() {
        0 => String::new(),
        number => format!(" {number} more expired undecided."),
    };
    screen.print(&match waiting.len() {
        0 => format!("Nothing waits for a person.{late}"),
        1 => format!("1 waits for a person.{late}"),
        number => format!("{number} wait for a person.{late}"),
    })?;
    Ok(Exit::Done)
}

fn is_waiting(row: &ElicitationRow, now: Timestamp) -> bool {
    now < row.elicitation.expires_at
}

fn entry(row: &ElicitationRow, paint: Paint, setup: &Setup) -> String {
    let (id, tool) = (row.elicitation.id, row.elicitation.tool.as_str());
    let demo = crate::demo::owns(tool) && !setup.paths().iter().any(|path| path == tool);
    let command = |verb: &str| {
        let rest = format!("{verb} {id}");
        if demo { setup.invocation.command_with_demo(&rest) } else { setup.invocation.command(&rest) }
    };
    let data = if row.elicitation.authorises() { "" } else { " --data '{…}'" };
    format!(
        "{}  asked {} by {} in {}\n{}  approve   {}{data}\n  deny      {}\n\n",
        paint.bold(&id.to_string()),
        report::ago(row.asked_at),
        row.requester,
        row.session,
        report::question(&row.elicitation, paint),
        command("approve"),
        command("deny"),
    )
}
