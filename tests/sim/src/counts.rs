//! Things that are counted in a run.

/// An enum, and how often each of its variants happened.
macro_rules! counted {
    ($(#[$meta:meta])* $of:ident, $(#[$counts_meta:meta])* $counts:ident { $($name:ident: $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $of {
            $(#[doc = $text] $name,)*
        }

        impl $of {
            const ALL: &[(Self, &'static str)] = &[$((Self::$name, $text),)*];
        }

        $(#[$counts_meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $counts([u64; $of::ALL.len()]);

        impl Default for $counts {
            fn default() -> Self {
                Self([0; $of::ALL.len()])
            }
        }

        impl $counts {
            pub(crate) fn add(&mut self, what: $of) {
                self.0[what as usize] += 1;
            }

            /// How often this happened.
            #[must_use]
            pub fn of(&self, what: $of) -> u64 {
                self.0[what as usize]
            }

            /// Adds those of another run.
            pub fn merge(&mut self, other: &Self) {
                self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
            }

            /// What never happened.
            pub fn missing(&self) -> impl Iterator<Item = &'static str> {
                $of::ALL.iter().filter(|(what, _)| self.of(*what) == 0).map(|(_, text)| *text)
            }
        }

        impl std::fmt::Display for $counts {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for (what, text) in $of::ALL {
                    writeln!(f, "{:>10}  {text}", self.of(*what))?;
                }
                Ok(())
            }
        }
    };
}

pub(crate) use counted;

counted! {
    /// What happens around Holds.
    HoldEvent,
    /// How often each of these happened.
    HoldCounts {
        Granted: "Hold granted",
        Begun: "clients held",
        BegunBack: "clients held for the way back",
        LetIn: "clients let in by the new listener",
        Expired: "clients let in by the cap, before the new process listened",
        GivenUp: "clients let in before anything was replaced",
        Done: "Hold done",
        RolledBack: "Hold rolled back",
        Cancelled: "Hold cancelled",
        Refused: "Hold refused by its agent",
        Failed: "Hold failed",
        ServiceOpened: "Service opened",
        ServiceClosed: "Service closed, or left open as its owner wants it by now",
    }
}
