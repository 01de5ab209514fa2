//! The trace that a call belongs to, by W3C's `traceparent` header.

/// Length of a trace's id, in hexadecimal digits.
const TRACE_DIGITS: usize = 32;
const PARENT_DIGITS: usize = 16;
const FLAG_DIGITS: usize = 2;

/// The trace's id in a `traceparent` value; none where it is not one.
pub(super) fn trace_id(header: &str) -> Option<&str> {
    let mut parts = header.split('-');
    let version = digits(parts.next()?, 2)?;
    let trace = digits(parts.next()?, TRACE_DIGITS)?;
    let parent = digits(parts.next()?, PARENT_DIGITS)?;
    digits(parts.next()?, FLAG_DIGITS)?;
    // A later version may have more parts; the first has none.
    let is_known = version != "ff" && (version != "00" || parts.next().is_none());
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    (is_known && !is_zero(trace) && !is_zero(parent)).then_some(trace)
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
    fn trace_of_a_header_is_read() {
        let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(trace_id(&header), Some(TRACE));
        let later = format!("01-{TRACE}-00f067aa0ba902b7-01-more");
        assert_eq!(trace_id(&later), Some(TRACE));
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
            assert_eq!(trace_id(&bad), None, "{bad}");
        }
    }
}
