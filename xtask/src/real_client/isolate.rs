//! A network that has nothing but loopback.
//!
//! The command runs itself again in a network namespace of its own. A real client can then reach the
//! stand-in for the API and nothing else, whatever its settings say.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::bench::which;

/// Set in the second run.
const INSIDE: &str = "RETHREAD_REAL_CLIENT_INSIDE";

/// Tells whether this is the second run.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Finds how to get a namespace here: as any user, or as root where users may not have one.
pub(crate) fn namespace() -> Result<Vec<&'static str>> {
    which("unshare").context("no network of its own")?;
    which("ip").context("no network of its own")?;
    which("timeout").context("no limit of time")?;
    let ways = [vec!["--user", "--map-root-user", "--net"], vec!["--net"]];
    let works = |way: &Vec<&str>| {
        let status = Command::new("unshare")
            .args(way)
            .args(["--", "ip", "link", "set", "lo", "up"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    ways.into_iter().find(works).context("this system gives no network of its own (unshare --user --net)")
}

/// Runs `real-client` with these arguments inside.
pub(crate) fn enter(way: &[&str], args: &[String], env: &[(&str, &OsStr)]) -> Result<ExitStatus> {
    Command::new("unshare")
        .args(way)
        .arg("--")
        .arg(std::env::current_exe()?)
        .arg("real-client")
        .args(args)
        .envs(env.iter().copied())
        .env(INSIDE, "1")
        .status()
        .context("unshare")
}

/// Brings loopback up and makes sure that there is nothing else.
pub(crate) fn check() -> Result<()> {
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).stdin(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        bail!("loopback does not come up (ip link set lo up)");
    }
    // Not /sys/class/net: that shows the network of whoever mounted it.
    let devices = fs::read_to_string("/proc/self/net/dev").context("/proc/self/net/dev")?;
    match interfaces(&devices)[..] {
        ["lo"] => Ok(()),
        ref others => bail!("the network should be loopback alone and has: {}", others.join(", ")),
    }
}

fn interfaces(devices: &str) -> Vec<&str> {
    // Two lines of heading, then a line for each: its name, a colon, its counts.
    devices.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::interfaces;

    #[test]
    fn every_interface_is_seen() {
        let devices = "Inter-|   Receive\n face |bytes    packets\n    lo:       0       0\n  eth0: 42 1\n";
        assert_eq!(interfaces(devices), ["lo", "eth0"]);
    }
}
