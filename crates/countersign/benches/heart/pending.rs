//! What 10,000 questions that wait for a person cost: memory right after they were asked and once parked, and disk.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::connection::Connection;
use crate::product::PARK_AFTER;
use crate::report::{Bound, Report, Row};
use crate::side::Side;

const PENDING: usize = 10_000;
const PART: &str = "product that parks";
/// Between the last park and the look at the memory.
const SETTLING: Duration = Duration::from_secs(3);

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let side = Side::start(PART).await?;
    one_cycle(&side).await?;
    // What the database takes is known once the process has ended and nothing is left in the log of writes.
    let side = end_and_measure_disk(side).await?;
    let (side, disk_before) = side;
    one_cycle(&side).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = side.server.resident_kb()?;
    let begun = Instant::now();
    side.ask_many(PENDING).await?;
    let (asked_in, asked) = (begun.elapsed(), side.server.resident_kb()?);
    tokio::time::sleep(PARK_AFTER + SETTLING).await;
    let parked = side.server.resident_kb()?;
    let (_, disk_after) = end_and_measure_disk(side).await?;
    report.note(format!("10,000 pending: asked in {asked_in:.1?}; idle before it {idle} kB"));
    let megabytes =
        |kilobytes: u64| Duration::from_micros(kilobytes.saturating_sub(idle)).as_secs_f64() * 1e3;
    add(
        report,
        "10,000 pending: memory above idle right after asking",
        megabytes(asked),
        " MB",
        (20.0, 10.0),
    );
    add(report, "  memory above idle once parked", megabytes(parked), " MB", (4.0, 2.0));
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let each = disk_after.saturating_sub(disk_before) as f64 / PENDING as f64 / 1e3;
    add(report, "  database for each", each, " kB", (3.0, 2.0));
    Ok(())
}

fn add(report: &mut Report, work: &'static str, figure: f64, unit: &'static str, (must, reach): (f64, f64)) {
    let product = format!("{figure:.2}{unit}");
    let bound = Bound::AtMost { must, reach };
    report.add(Row { work, floor: String::new(), product, figure, unit, bound });
}

/// An idle server has served before.
async fn one_cycle(side: &Side) -> Result<(), Failure> {
    let runs = side.probe()?.look()?.runs;
    let mut connection = Connection::open(side.address()).await?;
    for id in side.ask_many(1).await? {
        connection.ask(&side.tokens.approve(&id)).await?;
    }
    side.probe()?.wait_for(runs + 1).await?;
    Ok(())
}

async fn end_and_measure_disk(side: Side) -> Result<(Side, u64), Failure> {
    let side = side.restart(PART).await?;
    let bytes = disk(side.folder.path())?;
    Ok((side, bytes))
}

/// All files of the database, which is whatever has SQLite's heading and what stands beside it.
fn disk(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains(".db") {
            bytes += entry.metadata()?.len();
        }
    }
    match bytes {
        0 => Err(format!("no database in {}", folder.display()).into()),
        bytes => Ok(bytes),
    }
}
