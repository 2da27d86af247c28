//! Servers that nobody here wrote, as they come from Debian and with their own ways of ending on SIGTERM.
//!
//! Each answers `<version> …` on every path at port 8080; its configuration is in `tests/e2e/servers`.

mod databases;
pub(crate) mod debian;
mod upgrade;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use hitless_cluster::Cluster;
use hitless_cluster::image::ImageSpec;
use sha2::{Digest as _, Sha256};

pub use upgrade::{Outcome, Way, upgrade};

use crate::app::LONGEST_HOLD;
use crate::build::workspace;

/// The versions of which images are made.
const VERSIONS: [&str; 2] = ["v1", "v2"];
/// Where jetty's classes are.
const JARS: &str = "/usr/share/java/jetty9-server.jar:/usr/share/java/jetty9-util.jar:/usr/share/java/jetty9-http.jar:\
                    /usr/share/java/jetty9-io.jar:/usr/share/java/jetty9-xml.jar:/usr/share/java/servlet-api.jar";
/// What the packages' own scripts do for Python when they are installed; without it each start compiles everything. Files in
/// an image have other times than here, so the result may not depend on them.
const COMPILE: &[&str] =
    &["/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/usr/lib"];

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Its name: of the directory with its configuration, of its image, and for people.
    pub name: &'static str,
    /// What it does on SIGTERM.
    pub on_sigterm: &'static str,
    /// Debian packages; the first one is the server, whose version is told.
    packages: &'static [&'static str],
    /// Run once in the root file system after it was unpacked.
    prepare: &'static [&'static str],
    /// The container's command; `VERSION` stands for the version.
    command: &'static [&'static str],
    /// `terminationGracePeriodSeconds`, if it has to be killed at its end: the default of 30 is long to wait for.
    grace_seconds: Option<u32>,
    /// `holdCapMilliseconds`, if it takes longer to end and to start than the default allows on a busy machine.
    pub hold_cap_ms: Option<u32>,
}

/// All that speak HTTP/1.1.
pub const SERVERS: [Server; 9] = [
    Server {
        name: "nginx",
        on_sigterm: "cuts everything off",
        packages: &["nginx-light"],
        prepare: &[],
        command: &["/usr/sbin/nginx", "-e", "stderr", "-g", "daemon off; user root;", "-c", "/srv/VERSION.conf"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "haproxy",
        on_sigterm: "cuts everything off",
        packages: &["haproxy"],
        prepare: &[],
        command: &["/usr/sbin/haproxy", "-W", "-db", "-f", "/srv/haproxy.cfg"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "caddy",
        on_sigterm: "finishes requests",
        packages: &["caddy"],
        prepare: &[],
        command: &["/usr/bin/caddy", "run", "--config", "/srv/Caddyfile", "--adapter", "caddyfile"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "node",
        on_sigterm: "cuts everything off",
        packages: &["nodejs", "tini"],
        prepare: &[],
        command: &["/usr/bin/tini", "--", "/usr/bin/node", "/srv/server.js"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "node-deaf",
        on_sigterm: "nothing: process 1 without a handler",
        packages: &["nodejs", "tini"],
        prepare: &[],
        command: &["/usr/bin/node", "/srv/server.js"],
        grace_seconds: Some(4),
        hold_cap_ms: None,
    },
    Server {
        name: "gunicorn",
        on_sigterm: "finishes requests",
        packages: &["gunicorn"],
        prepare: COMPILE,
        command: &["/usr/bin/gunicorn", "--bind", ":8080", "--workers", "2", "app:app"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "gunicorn-threads",
        on_sigterm: "finishes requests, takes 1 s and more",
        packages: &["gunicorn"],
        prepare: COMPILE,
        command: &["/usr/bin/gunicorn", "--bind", ":8080", "--workers", "2", "--threads", "4", "app:app"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "uvicorn",
        on_sigterm: "finishes requests",
        packages: &["uvicorn"],
        prepare: COMPILE,
        command: &["/usr/bin/uvicorn", "--host", "0.0.0.0", "--port", "8080", "--no-access-log", "app:app"],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
    Server {
        name: "jetty",
        on_sigterm: "finishes requests",
        packages: &["libjetty9-java", "openjdk-17-jre-headless"],
        prepare: &[],
        command: &[
            "/usr/lib/jvm/java-17-openjdk-amd64/bin/java",
            "-cp",
            JARS,
            "org.eclipse.jetty.xml.XmlConfiguration",
            "/srv/server.xml",
        ],
        grace_seconds: None,
        hold_cap_ms: Some(LONGEST_HOLD),
    },
];

impl Server {
    /// The server of that name that speaks HTTP/1.1.
    pub fn named(name: &str) -> anyhow::Result<&'static Self> {
        let names: Vec<&str> = SERVERS.iter().map(|server| server.name).collect();
        SERVERS
            .iter()
            .find(|server| server.name == name)
            .with_context(|| format!("there is no server {name:?}, but {}", names.join(", ")))
    }

    /// The server of which that is the image, without registry and tag; whatever it speaks.
    #[must_use]
    pub fn with_image(repository: &str) -> Option<&'static Self> {
        SERVERS.iter().chain(&databases::DATABASES).find(|server| server.repository() == repository)
    }

    /// Makes the root file system if it is not there yet; needs the machine's package mirror then.
    pub fn fetch(&self, progress: &dyn Fn(&str)) -> anyhow::Result<()> {
        let directory = self.directory();
        if directory.is_dir() {
            return Ok(());
        }
        progress(&format!("fetching {} and what it needs from Debian …", self.packages.join(", ")));
        let unfinished = directory.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        let root = unfinished.join("root");
        fs::create_dir_all(&root)?;
        let unpacked = debian::unpack(self.packages, &cache(), &root).with_context(|| format!("get {}", self.name))?;
        if let [program, arguments @ ..] = self.prepare {
            let status = Command::new("chroot")
                .arg(&root)
                .arg(program)
                .args(arguments)
                .env_clear()
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .status();
            let status = status.context("run chroot, which needs root")?;
            ensure!(status.success(), "{program} ended with {status} in the root file system of {}", self.name);
        }
        let main = unpacked.iter().find(|package| package.name == self.packages[0]);
        let main = main.with_context(|| format!("{} is not among what was unpacked", self.packages[0]))?;
        fs::write(unfinished.join("version"), &main.version)?;
        fs::rename(&unfinished, &directory)?;
        Ok(())
    }

    /// Debian's version of it.
    pub fn version(&self) -> anyhow::Result<String> {
        let file = self.directory().join("version");
        fs::read_to_string(&file)
            .with_context(|| format!("{} was not fetched ({}): `cargo xtask test` does it", self.name, file.display()))
    }

    /// Pushes the images of all versions into the cluster's registry.
    pub fn push(&self, cluster: &Cluster) -> anyhow::Result<()> {
        self.version()?;
        for version in VERSIONS {
            cluster.push_image(&format!("{}:{version}", self.repository()), &self.image(version).build()?)?;
        }
        Ok(())
    }

    /// Name of its images, without registry and tag.
    #[must_use]
    pub fn repository(&self) -> String {
        format!("server-{}", self.name)
    }

    fn image(&self, version: &str) -> ImageSpec {
        let sources = workspace().join("tests/e2e/servers");
        let configuration = sources.join(self.name.split('-').next().unwrap_or(self.name));
        let root = (self.directory().join("root"), "/".to_owned());
        let mut files = vec![root, (sources.join("base"), "/etc".to_owned())];
        // Some are told everything by their arguments.
        let is_configured = configuration.is_dir();
        files.extend(is_configured.then(|| (configuration, "/srv".to_owned())));
        ImageSpec {
            files,
            entrypoint: self.command.iter().map(|word| word.replace("VERSION", version)).collect(),
            working_directory: if is_configured { "/srv" } else { "/" }.to_owned(),
            ..ImageSpec::default()
        }
        .with_env("VERSION", version)
    }

    /// Where its root file system is kept, by all that decides about it. Two servers may share one.
    fn directory(&self) -> PathBuf {
        let recipe = format!("{:?}{:?}{}", self.packages, self.prepare, debian::recipe());
        cache().join(format!("{}-{:.8x}", self.packages[0], Sha256::digest(recipe)))
    }
}

/// Makes all root file systems; what is there is kept.
pub fn fetch_all(progress: &dyn Fn(&str)) -> anyhow::Result<()> {
    SERVERS.iter().try_for_each(|server| server.fetch(progress))
}

pub(crate) fn cache() -> PathBuf {
    workspace().join(".cache/servers")
}
