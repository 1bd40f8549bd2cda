//! Sections whose keys stand by themselves: one table gives the type, the keys, the reading and the writing.
//!
//! A key is one entry of [`super::sections`]. From it come the field of the checked type and its doc comment, the row of the
//! key table (and with it the schema, the reference page and the misspelling check), the default, the line of the effective
//! configuration, and, where the entry says `restart`, the comparison that keeps the running value until a restart.

use std::path::PathBuf;
use std::time::Duration;

use figment::value::{Num, Value};

use super::yaml::{Yaml, quoted};
use crate::base::Strategy;
use crate::base::text::{parse_duration, print_duration};

/// A type that a key can have.
pub(super) trait Setting: Sized {
    /// The value of a key whose kind and range have been checked; `None` is an absent key.
    ///
    /// Returns `None` for a value of another kind, and for an absent key that needs a value.
    fn read(value: Option<&Value>) -> Option<Self>;

    /// The value as YAML on one line; `None` leaves the key out.
    fn write(&self) -> Option<String>;
}

/// A whole section of such keys.
pub(super) trait Section: Sized {
    /// Writes every key that has a value.
    fn write(&self, yaml: &mut Yaml);

    /// Takes over the keys that cannot change while the program runs, and adds the paths of those that differ to `fixed`.
    fn keep_fixed(&mut self, running: &Self, fixed: &mut Vec<&'static str>);
}

/// Writes a section with all its keys.
pub(super) fn write_section(yaml: &mut Yaml, key: &str, section: &impl Section) {
    yaml.section(key, |yaml| section.write(yaml));
}

impl Setting for bool {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.to_bool()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

macro_rules! whole_numbers {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            fn read(value: Option<&Value>) -> Option<Self> {
                value?.to_u128()?.try_into().ok()
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}

whole_numbers!(u16, u32, u64, usize);

impl Setting for f64 {
    #[expect(clippy::cast_precision_loss, reason = "configured numbers are far below 2^53")]
    fn read(value: Option<&Value>) -> Option<Self> {
        let Value::Num(_, number) = value? else { return None };
        match number {
            Num::F32(_) | Num::F64(_) => number.to_f64(),
            _ => number.to_u128().map(|number| number as Self),
        }
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for Duration {
    fn read(value: Option<&Value>) -> Option<Self> {
        parse_duration(value?.as_str()?).ok()
    }

    fn write(&self) -> Option<String> {
        Some(print_duration(*self))
    }
}

impl Setting for String {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_str().map(str::to_owned)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Setting for PathBuf {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_str().map(Self::from)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self.display()))
    }
}

impl Setting for Strategy {
    fn read(value: Option<&Value>) -> Option<Self> {
        Self::parse(value?.as_str()?).ok()
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Setting for Vec<String> {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }

    fn write(&self) -> Option<String> {
        let items: Self = self.iter().map(quoted).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(_) => T::read(value).map(Some),
        }
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(Setting::write)
    }
}

/// The default of an entry: a text, or `none`.
macro_rules! default_of {
    (none) => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}
pub(super) use default_of;

/// Keeps the running value of an entry that says `restart`.
macro_rules! keep {
    ($path:expr, $new:expr, $running:expr, $fixed:ident, restart) => {
        if $new != $running {
            $fixed.push($path);
            $new.clone_from(&$running);
        }
    };
    ($path:expr, $new:expr, $running:expr, $fixed:ident,) => {};
}
pub(super) use keep;

/// Declares a section: its type, its path, and an entry a key: `name: type = kind, default, unit, meaning [, restart];`.
///
/// `..` is a section within this one. `+` adds a field that is checked against other keys: its row is in `keys/rows.rs`, and the
/// rules of the section in `check/` fill it in.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $type:ident at $at:literal {
            $(
                $field:ident: $of:ty = $kind:expr, $default:tt, $unit:literal, $doc:literal $(, $when:ident)?;
            )*
            $( .. $inner:ident: $inner_of:ty; )*
            $( + $(#[$other_meta:meta])* $other:ident: $other_of:ty; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $type {
            $( #[doc = $doc] pub $field: $of, )*
            $( #[doc = concat!("The section `", stringify!($inner), "` within.")] pub $inner: $inner_of, )*
            $( $(#[$other_meta])* pub $other: $other_of, )*
        }

        impl $type {
            /// The rows of the section in the key table.
            pub(super) const KEYS: &'static [Key] = &[$(
                Key {
                    path: concat!($at, ".", stringify!($field)),
                    kind: $kind,
                    default: default_of!($default),
                    unit: $unit,
                    doc: $doc,
                    honoured: true,
                },
            )*];
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let section = Dict::deserialize(deserializer)?;
                Ok(Self {
                    $( $field: Setting::read(section.get(stringify!($field)))
                        .ok_or_else(|| D::Error::custom(concat!($at, ".", stringify!($field))))?, )*
                    $( $inner: section.get(stringify!($inner))
                        .and_then(|inner| inner.deserialize().ok())
                        .ok_or_else(|| D::Error::custom(concat!($at, ".", stringify!($inner))))?, )*
                    $( $other: Default::default(), )*
                })
            }
        }

        impl Section for $type {
            fn write(&self, yaml: &mut Yaml) {
                $( yaml.plain_if(stringify!($field), Setting::write(&self.$field)); )*
                $( write_section(yaml, stringify!($inner), &self.$inner); )*
            }

            #[allow(unused_variables, reason = "a section may have no key that waits for a restart")]
            fn keep_fixed(&mut self, running: &Self, fixed: &mut Vec<&'static str>) {
                $( keep!(concat!($at, ".", stringify!($field)), self.$field, running.$field, fixed, $($when)?); )*
            }
        }
    };
}
pub(super) use section;
