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
}

/// Why this version of the workload goes natively, if that was decided, and its owner still allows it.
pub(in crate::kinds) fn of_template(object: &Object, template: &Template) -> Option<Because> {
    let way: Way = serde_json::from_str(object.annotations.get(annotations::WAY)?).ok()?;
    let is_meant = way.revision == template.revision() && object.opt_in() == OptIn::InPlace;
    is_meant.then(|| Because::of(Cause::LossExpected, way.message))
}

/// Says so.
pub(in crate::kinds) fn choose(object: &Object, template: &Template, message: &str) -> Write {
    let way = Way { revision: template.revision().to_owned(), message: message.to_owned() };
    Write::annotate("go-natively", object, annotations::WAY, &serde_json::to_string(&way).unwrap_or_default())
}
