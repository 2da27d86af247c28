//! A version that goes natively because that costs its clients less: the mark that stands on its workload until the hold is lifted
//! (annotation `hitless.dev/way`). Without it the next look would begin to roll the same version in place again.

use hitless_api::names::annotations;
use serde::{Deserialize, Serialize};

use crate::because::{Because, Cause};
use crate::object::Object;
use crate::opt_in::OptIn;
use crate::template::Template;
use crate::write::Write;

/// The mark.
#[derive(Debug, Serialize, Deserialize)]
struct Way {
    /// Revision of the template that goes natively. Another one is decided about anew.
    revision: String,
    /// Why, for people.
    message: String,
    /// Which kind of reason it was when it was decided: the next look may not see it any more. Nothing: that clients lose less so, or that
    /// its pods do not start in place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    cause: String,
}

/// Why this version of the workload goes natively, if that was decided, and its owner still allows it.
pub(in crate::kinds) fn of_template(object: &Object, template: &Template) -> Option<Because> {
    let way: Way = serde_json::from_str(object.annotations.get(annotations::WAY)?).ok()?;
    let is_meant = way.revision == template.revision() && object.opt_in() == OptIn::InPlace;
    is_meant.then(|| Because::of(Cause::named(&way.cause).unwrap_or(Cause::NativeRollout), way.message))
}

/// Says so of one that could go in place.
pub(in crate::kinds) fn choose(object: &Object, template: &Template, message: &str) -> Write {
    mark(object, template, message, String::new())
}

/// Says so of one that can't, where what shows that is about to go.
pub(in crate::kinds) fn keep(object: &Object, template: &Template, because: &Because) -> Write {
    mark(object, template, &because.text, because.cause.name().to_owned())
}

fn mark(object: &Object, template: &Template, message: &str, cause: String) -> Write {
    let way = Way { revision: template.revision().to_owned(), message: message.to_owned(), cause };
    Write::annotate("go-natively", object, annotations::WAY, &serde_json::to_string(&way).unwrap_or_default())
}
