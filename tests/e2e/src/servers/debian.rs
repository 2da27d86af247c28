//! A root file system made of Debian packages, without installing anything: apt resolves and downloads, `dpkg-deb` unpacks.
//!
//! apt is asked with a private and nearly empty list of what is installed, and only by verbs that never install.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

/// Said to be installed already: only maintainer scripts, which do not run here, and programs of the desktop need them.
const NOT_NEEDED: [&str; 39] = [
    "adduser",
    "ca-certificates",
    "ca-certificates-java",
    "debconf",
    "dpkg",
    "fontconfig-config",
    "init-system-helpers",
    "iproute2",
    "java-common",
    "libasound2",
    "libcups2",
    "libfontconfig1",
    "libfreetype6",
    "libglib2.0-0",
    "libharfbuzz0b",
    "libjpeg62-turbo",
    "liblcms2-2",
    "libllvm14",
    "libnss3",
    "libnss3-tools",
    "libpcsclite1",
    "locales",
    "lsb-base",
    "mailcap",
    "media-types",
    "openssl",
    "passwd",
    "perl",
    "postgresql-client-common",
    "postgresql-common",
    "procps",
    "readline-common",
    "sensible-utils",
    "ssl-cert",
    "sysvinit-utils",
    "tar",
    "ucf",
    "usrmerge",
    "util-linux",
];
/// Directories that no server reads.
const PAPERS: [&str; 5] = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/info"];
/// Since Debian 12 the former is a link to the latter; packages may still say either.
const MERGED: [(&str, &str); 4] =
    [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")];

/// Made by no package that is unpacked here, and expected by all.
const EMPTY: [&str; 2] = ["run", "tmp"];

/// One package that is needed, as apt has chosen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// What decides about the content besides the packages' names.
pub(crate) fn recipe() -> String {
    format!("{NOT_NEEDED:?}{PAPERS:?}{MERGED:?}{EMPTY:?}")
}

/// Unpacks `packages` and what they need into `root`; downloads go through `cache`. Returns what was unpacked.
///
/// # Errors
/// Without apt and dpkg-deb, or if a package can't be found or downloaded.
pub(crate) fn unpack(packages: &[&str], cache: &Path, root: &Path) -> anyhow::Result<Vec<Package>> {
    fs::create_dir_all(cache.join("debs"))?;
    fs::write(cache.join("status"), status())?;
    let all = match download(packages, cache) {
        Ok(all) => all,
        // The lists of a machine that was made a while ago name packages that are no more.
        Err(stale) => {
            output(Command::new("apt-get").arg("update")).context(format!("{stale:#}; then"))?;
            download(packages, cache)?
        }
    };
    for (link, to) in MERGED {
        fs::create_dir_all(root.join(to))?;
        symlink(to, root.join(link))?;
    }
    for package in &all {
        let file = downloaded(cache, package)?.with_context(|| format!("{} was not downloaded", package.name))?;
        output(Command::new("dpkg-deb").arg("-x").arg(file).arg(root))?;
    }
    for papers in PAPERS {
        let directory = root.join(papers);
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
    }
    for directory in EMPTY {
        fs::create_dir_all(root.join(directory))?;
    }
    Ok(all)
}

/// Downloads what is not there yet; the closure of `packages`.
fn download(packages: &[&str], cache: &Path) -> anyhow::Result<Vec<Package>> {
    let plan = output(apt(cache).arg("--simulate").arg("install").args(packages))?;
    let all: Vec<Package> = plan.lines().filter_map(chosen).collect();
    ensure!(!all.is_empty(), "apt-get has nothing to say about {}:\n{plan}", packages.join(", "));
    let mut missing = Vec::new();
    for package in &all {
        if downloaded(cache, package)?.is_none() {
            missing.push(format!("{}={}", package.name, package.version));
        }
    }
    if !missing.is_empty() {
        // apt checks each against the signed lists.
        output(apt(cache).arg("download").args(&missing).current_dir(cache.join("debs")))?;
    }
    Ok(all)
}

/// `Inst libc6 (2.36-9 Debian:12/stable [amd64])`, as `apt-get --simulate install` prints.
fn chosen(line: &str) -> Option<Package> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
    let version = rest.split_once('(')?.1.split(' ').next()?;
    Some(Package { name: name.to_owned(), version: version.to_owned() })
}

/// The downloaded file: apt writes a colon in its name as `%3a`.
fn downloaded(cache: &Path, package: &Package) -> anyhow::Result<Option<PathBuf>> {
    let start = format!("{}_{}_", package.name, package.version.replace(':', "%3a"));
    let directory = cache.join("debs");
    for entry in fs::read_dir(&directory).with_context(|| format!("list {}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&start) && name.ends_with(".deb") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// apt-get that takes nothing but [`NOT_NEEDED`] for installed.
fn apt(cache: &Path) -> Command {
    let mut command = Command::new("apt-get");
    let private = |option: &str, file: &str| format!("{option}={}", cache.join(file).display());
    command.args(["-o", &private("Dir::State::status", "status")]);
    command.args(["-o", &private("Dir::State::extended_states", "extended_states")]);
    command.args(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
    command.args(["-o", "APT::Install-Recommends=false", "-o", "APT::Sandbox::User=root"]);
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn status() -> String {
    let entry = |name: &&str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nMaintainer: nobody\nArchitecture: all\nMulti-Arch: foreign\n\
             Version: 99:0\nDescription: not needed\n\n"
        )
    };
    NOT_NEEDED.iter().map(entry).collect()
}

/// Runs it; an error says what it said.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| {
        format!("{program} can't be run: other people's servers are taken from Debian packages, which needs a Debian or Ubuntu")
    })?;
    if !done.status.success() {
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        bail!(
            "`{program} {}` failed, so other people's servers can't be had: {}",
            words.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apt_has_chosen_is_read_from_its_plan() {
        let package = |name: &str, version: &str| Some(Package { name: name.into(), version: version.into() });
        assert_eq!(chosen("Inst libc6 (2.36-9 Debian:12/stable [amd64])"), package("libc6", "2.36-9"));
        assert_eq!(chosen("Inst zlib1g [1:1] (1:1.2 Debian:12/stable [amd64]) []"), package("zlib1g", "1:1.2"));
        assert_eq!(chosen("Conf libc6 (2.36-9 Debian:12/stable [amd64])"), None);
        assert_eq!(chosen("Reading package lists..."), None);
    }
}
