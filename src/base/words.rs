//! Closed sets of words, as one list each.

/// Makes enums out of words: the enum, all its values, and the word of each.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$value_doc])* $value,)+ }

        impl $name {
            /// Every value, in the order of their numbers.
            #[allow(dead_code, reason = "the program walks some of these lists only")]
            pub const ALL: [Self; [$(Self::$value,)+].len()] = [$(Self::$value,)+];

            /// The value as answers, metrics and logs spell it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }
    )+};
}

pub(crate) use words;
