//! One line of a table of options.

use super::{Kind, Range, Value, Violations};

/// Under which heading help and documentation show an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Addresses.
    Addresses,
    /// Model and machine.
    Machine,
    /// Speculation.
    Speculation,
    /// Limits and lifetime.
    Limits,
    /// Access.
    Access,
    /// State and logs.
    State,
    /// Options of a request.
    Request,
    /// Set by who builds an engine in code; no flag.
    Engine,
    /// A fact about the model or the machine: not an option to set.
    Fact,
}

impl Group {
    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Addresses => "Addresses",
            Self::Machine => "Model and machine",
            Self::Speculation => "Speculation",
            Self::Limits => "Limits and lifetime",
            Self::Access => "Access",
            Self::State => "State and logs",
            Self::Request => "Requests",
            Self::Engine => "In code only",
            Self::Fact => "Facts",
        }
    }
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// Its field and keyword.
    pub field: &'static str,
    /// What it does: a sentence, and further ones after an empty line.
    pub about: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What values its flag takes, where those are fewer.
    pub flag_kind: Kind,
    /// The value when nothing sets it.
    pub default: fn() -> Value,
    /// How the default is shown, where the value says too little.
    pub shown: Option<&'static str>,
    /// The unit of a number.
    pub unit: &'static str,
    /// The heading that it is shown under.
    pub group: Group,
    /// Its name in a configuration file, from which flag and variable derive.
    pub key: Option<&'static str>,
    /// The commands that know it.
    pub commands: &'static [&'static str],
    /// Whether `spectrie.LLM` takes it.
    pub is_keyword: bool,
    /// Whether it must be given.
    pub is_required: bool,
}

impl OptionRow {
    /// A row without name, places and text.
    pub(super) const fn new(group: Group, kind: Kind) -> Self {
        Self {
            field: "",
            about: "",
            kind,
            flag_kind: kind,
            default: || Value::None,
            shown: None,
            unit: "",
            group,
            key: None,
            commands: &[],
            is_keyword: false,
            is_required: false,
        }
    }

    /// Its name, text and default.
    pub(super) const fn named(
        mut self,
        field: &'static str,
        about: &'static str,
        default: fn() -> Value,
    ) -> Self {
        self.field = field;
        self.about = about.trim_ascii();
        self.default = default;
        self
    }

    /// The unit of its numbers.
    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// How its default is shown.
    pub(super) const fn shown(mut self, shown: &'static str) -> Self {
        self.shown = Some(shown);
        self
    }

    /// `commands` know it under its key.
    pub(super) const fn flag(
        mut self,
        key: &'static str,
        commands: &'static [&'static str],
    ) -> Self {
        self.key = Some(key);
        self.commands = commands;
        self
    }

    /// Its flag takes whole numbers or numbers of this range alone.
    pub(super) const fn flag_range(mut self, low: f64, high: f64) -> Self {
        let range = Range::new(low, high);
        self.flag_kind = match self.kind {
            Kind::Integer(_) => Kind::Integer(range),
            _ => Kind::Number(range),
        };
        self
    }

    /// `spectrie.LLM` takes it.
    pub(super) const fn keyword(mut self) -> Self {
        self.is_keyword = true;
        self
    }

    /// It must be given.
    pub(super) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// What is allowed, in words that end the sentence "allowed ...".
    #[must_use]
    pub fn allowed(&self) -> String {
        match self.kind.range() {
            Some(range) => range.text(),
            None => self.kind.allowed(),
        }
    }

    /// Whether its range holds `number`.
    #[must_use]
    pub fn allows(&self, number: f64) -> bool {
        self.kind.range().is_none_or(|range| range.holds(number))
    }

    /// Adds `value` to `violations` unless it is taken; none is where the default is none.
    pub(super) fn check(&self, value: &Value, violations: &mut Violations) {
        let is_absent = *value == Value::None && (self.default)() == Value::None;
        if is_absent || self.kind.takes(value) {
            return;
        }
        let allowed = match value.number() {
            Some(_) => self.allowed(),
            None => self.kind.allowed(),
        };
        violations.refuse(self.field, value, allowed);
    }

    /// Why `number` cannot be taken: what was given and what is allowed.
    #[must_use]
    pub fn refusal(&self, number: f64) -> Option<String> {
        (!self.allows(number)).then(|| {
            format!(
                "given {}; allowed: {}",
                Value::Number(number),
                self.allowed()
            )
        })
    }

    /// The default as it is shown: `10s`, `256MiB`, `none`, or words where the value says too
    /// little.
    #[must_use]
    pub fn default_text(&self) -> String {
        if let Some(shown) = self.shown {
            return shown.to_owned();
        }
        match ((self.default)(), self.kind) {
            (Value::Number(seconds), Kind::Duration(_)) => {
                let minutes = seconds / 60.0;
                if minutes >= 1.0 && minutes.fract() == 0.0 {
                    format!("{minutes}m")
                } else {
                    format!("{seconds}s")
                }
            }
            (Value::Integer(bytes), Kind::Size) => format!("{}MiB", bytes >> 20),
            (Value::Text(text), _) => text.into_owned(),
            (Value::List(_), _) => "none".into(),
            (value, _) => value.to_string(),
        }
    }

    /// What it does, in one sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let first = self.about.split("\n\n").next().unwrap_or_default();
        joined(first)
    }

    /// What it does, whole: one line for each paragraph.
    #[must_use]
    pub fn paragraphs(&self) -> Vec<String> {
        self.about.split("\n\n").map(joined).collect()
    }
}

/// The lines of a paragraph as one.
fn joined(paragraph: &str) -> String {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    words.join(" ")
}
