//! What to type next.

use std::path::PathBuf;

use hitless_e2e::stack::REGISTRY;

use super::NAMESPACE;

/// Where the demo was.
pub(super) enum Hints {
    /// On a cluster that was made for it.
    Made { name: String },
    /// On somebody's own; `plugin` is the directory of the plugin.
    Own { kubeconfig: PathBuf, image: String, plugin: PathBuf },
}

impl Hints {
    /// After the demo has removed what it made.
    pub(super) fn print_next(&self) {
        println!("\nNext:");
        match self {
            Self::Made { .. } => {
                println!(
                    "  cargo xtask demo --keep   # leaves the cluster and the Deployment, and says how to use them"
                );
                println!("  cargo xtask test          # every test, on a real cluster too");
            }
            Self::Own { .. } => println!("  the same with --keep leaves the Deployment, and says how to use it"),
        }
    }

    /// With `--keep`.
    pub(super) fn print_kept(&self) {
        eprintln!("\nDeployment web in namespace {NAMESPACE} is still there. Try (`status -w` in a second terminal):");
        for line in self.kept() {
            eprintln!("  {line}");
        }
    }

    /// The commands, each as it can be typed in the directory of this repository.
    fn kept(&self) -> Vec<String> {
        let (first, run, image, end) = match self {
            Self::Made { name } => (
                None,
                format!("cargo xtask cluster exec --name {name} -- kubectl"),
                format!("{REGISTRY}/echo"),
                format!("cargo xtask cluster down --name {name}"),
            ),
            Self::Own { kubeconfig, image, plugin } => (
                Some(format!("export KUBECONFIG={} PATH={}:$PATH", kubeconfig.display(), plugin.display())),
                "kubectl".to_owned(),
                image.clone(),
                format!("kubectl delete namespace {NAMESPACE}"),
            ),
        };
        let commands = [
            format!("{run} hitless status -n {NAMESPACE} -w"),
            format!("{run} -n {NAMESPACE} set image deployment/web web={image}:v1"),
            format!("{run} hitless wait deployment/web -n {NAMESPACE}"),
            format!("{run} hitless why deployment/web -n {NAMESPACE}"),
            format!("{run} -n {NAMESPACE} get pods -o wide"),
            end,
        ];
        first.into_iter().chain(commands).collect()
    }
}
