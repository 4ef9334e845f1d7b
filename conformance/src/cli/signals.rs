//! The end that a user or the system asks for.

use crate::drivers::kill_all;

/// Does work with engines; when it is asked to end before, the exit code is 130. Either way no engine is left running.
pub async fn until_asked_to_end(work: impl Future<Output = Result<i32, String>>) -> Result<i32, String> {
    let outcome = tokio::select! {
        done = work => done,
        () = asked_to_end() => Ok(130),
    };
    kill_all();
    outcome
}

/// Waits until Ctrl-C is pressed, or the process is asked to end.
pub async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = term.recv() => {} }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
