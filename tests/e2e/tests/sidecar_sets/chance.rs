//! Pods and SidecarSets by chance; the same number gives the same ones.

use hitless_api::InjectedSet;
use serde_json::{Value, json};

/// Numbers by chance (xorshift).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound.max(1)
    }

    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// Each of them with this chance.
    fn some<T: Clone>(&mut self, all: &[T], percent: usize) -> Vec<T> {
        all.iter().filter(|_| self.happens(percent)).cloned().collect()
    }

    fn mounts(&mut self) -> Vec<Value> {
        let volumes = self.some(&["logs", "cache", "data", "tmp"], 40);
        let mount = |volume: &str| {
            let mut mount = json!({"name": volume, "mountPath": format!("/{}{volume}", self.pick(&["", "x/"]))});
            if self.happens(20) {
                mount["subPathExpr"] = json!(format!("$({})", self.pick(&["A", "B"])));
            }
            mount
        };
        volumes.into_iter().map(mount).collect()
    }

    fn env(&mut self) -> Vec<Value> {
        let names = self.some(&["A", "B", "C", "D"], 50);
        let value = |name: &str| match self.below(3) {
            0 => json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}),
            _ => json!({"name": name, "value": format!("{name}{}", self.below(3))}),
        };
        names.into_iter().map(value).collect()
    }

    /// A container with all that its mounts need.
    fn container(&mut self, name: &str) -> Value {
        let mut env = self.env();
        let mounts = self.mounts();
        for name in ["A", "B"] {
            let is_used = mounts.iter().any(|mount| mount["subPathExpr"].as_str() == Some(&format!("$({name})")));
            if is_used && env.iter().all(|env| env["name"] != name) {
                env.push(json!({"name": name, "value": "needed"}));
            }
        }
        json!({"name": name, "image": format!("{name}:v{}", self.below(3)), "env": env, "volumeMounts": mounts})
    }

    fn sidecar(&mut self, name: &str) -> Value {
        let mut sidecar = self.container(name);
        if self.happens(60) {
            sidecar["podInjectPolicy"] = json!(self.pick(&["BeforeAppContainer", "AfterAppContainer"]));
        }
        if self.happens(40) {
            sidecar["shareVolumePolicy"] = json!({"type": self.pick(&["enabled", "enabled", "disabled"])});
        }
        let mut transfers = Vec::new();
        for _ in 0..self.below(3) {
            let from = match self.below(3) {
                0 => json!({"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['main']"}}}),
                1 => json!({"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.annotations['main']"}}}),
                _ => json!({"sourceContainerName": self.pick(&["app", "web", "nobody"])}),
            };
            let mut transfer = from;
            transfer["envNames"] = json!(self.some(&["D", "C", "B", "A"], 50));
            if self.happens(40) {
                transfer["envName"] = json!(self.pick(&["A", "C"]));
            }
            transfers.push(transfer);
        }
        if !transfers.is_empty() {
            sidecar["transferEnv"] = json!(transfers);
        }
        if self.happens(30) {
            sidecar["resources"] = json!({"limits": {"cpu": "100m", "memory": "64Mi"}});
        }
        sidecar
    }

    fn selector(&mut self) -> Value {
        match self.below(6) {
            0 => json!({"matchLabels": {"tier": self.pick(&["front", "back"])}}),
            1 => json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "other"]}]}),
            2 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}),
            3 => json!({"matchExpressions": [{"key": "main", "operator": "Exists"}]}),
            4 => {
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "main", "operator": "DoesNotExist"}]})
            }
            _ => json!({"matchLabels": {"app": "web"}}),
        }
    }

    /// Up to eight SidecarSets in the order of their names; `mark` is a part of their versions.
    pub(crate) fn sets(&mut self, mark: &str) -> anyhow::Result<Vec<InjectedSet>> {
        let names = ["a", "a-b", "b", "c1", "c10", "c2", "d", "z"];
        let names = self.some(&names, 50);
        let volumes = ["logs", "cache", "data", "tmp"].map(|name| json!({"name": name, "emptyDir": {}}));
        let set = |name: &&str| {
            let own: Vec<String> = ["log", "proxy", "agent"]
                .iter()
                .map(|kind| format!("{kind}-{}", self.pick(&["x", "y", name])))
                .collect();
            let containers: Vec<Value> = self.some(&own, 60).iter().map(|name| self.sidecar(name)).collect();
            let init: Vec<String> =
                ["setup", "native"].iter().map(|kind| format!("{kind}-{}", self.pick(&["x", name]))).collect();
            let mut init: Vec<Value> = self.some(&init, 40).iter().map(|name| self.sidecar(name)).collect();
            for each in &mut init {
                if each["name"].as_str().is_some_and(|name| name.starts_with("native")) {
                    each["restartPolicy"] = json!("Always");
                }
            }
            let patches = [
                json!({"annotations": {"note": name, "own": name}}),
                json!({"annotations": {"taken": name}, "patchPolicy": "Overwrite"}),
            ];
            let mut set = json!({"name": name, "uid": name, "generation": 1, "selector": self.selector(), "containers": containers,
                "initContainers": init, "volumes": volumes, "imagePullSecrets": self.some(&["own", "more", name], 40).iter()
                    .map(|name| json!({"name": name})).collect::<Vec<_>>(),
                "patchPodMetadata": self.some(&patches, 30), "hash": format!("{mark}-{name}"),
                "podHash": format!("{{\"hash\":\"{mark}-{name}\"}}"), "podHashWithoutImage": format!("{{\"hash\":\"{name}\"}}")});
            if self.happens(20) {
                set["namespaceSelector"] = json!({"matchLabels": {"team": self.pick(&["shop", "other"])}});
            }
            if self.happens(10) {
                set["base"] = json!(self.pick(&["a", "b"]));
            }
            if set["base"] == *name {
                set.as_object_mut().map(|set| set.remove("base"));
            }
            Ok(serde_json::from_value(set)?)
        };
        names.iter().map(set).collect()
    }

    pub(crate) fn pod(&mut self) -> Value {
        let mut containers = vec![self.container("app")];
        for name in ["web", "log-x", "proxy-y", "native-x"] {
            if self.happens(25) {
                containers.push(self.container(name));
            }
        }
        let init: Vec<Value> =
            self.some(&["own-setup", "setup-x", "log-y"], 20).iter().map(|name| self.container(name)).collect();
        let mut labels = json!({"app": "web"});
        if self.happens(60) {
            labels["tier"] = json!(self.pick(&["front", "back"]));
        }
        if self.happens(40) {
            labels["main"] = json!(self.pick(&["app", "web"]));
        }
        let volumes = ["logs", "cache", "data", "tmp"]
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-chance", "labels": labels},
            "spec": {"containers": containers, "volumes": volumes}});
        if !init.is_empty() {
            pod["spec"]["initContainers"] = json!(init);
        }
        if self.happens(40) {
            pod["metadata"]["annotations"] = json!({"own": "pod", "taken": "pod", "main": self.pick(&["app", "web"])});
        }
        if self.happens(30) {
            pod["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
        }
        pod
    }
}
