//! How much memory the process may use, as its control group says.

use std::fs::read_to_string;

/// The bound of clients' memory where the process has no limit: that of ten thousand connections with the longest
/// heads.
const UNBOUNDED: usize = 1 << 30;
/// Clients may hold one part in so many of the memory: the rest is for bodies, for regions, for the kernel and the
/// allocator.
const SHARE: usize = 3;
/// A limit above this is none: version 1 of control groups writes a huge number.
const LIMIT_MAX: usize = 1 << 50;

/// The default bound of clients' memory: a share of the control group's limit. Units: bytes.
#[must_use]
pub fn default_for_clients() -> usize {
    of_group().map_or(UNBOUNDED, |limit| limit / SHARE)
}

/// The limit of our control group, of either version; none where there is none.
fn of_group() -> Option<usize> {
    let group = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = [
        group_of(&group, "").map(|path| format!("/sys/fs/cgroup{path}/memory.max")),
        group_of(&group, "memory").map(|path| format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")),
    ];
    // Inside a container the group is the root of the mounted hierarchy.
    let mounted = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"].map(str::to_owned);
    let paths = own.into_iter().flatten().chain(mounted);
    paths.filter_map(|path| limit_in(&read_to_string(path).ok()?)).min()
}

/// The path of the group in the hierarchy of version 1 that has this controller, or of version 2, which names none.
fn group_of<'t>(text: &'t str, controller: &str) -> Option<&'t str> {
    let path = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(path)
    });
    path.map(|path| path.trim_end_matches('/'))
}

fn limit_in(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|limit| *limit < LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_either_version_are_read_and_none_is_none() {
        assert_eq!(limit_in("268435456\n"), Some(256 << 20));
        assert_eq!((limit_in("max\n"), limit_in("9223372036854771712\n"), limit_in("")), (None, None, None));
        let both = "12:cpu:/a:memory:/b\n3:memory:/a\n0::/pod/one\n";
        assert_eq!((group_of(both, ""), group_of(both, "memory")), (Some("/pod/one"), Some("/a")));
        assert_eq!((group_of("0::/\n", ""), group_of("0::/\n", "memory")), (Some(""), None));
    }
}
