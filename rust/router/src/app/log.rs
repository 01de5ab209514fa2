//! The log on stderr: each event is one bounded line, whatever its fields hold.

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogConfig, LogFormat};
use crate::error::{RouterError, cut, escaped};

/// Longest line, in bytes.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Begins the colours that a terminal gets.
const ESCAPE: char = '\u{1b}';

/// Begins to log to stderr, unless this process already does.
///
/// # Errors
/// [`RouterError::Config`] for a filter that cannot be read.
pub(super) fn start_log(config: &LogConfig) -> Result<(), RouterError> {
    let filter = EnvFilter::try_new(&config.level).map_err(|error| {
        RouterError::Config(format!("log.level: given {:?}, {error}", config.level))
    })?;
    let is_coloured = io::stderr().is_terminal() && config.format == LogFormat::Text;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_coloured)
        .with_writer(Lines { is_coloured });
    // A second router of one process, as in tests, goes on with the first one's log.
    let _ = match config.format {
        LogFormat::Text => log.with_target(false).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}

/// Writes events to stderr.
#[derive(Clone, Copy, Debug)]
struct Lines {
    is_coloured: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for Lines {
    /// Takes a whole event, as the subscriber writes it.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let mut line = line(&text, self.is_coloured);
        line.push('\n');
        io::stderr().lock().write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// An event without its last newline, as one line.
fn line(event: &str, is_coloured: bool) -> String {
    let event = event.strip_suffix('\n').unwrap_or(event);
    let kept = is_coloured.then_some(ESCAPE);
    escaped(&cut(event, MAX_LINE_BYTES), kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_line_of_bounded_length() {
        let forged = "INFO refused request=r1\n2026 ERROR made up\n";
        assert_eq!(
            line(forged, true),
            "INFO refused request=r1\\n2026 ERROR made up"
        );
        assert_eq!(
            line("\u{1b}[32mINFO\u{1b}[0m\n", true),
            "\u{1b}[32mINFO\u{1b}[0m"
        );
        assert!(!line("\u{1b}[32mINFO\n", false).contains(ESCAPE));
        assert!(line(&"a".repeat(1 << 20), false).len() < MAX_LINE_BYTES + 32);
    }
}
