//! Commands of a person while the demo serves: regions that stop, slow down, fall silent and come back.

use std::io::{BufRead, Read as _};
use std::time::Duration;

use tokio::sync::mpsc;

use super::say;
use super::stage::{IDS, Stage};
use ojs_testbed::{DemoRegion, Fault, When};

/// The longest line that is read, its end included: every command is shorter. Units: bytes.
const LINE_MAX: u64 = 256;

/// How much later a slow region answers: less than the timeout of the demo's probes, so that it stays healthy.
const SLOW: Duration = Duration::from_millis(700);

pub(super) const HELP: &str = "\
Type here, and look at what the sidecar makes of it:
  stop REGION     its connections are refused
  silent REGION   it accepts connections and never answers
  slow REGION     it answers 0.7 s later
  resume REGION   it is well again
  help            print this
  quit            end the demo, as Ctrl-C does
REGION is us-east-1, eu-west-1 or ap-south-1.";

/// A change of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Stop,
    Silent,
    Slow,
    Resume,
}

/// A line that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Region(Act, usize),
    Help,
    Quit,
    /// An empty line.
    Nothing,
}

/// Reads a line.
///
/// Errors: a sentence for the person at the prompt.
fn order(line: &str) -> Result<Order, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let act = |name: &str| {
        let acts = [("stop", Act::Stop), ("silent", Act::Silent), ("slow", Act::Slow), ("resume", Act::Resume)];
        acts.into_iter().find(|(known, _)| *known == name).map(|(_, act)| act)
    };
    match words.as_slice() {
        [] => Ok(Order::Nothing),
        ["help"] => Ok(Order::Help),
        ["quit"] => Ok(Order::Quit),
        [name, rest @ ..] => {
            let act = act(name).ok_or_else(|| format!("there is no command {name:?}; `help` lists them"))?;
            let [region] = rest else { return Err(format!("expected one region, such as: {name} eu-west-1")) };
            let place = IDS.iter().position(|id| id == region);
            let place = place.ok_or_else(|| format!("there is no region {region:?}; expected {}", IDS.join(", ")))?;
            Ok(Order::Region(act, place))
        }
    }
}

/// Reads lines until the input ends or the receiver is closed. A line that is too long is left out whole.
fn read(mut input: impl BufRead, lines: &mpsc::Sender<Result<String, String>>) {
    loop {
        let mut line = Vec::new();
        match (&mut input).take(LINE_MAX).read_until(b'\n', &mut line) {
            // An input that cannot be read, as that of a process in the background, is one without lines.
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let is_whole = line.ends_with(b"\n") || u64::try_from(line.len()).is_ok_and(|length| length < LINE_MAX);
        let line = if is_whole {
            String::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())
        } else if input.skip_until(b'\n').is_ok() {
            Err(format!("the line is longer than {LINE_MAX} bytes and was left out"))
        } else {
            return;
        };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// The lines of standard input, read on a thread of their own, which ends with the process.
fn typed() -> mpsc::Receiver<Result<String, String>> {
    let (lines, receiver) = mpsc::channel(1);
    if !in_background() {
        // Without the thread the demo serves on without commands.
        let _ =
            std::thread::Builder::new().name("prompt".to_owned()).spawn(move || read(std::io::stdin().lock(), &lines));
    }
    receiver
}

/// Whether this process runs in the background of a terminal: the kernel would stop it for reading from there.
fn in_background() -> bool {
    use std::io::IsTerminal as _;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process group and the terminal's foreground group, behind the name in parentheses.
    let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let (group, foreground) = (fields.get(2), fields.get(5));
    std::io::stdin().is_terminal() && group.is_some() && group != foreground
}

/// Carries out commands until `quit`. Without an input, or after its end, this never resolves.
pub(super) async fn obey(stage: &Stage) {
    let mut lines = typed();
    while let Some(line) = lines.recv().await {
        match line.and_then(|line| order(&line)) {
            Ok(Order::Quit) => return,
            Ok(Order::Help) => say(HELP),
            Ok(Order::Nothing) => {}
            Ok(Order::Region(act, place)) => {
                if let Some(region) = stage.regions.get(place) {
                    say(done(act, region).await);
                }
            }
            Err(what) => say(what),
        }
    }
    std::future::pending().await
}

/// Carries the change out; returns the new state.
async fn done(act: Act, region: &DemoRegion) -> String {
    let (id, faults) = (region.id(), region.faults());
    if act == Act::Stop {
        region.stop().await;
        return format!("{id} is stopped: its connections are refused until `resume {id}`");
    }
    faults.clear();
    if let Err(error) = region.resume().await {
        return format!("{id} cannot listen: {error}");
    }
    match act {
        Act::Silent => {
            faults.add(When::always(), Fault::HangBeforeBody);
            format!("{id} is silent: it accepts connections and answers nothing until `resume {id}`")
        }
        Act::Slow => {
            faults.add(When::always(), Fault::Slow { delay: SLOW });
            format!("{id} is slow: it answers {} ms later until `resume {id}`", SLOW.as_millis())
        }
        Act::Stop | Act::Resume => {
            // Calls that hang would hang on; cut, they end, and the next ones are answered.
            region.cut_connections().await;
            format!("{id} is well again; the sidecar's probes find that out")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Result<String, String>> {
        let (sender, mut lines) = mpsc::channel(16);
        read(input, &sender);
        drop(sender);
        std::iter::from_fn(|| lines.blocking_recv()).collect()
    }

    #[test]
    fn a_line_is_a_command_with_the_region_that_it_is_about() {
        for (line, expected) in [
            ("stop eu-west-1\n", Order::Region(Act::Stop, 1)),
            ("  silent   us-east-1 ", Order::Region(Act::Silent, 0)),
            ("slow ap-south-1\r\n", Order::Region(Act::Slow, 2)),
            ("resume eu-west-1", Order::Region(Act::Resume, 1)),
            ("help", Order::Help),
            ("quit", Order::Quit),
            (" \n", Order::Nothing),
        ] {
            assert_eq!(order(line), Ok(expected), "{line:?}");
        }
        for (line, words) in [
            ("stop", "expected one region"),
            ("stop eu-west-1 now", "expected one region"),
            ("stop mars-1", "there is no region \"mars-1\"; expected us-east-1, eu-west-1, ap-south-1"),
            ("dance eu-west-1", "there is no command \"dance\""),
        ] {
            let error = order(line).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_the_next_one_is_read() {
        let long = "stop eu-west-1 ".repeat(100_000);
        let read = lines(format!("help\n{long}\nquit\n").as_bytes());
        assert_eq!(read.len(), 3);
        assert_eq!((&read[0], &read[2]), (&Ok("help\n".to_owned()), &Ok("quit\n".to_owned())));
        assert!(read[1].as_ref().unwrap_err().contains("longer than 256 bytes"));
        let full = "x".repeat(255);
        assert_eq!(lines(format!("{full}\n{full}").as_bytes()), [Ok(format!("{full}\n")), Ok(full)]);
        assert_eq!(lines(b"\xff\nhelp"), [Err("the line is not UTF-8".to_owned()), Ok("help".to_owned())]);
        assert_eq!(lines(b""), []);
    }
}
