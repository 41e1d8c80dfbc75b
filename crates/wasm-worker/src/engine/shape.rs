//! The types of the world `airlock:plugin/plugin`, and whether a component's are the same. Pure.
//!
//! Guarantee: of a function that fits, every value has the shape that is said here.

use wasmtime::component::Type;
use wasmtime::component::types::ComponentFunc;

/// A type of the world.
pub(super) enum Shape {
    Bool,
    Text,
    Option(&'static Self),
    List(&'static Self),
    Result {
        ok: &'static Self,
        error: &'static Self,
    },
    Record(&'static [(&'static str, Self)]),
    Enum(&'static [&'static str]),
}

/// A function of the world.
pub(super) struct Signature {
    pub(super) parameters: &'static [Shape],
    pub(super) result: Option<Shape>,
}

const TOOL: Shape = Shape::Record(&[
    ("name", Shape::Text),
    ("summary", Shape::Text),
    ("schema", Shape::Text),
    ("read-only", Shape::Bool),
]);
const CONTEXT: Shape = Shape::Record(&[
    ("action", Shape::Text),
    ("plugin", Shape::Text),
    ("sandbox", Shape::Option(&Shape::Text)),
    ("session", Shape::Option(&Shape::Text)),
    ("mode", Shape::Option(&Shape::Text)),
    ("configuration", Shape::Text),
]);
const FAILURE: Shape = Shape::Record(&[
    ("code", Shape::Text),
    ("message", Shape::Text),
    ("retryable", Shape::Bool),
]);
const LEVEL: Shape = Shape::Enum(&["debug", "info", "warn", "error"]);

pub(super) const DESCRIBE: Signature = Signature {
    parameters: &[],
    result: Some(Shape::List(&TOOL)),
};
pub(super) const EXECUTE: Signature = Signature {
    parameters: &[Shape::Text, Shape::Text, CONTEXT],
    result: Some(Shape::Result {
        ok: &Shape::Text,
        error: &Shape::Text,
    }),
};

/// The functions of the host, by their names.
pub(super) const HOST: &[(&str, Signature)] = &[
    (
        "call",
        Signature {
            parameters: &[Shape::Text, Shape::Text],
            result: Some(Shape::Result {
                ok: &Shape::Text,
                error: &FAILURE,
            }),
        },
    ),
    (
        "log",
        Signature {
            parameters: &[LEVEL, Shape::Text],
            result: None,
        },
    ),
    (
        "emit",
        Signature {
            parameters: &[Shape::Text],
            result: Some(Shape::Bool),
        },
    ),
    (
        "cancelled",
        Signature {
            parameters: &[],
            result: Some(Shape::Bool),
        },
    ),
];

impl Signature {
    /// Whether `function` takes and gives exactly this.
    pub(super) fn fits(&self, function: &ComponentFunc) -> bool {
        let parameters = function.params();
        let mut results = function.results();
        !function.async_()
            && parameters.len() == self.parameters.len()
            && results.len() == usize::from(self.result.is_some())
            && parameters
                .zip(self.parameters)
                .all(|((_, found), wanted)| wanted.is(&found))
            && self
                .result
                .iter()
                .all(|wanted| results.next().is_some_and(|found| wanted.is(&found)))
    }
}

impl Shape {
    fn is(&self, found: &Type) -> bool {
        let both =
            |found: Option<Type>, wanted: &Self| found.is_some_and(|found| wanted.is(&found));
        match (self, found) {
            (Self::Bool, Type::Bool) | (Self::Text, Type::String) => true,
            (Self::Option(wanted), Type::Option(found)) => wanted.is(&found.ty()),
            (Self::List(wanted), Type::List(found)) => wanted.is(&found.ty()),
            (Self::Result { ok, error }, Type::Result(found)) => {
                both(found.ok(), ok) && both(found.err(), error)
            }
            (Self::Record(wanted), Type::Record(found)) => {
                let found = found.fields();
                found.len() == wanted.len()
                    && found
                        .zip(*wanted)
                        .all(|(found, (name, shape))| found.name == *name && shape.is(&found.ty))
            }
            (Self::Enum(wanted), Type::Enum(found)) => found.names().eq(wanted.iter().copied()),
            _ => false,
        }
    }
}
