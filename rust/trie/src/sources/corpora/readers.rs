//! The namespaces that may draft from a corpus.

/// The namespaces that may draft from a corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Every namespace. The default.
    #[default]
    All,
    /// These namespaces only, whether they exist yet or not.
    Namespaces(Vec<String>),
}

impl Readers {
    /// Returns true if `namespace` may read.
    pub fn include(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(names) => names.iter().any(|name| name == namespace),
        }
    }
}
