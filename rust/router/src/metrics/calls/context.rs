//! The trace that a call belongs to, by W3C's `traceparent` header.

use std::fmt;

/// Length of a trace's id, in hexadecimal digits.
const TRACE_DIGITS: usize = 32;
const PARENT_DIGITS: usize = 16;
const FLAG_DIGITS: usize = 2;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A span in its trace, as one process tells the next of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent` value; none where it is not one.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let version = digits(parts.next()?, 2)?;
        let trace = digits(parts.next()?, TRACE_DIGITS)?;
        let parent = digits(parts.next()?, PARENT_DIGITS)?;
        let flags = digits(parts.next()?, FLAG_DIGITS)?;
        // A later version may have more parts; the first has none.
        let is_known = version != "ff" && (version != "00" || parts.next().is_none());
        let context = Self {
            trace_id: u128::from_str_radix(trace, 16).ok()?.to_be_bytes(),
            span_id: u64::from_str_radix(parent, 16).ok()?.to_be_bytes(),
            is_sampled: u8::from_str_radix(flags, 16).ok()? & SAMPLED != 0,
        };
        (is_known && context.trace_id != [0; 16] && context.span_id != [0; 8]).then_some(context)
    }

    /// The trace's id in hexadecimal digits.
    pub(super) fn trace(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }
}

impl fmt::Display for TraceContext {
    /// As a `traceparent` value.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = u64::from_be_bytes(self.span_id);
        let flags = u8::from(self.is_sampled);
        write!(formatter, "00-{}-{span:016x}-{flags:02x}", self.trace())
    }
}

/// `text`, if it is so many lower-case hexadecimal digits.
fn digits(text: &str, count: usize) -> Option<&str> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == count && text.bytes().all(is_digit)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn header_is_read_and_written() {
        for flags in ["00", "01"] {
            let header = format!("00-{TRACE}-00f067aa0ba902b7-{flags}");
            let context = TraceContext::parse(&header).unwrap();
            assert_eq!(context.trace(), TRACE);
            assert_eq!(context.is_sampled, flags == "01");
            assert_eq!(context.to_string(), header);
        }
        let later = format!("01-{TRACE}-00f067aa0ba902b7-03-more");
        let context = TraceContext::parse(&later).unwrap();
        assert!(context.is_sampled && context.trace() == TRACE);
    }

    #[test]
    fn what_is_no_traceparent_names_no_trace() {
        let zeros = "0".repeat(TRACE_DIGITS);
        for bad in [
            String::new(),
            "00".into(),
            TRACE.into(),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{TRACE}é-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(TraceContext::parse(&bad), None, "{bad}");
        }
    }
}
