//! Where a client is in a stream of several choices: the `id:` lines of its events.

use std::fmt::Write as _;

/// The id of the chunk that sums up the stream.
pub(crate) const END: &str = "end";
/// Stands for a choice of which the client has nothing.
const NOTHING: &str = "-";

/// Of each choice the position of the last event that the client has: 0 for its role, then as in the
/// events of the core. As text, such as `5.-`, it is the id of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    of_choices: Vec<Option<u32>>,
    /// Whether it has the sums too.
    is_end: bool,
}

impl Place {
    /// Before the first event.
    pub(crate) fn start(num_choices: u32) -> Self {
        Self {
            of_choices: vec![None; num_choices as usize],
            is_end: false,
        }
    }

    /// The place that the id of an event names; `None` if it is none of a stream of so many choices.
    pub(crate) fn from_id(id: &str, num_choices: u32) -> Option<Self> {
        if id == END {
            return Some(Self {
                of_choices: vec![Some(u32::MAX); num_choices as usize],
                is_end: true,
            });
        }
        let of_choices = id.split('.').map(|position| match position {
            NOTHING => Some(None),
            _ => position.parse().ok().map(Some),
        });
        let of_choices = of_choices.collect::<Option<Vec<_>>>()?;
        let is_end = false;
        (of_choices.len() == num_choices as usize).then_some(Self { of_choices, is_end })
    }

    pub(crate) fn id(&self) -> String {
        if self.is_end {
            return END.into();
        }
        let mut id = String::new();
        for (index, position) in self.of_choices.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let _ = match position {
                Some(position) => write!(id, "{dot}{position}"),
                None => write!(id, "{dot}{NOTHING}"),
            };
        }
        id
    }

    /// Whether the client has nothing.
    pub(crate) fn is_start(&self) -> bool {
        self.of_choices.iter().all(Option::is_none)
    }

    /// Whether it has the sums at the end.
    pub(crate) fn is_end(&self) -> bool {
        self.is_end
    }

    /// Whether it has the event at `position` of a choice.
    pub(crate) fn has(&self, index: u32, position: u32) -> bool {
        let last = self.of_choices.get(index as usize).copied().flatten();
        last.is_some_and(|last| last >= position)
    }

    /// It got the event at `position` of a choice.
    pub(crate) fn advance(&mut self, index: u32, position: u32) {
        if let Some(last) = self.of_choices.get_mut(index as usize) {
            *last = Some(position);
        }
    }

    /// The positions of the choices of which it has something, each no larger than the core knows.
    pub(crate) fn positions(&self) -> Vec<(u32, u32)> {
        let of_choices = self.of_choices.iter().zip(0..);
        let had = of_choices.filter_map(|(position, index)| Some((index, (*position)?)));
        had.filter(|_| !self.is_end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written() {
        let mut place = Place::start(3);
        assert!(place.is_start() && !place.has(0, 0));
        place.advance(0, 0);
        place.advance(2, 17);
        assert_eq!(place.id(), "0.-.17");
        assert_eq!(Place::from_id("0.-.17", 3), Some(place.clone()));
        assert!(place.has(0, 0) && !place.has(0, 1) && place.has(2, 17) && !place.has(1, 0));
        assert_eq!(place.positions(), [(0, 0), (2, 17)]);
        let end = Place::from_id(END, 2).unwrap();
        assert!(end.is_end() && end.has(1, 9_999) && end.id() == END);
    }

    #[test]
    fn other_ids_are_none() {
        for id in ["", "1", "1.2.3", "a.b", "1.-1", "1,2", "4294967296.0"] {
            assert_eq!(Place::from_id(id, 2), None, "{id}");
        }
    }
}
