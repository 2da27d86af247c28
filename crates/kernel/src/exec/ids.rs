//! Who a process is.

use std::ffi::OsString;
use std::io;

use rustix::process::{Gid, Uid};

use crate::process::Process;

/// User, group and further groups of a process, as processes of its own user namespace count them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ids {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl Ids {
    /// `None` when the process is gone.
    pub(super) fn of(process: &Process) -> io::Result<Option<Self>> {
        let texts = (process.text("status")?, process.text("uid_map")?, process.text("gid_map")?);
        let (Some(status), Some(users), Some(groups)) = texts else { return Ok(None) };
        let ids = Self::parse(&status, &users, &groups);
        ids.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no user in /proc/<pid>/status"))
    }

    /// The effective ones.
    pub(crate) fn parse(status: &str, users: &str, groups: &str) -> Option<Self> {
        let numbers = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>()
        };
        let further = numbers("Groups:")?.into_iter().filter_map(|group| inside(groups, group));
        Some(Self {
            user: inside(users, *numbers("Uid:")?.get(1)?)?,
            group: inside(groups, *numbers("Gid:")?.get(1)?)?,
            groups: further.collect(),
        })
    }

    /// As a helper reads them.
    pub(crate) fn arguments(&self) -> [String; 3] {
        let groups = self.groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        [self.user.to_string(), self.group.to_string(), groups]
    }

    /// What [`Self::arguments`] has written.
    pub(crate) fn from_arguments(arguments: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || arguments.next()?.into_string().ok();
        let (user, group, groups) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?);
        let groups = groups.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().ok());
        Some(Self { user, group, groups: groups.collect::<Option<Vec<_>>>()? })
    }

    pub(super) fn user(&self) -> Uid {
        Uid::from_raw(self.user)
    }

    pub(super) fn group(&self) -> Gid {
        Gid::from_raw(self.group)
    }

    pub(super) fn groups(&self) -> Vec<Gid> {
        self.groups.iter().copied().map(Gid::from_raw).collect()
    }
}

/// An id of ours as the process itself counts, by its `uid_map`: lines of "inside, outside, count".
fn inside(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let offset = id.checked_sub(outside).filter(|offset| *offset < count)?;
        inside.checked_add(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: &str = "         0          0 4294967295\n";

    fn status(ids: &str, groups: &str) -> String {
        format!("Name:\tweb\nUid:\t{ids}\nGid:\t{ids}\nGroups:\t{groups}\nCapEff:\t0\n")
    }

    #[test]
    fn the_effective_user_and_all_groups_count() {
        let ids = Ids::parse(&status("0\t1000\t0\t0", "1000 2000 "), SAME, SAME).unwrap();
        assert_eq!(ids, Ids { user: 1000, group: 1000, groups: vec![1000, 2000] });
        let arguments = ids.arguments();
        assert_eq!(arguments, ["1000", "1000", "1000,2000"]);
        assert_eq!(Ids::from_arguments(&mut arguments.into_iter().map(OsString::from)), Some(ids));
        let alone = Ids::parse(&status("0\t0\t0\t0", ""), SAME, SAME).unwrap();
        assert_eq!(Ids::from_arguments(&mut alone.arguments().into_iter().map(OsString::from)), Some(alone));
        assert_eq!(Ids::parse("Name:\tweb\n", SAME, SAME), None);
    }

    #[test]
    fn in_a_user_namespace_ids_are_counted_as_the_process_counts_them() {
        let map = "0 100000 65536\n70000 5 1\n";
        assert_eq!(inside(map, 101_000), Some(1000));
        assert_eq!(inside(map, 5), Some(70_000));
        assert_eq!(inside(map, 165_536), None);
        let ids = Ids::parse(&status("100033\t100033\t100033\t100033", "100033 7"), map, map).unwrap();
        assert_eq!(ids, Ids { user: 33, group: 33, groups: vec![33] });
    }
}
