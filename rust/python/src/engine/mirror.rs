//! Python classes that show what a Rust struct holds.

/// A class with fields of a Rust struct: those of the same name, and those with a value of their
/// own.
macro_rules! mirror {
    (
        #[doc = $about:literal]
        pub(super) struct $name:ident of $source:ident: $type:ty {
            $( $field:ident: $field_type:ty $(= $value:expr)?, )+
        }
    ) => {
        #[doc = $about]
        #[pyclass(frozen, get_all, module = "spectrie._core")]
        pub(super) struct $name {
            $( $field: $field_type, )+
        }

        impl $name {
            pub(super) fn new($source: $type) -> Self {
                Self { $( $field: mirror!(@ $source.$field $(, $value)?), )+ }
            }
        }
    };
    (@ $same:expr) => { $same };
    (@ $same:expr, $value:expr) => { $value };
}

pub(super) use mirror;
