//! What another process uses.

use std::fs::read_to_string;

use crate::Failure;

/// Ticks of the kernel's clock in a second, as Linux says them to programs.
const TICKS: f64 = 100.0;

/// A process by its id.
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// Seconds of processor time since its start.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, Failure> {
        let line = read_to_string(format!("/proc/{}/stat", self.0))?;
        let behind_name = line.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let ticks = |place: usize| {
            fields
                .get(place)
                .and_then(|field| field.parse::<f64>().ok())
        };
        let (user, system) = (ticks(11), ticks(12));
        Ok((user.unwrap_or(0.0) + system.unwrap_or(0.0)) / TICKS)
    }

    /// Bytes of memory that it has.
    pub(crate) fn memory_bytes(&self) -> Result<i64, Failure> {
        let status = read_to_string(format!("/proc/{}/status", self.0))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<i64>().ok());
        Ok(kilobytes.ok_or("no VmRSS")? * 1024)
    }
}
