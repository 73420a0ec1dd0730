//! When a read is sent again: a pure decision on what became of it.

use std::time::Duration;

use countersign_core::time::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::http::exchange::{Exchange, Intent, Lost, LostStage};

/// How often a read is sent in all.
pub const MAX_ATTEMPTS: u32 = 3;
/// The longest wait. If an upstream asks for a longer one, the caller gets its answer at once.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// How long to wait before the same read is sent again; nothing if what became of it stands. A connection that ended before the
/// answer began is tried again; one that took all the time it had is not, because its caller has waited long enough.
///
/// `jitter` is between 0 and 1: callers that failed together must not come back together.
pub(super) fn wait_before_retry(
    intent: Intent,
    attempt: u32,
    exchange: &Exchange,
    now: Timestamp,
    jitter: f64,
) -> Option<Duration> {
    if intent != Intent::Read || attempt >= MAX_ATTEMPTS {
        return None;
    }
    let asked = match exchange {
        Exchange::Answered(answer) if matches!(answer.status, 429 | 503) => answer.header("retry-after"),
        Exchange::Lost(Lost { stage: LostStage::Broken, .. }) => None,
        _ => return None,
    };
    let backoff =
        FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(16)).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    let wait = asked.and_then(|text| retry_after(text, now)).unwrap_or(backoff);
    (wait <= LONGEST_WAIT).then_some(wait)
}

/// Seconds or a date (RFC 9110, 10.2.3).
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()?;
    let date = Timestamp::from_millis(u64::try_from(date.as_millisecond()).unwrap_or_default());
    Some(now.until(date))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange::{Answer, Extent, NotSent};

    /// 2026-11-16T12:00:00Z.
    const NOON: Timestamp = Timestamp::from_millis(1_794_830_400_000);

    fn wait(intent: Intent, attempt: u32, status: u16, retry_after: Option<&str>) -> Option<Duration> {
        let headers = retry_after.map(|text| ("retry-after".to_owned(), text.to_owned()));
        let headers = headers.into_iter().collect();
        let answer = Answer { status, headers, body: vec![], extent: Extent::Whole };
        wait_before_retry(intent, attempt, &Exchange::Answered(answer), NOON, 1.0)
    }

    #[test]
    fn a_read_whose_connection_broke_before_an_answer_is_sent_again_and_nothing_else_that_was_lost() {
        let lost = |intent, attempt, stage| {
            let exchange = Exchange::Lost(Lost { reason: "closed".into(), stage });
            wait_before_retry(intent, attempt, &exchange, NOON, 1.0)
        };
        assert_eq!(lost(Intent::Read, 1, LostStage::Broken), Some(FIRST_WAIT));
        assert_eq!(lost(Intent::Read, 2, LostStage::Broken), Some(FIRST_WAIT * 2));
        assert_eq!(lost(Intent::Read, MAX_ATTEMPTS, LostStage::Broken), None);
        assert_eq!(lost(Intent::Write, 1, LostStage::Broken), None);
        for stage in [LostStage::Silent, LostStage::Answering(200), LostStage::Redirected] {
            assert_eq!(lost(Intent::Read, 1, stage), None, "{stage:?}");
        }
        let not_sent = Exchange::NotSent(NotSent::Unreachable("refused".into()));
        assert_eq!(wait_before_retry(Intent::Read, 1, &not_sent, NOON, 1.0), None);
    }

    #[test]
    fn only_reads_are_sent_again_and_only_when_the_source_says_later() {
        for status in [200, 301, 400, 404, 500, 502, 504] {
            assert_eq!(wait(Intent::Read, 1, status, None), None, "{status}");
        }
        for status in [429, 503] {
            assert_eq!(wait(Intent::Read, 1, status, None), Some(FIRST_WAIT), "{status}");
            assert_eq!(wait(Intent::Read, 2, status, None), Some(FIRST_WAIT * 2), "{status}");
            assert_eq!(wait(Intent::Read, MAX_ATTEMPTS, status, None), None, "{status}");
            assert_eq!(wait(Intent::Write, 1, status, Some("0")), None, "{status}");
        }
    }

    #[test]
    fn retry_after_is_believed_up_to_a_bound() {
        let read = |text| wait(Intent::Read, 1, 429, Some(text));
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("30"), Some(LONGEST_WAIT));
        assert_eq!(read("31"), None);
        assert_eq!(read("Mon, 16 Nov 2026 12:00:09 GMT"), Some(Duration::from_secs(9)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(read("99999999999999999999999"), Some(FIRST_WAIT));
        assert_eq!(read("soon"), Some(FIRST_WAIT));
    }
}
