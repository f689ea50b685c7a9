//! A network with loopback only.
//!
//! The command runs itself again in a network namespace. A real client can then reach the fake API and nothing else,
//! whatever its settings are.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::tools::which;

/// Set in the run inside the namespace.
const INSIDE: &str = "RETHREAD_REAL_CLIENT_INSIDE";

/// Returns whether this is the run inside the namespace.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Returns the `unshare` arguments that work here: as any user, or as root where users may not create namespaces.
pub(crate) fn namespace() -> Result<Vec<&'static str>> {
    which("unshare").context("no network namespace")?;
    which("ip").context("no network namespace")?;
    which("timeout").context("no time limit")?;
    let candidates = [vec!["--user", "--map-root-user", "--net"], vec!["--net"]];
    let works = |unshare_args: &Vec<&str>| {
        let status = Command::new("unshare")
            .args(unshare_args)
            .args(["--", "ip", "link", "set", "lo", "up"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    candidates
        .into_iter()
        .find(works)
        .context("this system allows no network namespace (unshare --user --net)")
}

/// Runs `real-client` with these arguments inside the namespace.
pub(crate) fn enter(unshare_args: &[&str], args: &[String], env: &[(&str, &OsStr)]) -> Result<ExitStatus> {
    Command::new("unshare")
        .args(unshare_args)
        .arg("--")
        .arg(std::env::current_exe()?)
        .arg("real-client")
        .args(args)
        .envs(env.iter().copied())
        .env(INSIDE, "1")
        .status()
        .context("unshare")
}

/// Brings loopback up and checks that there is no other interface.
pub(crate) fn check() -> Result<()> {
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).stdin(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        bail!("cannot bring loopback up (ip link set lo up)");
    }
    // Not /sys/class/net, which shows the network of the process that mounted it.
    let devices = fs::read_to_string("/proc/self/net/dev").context("/proc/self/net/dev")?;
    match interfaces(&devices)[..] {
        ["lo"] => Ok(()),
        ref others => bail!("expected loopback only, found: {}", others.join(", ")),
    }
}

fn interfaces(devices: &str) -> Vec<&str> {
    // Two header lines, then one line per interface: its name, a colon, its counts.
    devices.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::interfaces;

    #[test]
    fn every_interface_is_listed() {
        let devices = "Inter-|   Receive\n face |bytes    packets\n    lo:       0       0\n  eth0: 42 1\n";
        assert_eq!(interfaces(devices), ["lo", "eth0"]);
    }
}
