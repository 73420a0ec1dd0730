//! An answer that is shared by everybody who asks within a moment.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long an answer is given again.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer, and when it was made.
pub(super) struct Fresh<T> {
    last: Mutex<Option<(Instant, T)>>,
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}

impl<T: Clone> Fresh<T> {
    /// The last answer while it is fresh; else a new one. Who asks while it is being made waits for it.
    pub(super) async fn get(&self, make: impl AsyncFnOnce() -> T) -> T {
        let mut last = self.last.lock().await;
        if let Some((made_at, answer)) = &*last
            && made_at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = make().await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_made_once_for_all_who_ask_within_a_second_and_anew_after_it() {
        let (fresh, made) = (Fresh::default(), AtomicU32::new(0));
        let ask = async || {
            fresh
                .get(async || {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    made.fetch_add(1, Ordering::Relaxed) + 1
                })
                .await
        };
        assert_eq!(tokio::join!(ask(), ask(), ask()), (1, 1, 1), "also while it is being made");
        tokio::time::sleep(FRESH - Duration::from_millis(1)).await;
        assert_eq!(ask().await, 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(ask().await, 2);
    }
}
