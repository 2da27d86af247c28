//! Which ids come and go as the wanted number of pods changes.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hitless_api::pod::PodView;
use jiff::Timestamp;

use super::names;
use super::plan::Work;
use super::roster::Instance;

impl Work<'_, '_> {
    /// Adds ids that are missing, and lets pods go that are too many. One that was to go stays if it has not left service.
    pub(super) fn scale(&mut self) {
        let leaving: Vec<i32> = self.ids(|instance| instance.is(names::SCALE_IN));
        for id in leaving {
            self.remove(id);
        }
        let count = self.roster.instances.values().filter(|each| !each.is(names::SCALE_IN)).count();
        let wanted = self.set.body.replicas;
        let taken: BTreeSet<&str> = self.pods.iter().map(|pod| pod.id.name.as_str()).collect();
        for _ in count..wanted {
            self.roster.add(self.set, &taken, self.target);
        }
        for id in self.surplus(count.saturating_sub(wanted)) {
            match self.roster.instances.get_mut(&id) {
                Some(instance) if instance.pod.is_some() => {
                    self.going.insert(id);
                    if self.remove(id)
                        && let Some(instance) = self.roster.instances.get_mut(&id)
                    {
                        instance.mark(names::SCALE_IN);
                    }
                }
                _ => _ = self.roster.instances.remove(&id),
            }
        }
        // Those that are to be made anew as they are. In sequence the new pod has the name of the old one, and would have to go, too.
        let body = self.set.body;
        let named = |pod: &PodView| {
            let is_listed = !body.in_sequence && body.pods_to_delete.contains(&pod.id.name);
            is_listed || pod.labels.contains_key(names::TO_DELETE)
        };
        let anew: Vec<i32> = self.ids(|instance| instance.pod.is_some_and(named) && !instance.is(names::SCALE_IN));
        for id in anew.into_iter().filter(|id| !self.going.contains(id)).collect::<Vec<_>>() {
            self.going.insert(id);
            self.remove(id);
        }
    }

    /// So many ids that are given up: in upstream's order, but whoever leaves already goes first of all that the owner does not name.
    fn surplus(&self, count: usize) -> Vec<i32> {
        let is_open = |(_, instance): &(&i32, &Instance<'_>)| !instance.is(names::SCALE_IN);
        let mut all: Vec<_> = self.roster.instances.iter().filter(is_open).collect();
        all.sort_by_key(|(id, instance)| {
            let Some(pod) = instance.pod else {
                return (false, false, false, Reverse(None), Reverse(None), Reverse(**id));
            };
            let is_named = self.set.body.pods_to_delete.contains(&pod.id.name);
            let is_leaving = self.world.left.contains(&pod.id.uid);
            let ready: Option<Timestamp> = pod.ready_since();
            (!is_named, !is_leaving, pod.available(), Reverse(ready), Reverse(pod.created), Reverse(**id))
        });
        all.into_iter().take(count).map(|(id, _)| *id).collect()
    }

    fn ids(&self, is_meant: impl Fn(&Instance<'_>) -> bool) -> Vec<i32> {
        self.roster.instances.iter().filter(|(_, instance)| is_meant(instance)).map(|(id, _)| *id).collect()
    }
}
