//! A version that was judged bad: the mark that stands on its workload (annotation `hitless.dev/halted`).

use hitless_api::names::annotations;
use serde::{Deserialize, Serialize};

use crate::because::{Because, Cause};
use crate::object::Object;
use crate::shape::Shape;
use crate::template::Template;
use crate::write::Write;

/// Most bytes of the kubelet's words that the mark keeps.
const MOST_WORDS: usize = 300;

/// What speaks against a version: an operation that led to it was judged bad and undone.
#[derive(Clone, Copy, Debug)]
pub struct BadVersion<'a> {
    /// The pod's name.
    pub pod: &'a str,
    /// In CamelCase.
    pub reason: &'a str,
    /// For people, in the kubelet's own words as far as it said some; may be empty.
    pub message: &'a str,
}

/// The mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Halted {
    /// Revision of the template that was judged bad.
    pub(crate) revision: String,
    /// Revision of the template that new pods are made from.
    pub(crate) back_to: String,
    /// The pod that it was judged by; empty in marks of earlier versions, and so are the next two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) pod: String,
    /// Why, in CamelCase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

impl Halted {
    /// A version that has just been judged.
    pub(crate) fn new(bad: &Template, back_to: &str, why: BadVersion<'_>) -> Self {
        let message = &why.message[..why.message.floor_char_boundary(MOST_WORDS)];
        Self {
            revision: bad.revision().to_owned(),
            back_to: back_to.to_owned(),
            pod: why.pod.to_owned(),
            reason: why.reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// A version of something that has no template to go back to.
    pub(crate) fn of_version(revision: &str, pod: &str, reason: &str, message: &str) -> Self {
        let message = &message[..message.floor_char_boundary(MOST_WORDS)];
        Self {
            revision: revision.to_owned(),
            back_to: String::new(),
            pod: pod.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The one that stands on the object; what is not understood is none.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        serde_json::from_str(object.annotations.get(annotations::HALTED)?).ok()
    }

    /// The one that stands on the object, if it is about the version that its template asks for.
    pub(crate) fn of_template(object: &Object, template: &Template) -> Option<Self> {
        Self::of(object).filter(|halted| halted.revision == template.revision())
    }

    /// Whether the mark on the object says that the version with this revision took the place of one that was judged bad.
    pub(crate) fn is_left_for(object: &Object, revision: &str) -> bool {
        Self::of(object).is_some_and(|halted| halted.back_to == revision)
    }

    /// Whether another version than the two that it names has been asked for: the mark has done its work once that has come to its end.
    pub(crate) fn is_over(object: &Object, template: &Template) -> bool {
        Self::of(object)
            .is_some_and(|halted| ![&halted.back_to, &halted.revision].contains(&&template.shape().revision))
    }

    /// The annotation.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Why nothing is made of this version. `good` is what new pods are made from, if that is known.
    pub(crate) fn because(&self, bad: &Template, good: Option<&Shape>) -> Because {
        let differing = bad.images().filter(|(name, image)| good.and_then(|good| good.image(name)) != Some(*image));
        let images: Vec<&str> = differing.map(|(_, image)| image).collect();
        let what = if images.is_empty() { "the restart".to_owned() } else { images.join(", ") };
        let pod = if self.pod.is_empty() { String::new() } else { format!(" by pod {}", self.pod) };
        let words: Vec<&str> =
            [&self.reason, &self.message].into_iter().map(String::as_str).filter(|each| !each.is_empty()).collect();
        let why = if words.is_empty() { String::new() } else { format!(": {}", words.join(": ")) };
        Because::of(Cause::Halted, format!("{what} (revision {}) was judged bad{pod}{why}", self.revision))
    }
}

/// Revision of the version that the mark on the object says was judged bad.
pub(crate) fn judged_bad(object: &Object) -> Option<String> {
    Halted::of(object).map(|halted| halted.revision)
}

/// What people are told as long as a workload is halted, and its own template is the one that was judged bad.
pub(crate) fn advice(on: &Object, because: &Because, back_to: &str) -> String {
    let target = on.id.arguments();
    format!(
        "{}; pods that are made anew get revision {back_to}. Go back: kubectl hitless undo {target}; try again: kubectl hitless \
         retry {target}; or give it another image",
        because.text
    )
}

/// The same where its own template was put back: an undo has nothing to do there.
pub(crate) fn put_back(on: &Object, because: &Because, back_to: &str) -> String {
    format!(
        "{}; its template is that of revision {back_to} again. Try the other one again: kubectl hitless retry {}; or give it another image",
        because.text,
        on.id.arguments()
    )
}

/// Why nothing is tried again.
pub(crate) const NOT_HALTED: &str = "no version of it was judged bad, so there is nothing to try again";
/// Why nothing is undone.
pub(crate) const NO_OTHER: &str = "no template is known that differs from the present one";

/// That there is no such revision.
pub(crate) fn unknown_revision(number: u64, known: impl IntoIterator<Item = u64>) -> String {
    let mut known: Vec<u64> = known.into_iter().collect();
    known.sort_unstable();
    let known: Vec<String> = known.iter().map(u64::to_string).collect();
    format!("there is no revision {number} that it could go back to; there are: {}", known.join(", "))
}

/// Takes the mark off, where no other write to the object is due.
pub(crate) fn forget(object: &Object) -> Write {
    Write::patch("forget-halt", object, |patch| patch.remove(&["metadata", "annotations", annotations::HALTED]))
}
