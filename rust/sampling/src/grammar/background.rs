//! Threads that give way to those which compute answers, and what they computed.
#![allow(unsafe_code)] // the priority of a thread is a call of the system

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

/// Steps of niceness that the thread goes down. Beside a forward on every core it keeps a tenth of
/// one: 19 would leave it a hundredth, and a schema of 50 ms would take seconds.
#[cfg(all(target_os = "linux", not(miri)))]
const STEPS_DOWN: libc::c_int = 10;

/// Lowers the priority of the calling thread for good, and of threads that it starts. Elsewhere than
/// on Linux nothing changes: there a priority is the whole process's.
pub(super) fn give_way() {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: takes a number and touches no memory; a refusal changes nothing.
    unsafe {
        libc::nice(STEPS_DOWN);
    }
}

/// Time that one thread has computed. What it waited for a core counts only where the system does not
/// tell it apart.
pub(super) struct ThreadTime {
    began: Instant,
    file: Option<File>,
}

impl ThreadTime {
    /// That of the calling thread since it began; another may read it.
    pub(super) fn of_this_thread() -> Self {
        // Resolved now: the file stays this thread's.
        let file = (!cfg!(miri)).then(|| File::open("/proc/thread-self/schedstat").ok());
        Self {
            began: Instant::now(),
            // Systems that do not count say 0.
            file: file.flatten().filter(|file| nanoseconds(file) > Some(0)),
        }
    }

    /// What it has computed so far; 0 once it has ended.
    pub(super) fn elapsed(&self) -> Duration {
        match &self.file {
            Some(file) => Duration::from_nanos(nanoseconds(file).unwrap_or(0)),
            None => self.began.elapsed(),
        }
    }
}

/// The first number of a thread's `schedstat`: nanoseconds on a core.
fn nanoseconds(mut file: &File) -> Option<u64> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) mod tests {
    use std::thread;

    use super::*;

    /// Niceness of the calling thread.
    pub(in crate::grammar) fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn a_thread_that_gives_way_leaves_the_others_where_they_are() {
        let before = niceness();
        let down = thread::spawn(|| {
            give_way();
            niceness()
        });
        assert_eq!(down.join().unwrap(), (before + STEPS_DOWN).min(19));
        assert_eq!(niceness(), before);
        assert_eq!(thread::spawn(niceness).join().unwrap(), before);
    }

    #[test]
    fn what_a_thread_computed_can_be_read_by_another() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let time = ThreadTime::of_this_thread();
            let before = time.elapsed();
            while time.elapsed() == before {
                std::hint::black_box((0..1000).sum::<u64>());
            }
            sender.send((before, time)).unwrap();
            let _ = held.recv();
        });
        let (before, time) = receiver.recv().unwrap();
        assert!(time.elapsed() > before);
        drop(let_go);
        thread.join().unwrap();
    }
}
