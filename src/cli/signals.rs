//! SIGTERM and SIGINT: the first one asks for an orderly end, the second one ends the process at once. SIGUSR1 and
//! SIGUSR2, which tools send to processes with logs, only write a line.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a command that a signal broke off: 128 + SIGINT.
pub(super) const INTERRUPTED: u8 = 130;
/// The exit code after a second signal: 128 + SIGINT.
const TOLD_TWICE: i32 = INTERRUPTED as i32;

/// Resolves at the first signal. From then on a second one ends the process.
pub(super) async fn first() {
    first_with(|| {}).await;
}

/// The same; `clean_up` runs before the second signal ends the process.
pub(super) async fn first_with(clean_up: impl FnOnce() + 'static) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers the system's own action, which is to end the process, stays in force.
        return std::future::pending().await;
    };
    either(&mut terminate, &mut interrupt).await;
    tokio::task::spawn_local(async move {
        either(&mut terminate, &mut interrupt).await;
        clean_up();
        end_now();
    });
}

/// Keeps SIGUSR1 and SIGUSR2 from ending the process, which is the kernel's default. Never resolves.
pub(super) async fn ignored() {
    let (Ok(mut first), Ok(mut second)) = (signal(SignalKind::user_defined1()), signal(SignalKind::user_defined2()))
    else {
        return std::future::pending().await;
    };
    loop {
        let name = tokio::select! {
            _ = first.recv() => "SIGUSR1",
            _ = second.recv() => "SIGUSR2",
        };
        tracing::info!(target: "ojs_federation", signal = name, "the signal has no meaning here and is ignored");
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[expect(clippy::exit, reason = "a second signal asks for exactly this")]
fn end_now() {
    std::process::exit(TOLD_TWICE);
}
