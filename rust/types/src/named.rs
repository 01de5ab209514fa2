//! Enums whose variants have names, and some of them numbers.

/// An enum with the name of each variant. `: u8` after its own name gives it numbers, a text in
/// parentheses what a name is said to be of where it is read.
macro_rules! named {
    (
        $(#[$about:meta])+
        pub enum $name:ident $(: $number:ident)? $(($what:literal))? {
            $( $(#[$doc:meta])+ $variant:ident $(= $value:literal)? => $text:literal, )+
        }
    ) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $( #[repr($number)] )?
        pub enum $name {
            $( $(#[$doc])+ $variant $(= $value)?, )+
        }

        impl $name {
            /// Every variant, in the order of the declaration.
            pub const ALL: [Self; Self::NAMES.len()] = [ $(Self::$variant),+ ];

            /// Every name, in the same order.
            pub const NAMES: [&'static str; [$($text),+].len()] = [ $($text),+ ];

            /// The name used in options, JSON and metrics; Python's members have it in upper case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )+
                }
            }

            $(
                /// The number on the wire.
                #[must_use]
                pub const fn number(self) -> $number {
                    self as $number
                }
            )?
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $(
            impl std::str::FromStr for $name {
                type Err = $crate::UnknownName;

                fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                    let mut all = Self::ALL.into_iter();
                    all.find(|one| one.name() == name)
                        .ok_or_else(|| $crate::UnknownName::new($what, name, Self::NAMES))
                }
            }
        )?
    };
}

pub(crate) use named;
