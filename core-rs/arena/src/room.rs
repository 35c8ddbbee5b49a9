//! Whether there is memory for an arena. Asked before it is taken: the system finds memory until there is none at all, and
//! then kills a process, not always this one.

use std::fs::read_to_string;
use std::path::Path;

use rustix::io::Errno;

use crate::error::ArenaError;

/// That the machine, and the container or service that this process is in, can give so many bytes now.
pub(crate) fn require_room(bytes: u64) -> Result<(), ArenaError> {
    let found = [machine(), group()].into_iter().flatten().min();
    match found {
        Some(free) if free < bytes => Err(ArenaError::OutOfMemory {
            bytes,
            error: Errno::NOMEM,
        }),
        _ => Ok(()),
    }
}

fn machine() -> Option<u64> {
    available(&read_to_string("/proc/meminfo").ok()?)
}

/// Of `/proc/meminfo`: what can be had without swapping.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn group() -> Option<u64> {
    let own = read_to_string("/proc/self/cgroup").ok()?;
    // Version 2 has one line, `0::/path`. In a container the path is `/`, and so are the group's files.
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(own);
    left(
        &read_to_string(folder.join("memory.max")).ok()?,
        &read_to_string(folder.join("memory.current")).ok()?,
    )
}

/// Of a group's limit and use; none without a limit.
fn left(limit: &str, used: &str) -> Option<u64> {
    let limit: u64 = limit.trim().parse().ok()?;
    let used: u64 = used.trim().parse().ok()?;
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_what_the_system_says() {
        let said = "MemTotal:       24673140 kB\nMemAvailable:   23106244 kB\nCached: 1 kB\n";
        assert_eq!(available(said), Some(23_106_244 * 1024));
        assert_eq!(available("MemFree: 7 kB\n"), None);
    }

    #[test]
    fn a_group_without_a_limit_has_none() {
        assert_eq!(left("max\n", "5\n"), None);
        assert_eq!(left("100\n", "30\n"), Some(70));
        assert_eq!(left("100\n", "130\n"), Some(0));
    }

    #[test]
    fn more_than_any_machine_has_is_refused() {
        assert!(require_room(1 << 46).is_err());
        assert!(require_room(4096).is_ok());
    }
}
