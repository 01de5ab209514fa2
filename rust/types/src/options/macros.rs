//! Tables from which a struct, its defaults and its checks are made.

/// A struct whose fields are options, one line each: what the field is, its type, its default, and
/// its row. Fields after `also` are no options and have their type's default.
///
/// `macro name $;` in front names a macro that calls another one with all options, for code that
/// treats them alike.
macro_rules! options {
    (macro $each:ident $dollar:tt; $($table:tt)+) => {
        options! { @each $each $dollar; $($table)+ }
        options! { $($table)+ }
    };
    (
        @each $each:ident $dollar:tt;
        $(#[doc = $about:literal])+
        pub struct $name:ident;
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:expr => $row:expr;
        )+
        $(also $(#[doc = $also_doc:literal])+ $also:ident: $also_type:ty;)*
    ) => {
        /// Calls a macro with its other arguments, `;` and every option as `name: type,`.
        #[macro_export]
        macro_rules! $each {
            ($dollar then:ident $dollar (, $dollar more:expr)*) => {
                $dollar then! { $dollar ($dollar more),*; $($field: $type,)+ }
            };
        }
    };
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident;
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:expr => $row:expr;
        )+
        $(also $(#[doc = $also_doc:literal])+ $also:ident: $also_type:ty;)*
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )+
            $( $(#[doc = $also_doc])+ pub $also: $also_type, )*
        }

        impl $name {
            /// The table.
            #[must_use]
            pub fn rows() -> &'static [$crate::options::OptionRow] {
                use $crate::options::{OptionRow, OptionValue};
                static ROWS: &[OptionRow] = &[
                    $( $row.named(
                        stringify!($field),
                        concat!($($doc, "\n"),+),
                        || <$type as OptionValue>::write(&$default),
                    ), )+
                ];
                ROWS
            }

            /// Every option at its default, required ones at none that is allowed.
            pub(crate) fn defaults() -> Self {
                Self { $( $field: $default, )+ $( $also: Default::default(), )* }
            }

            /// The options given by name, the others at their defaults.
            ///
            /// # Errors
            /// Every name that is unknown or missing, every value of a wrong type or out of range.
            pub fn from_values(
                values: impl IntoIterator<Item = (String, $crate::options::Value)>,
            ) -> Result<Self, $crate::options::Violations> {
                use $crate::options::{OptionRow, OptionValue, check};
                let rows: Vec<&OptionRow> = Self::rows().iter().collect();
                let values: Vec<_> = values.into_iter().collect();
                let mut violations = check(&rows, &values);
                let mut options = Self::defaults();
                for (name, value) in &values {
                    let is_read = match name.as_str() {
                        $( stringify!($field) => <$type as OptionValue>::read(value)
                            .map(|value| options.$field = value)
                            .is_some(), )+
                        _ => true,
                    };
                    if !is_read && !violations.0.iter().any(|known| known.name == *name) {
                        violations.refuse(name, value, "what fits its type");
                    }
                }
                violations.check().map(|()| options)
            }

            /// Every option that is out of its range.
            #[must_use]
            pub fn violations(&self) -> $crate::options::Violations {
                use $crate::options::{OptionValue, Violations};
                let mut violations = Violations::default();
                let values = [ $( self.$field.write(), )+ ];
                for (row, value) in Self::rows().iter().zip(values) {
                    row.check(&value, &mut violations);
                }
                violations
            }
        }
    };
}

/// A table of options that no struct holds.
macro_rules! rows {
    (
        $(#[doc = $about:literal])+
        pub static $name:ident;
        $(
            $(#[doc = $doc:literal])+
            $field:ident = $default:expr => $row:expr;
        )+
    ) => {
        $(#[doc = $about])+
        pub static $name: &[$crate::options::OptionRow] = &[
            $( $row.named(stringify!($field), concat!($($doc, "\n"),+), || $default), )+
        ];
    };
}

pub(crate) use {options, rows};
