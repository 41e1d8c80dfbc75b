//! From a manifest to what its sandbox is granted.
//!
//! Invariant: nothing of Airlock's own is granted but the plugin's data and its reach directory.
//! They lie among Airlock's own, so a path that a manifest asks for is held against those places
//! here, in either direction: it must not lie in one, nor hold one. What is granted of those paths is
//! where they were found before they were judged ([`Grants`](crate::Grants)), and nowhere else.

use super::program::Program;
use super::{BoxRequest, Ground, KERNEL_SOCKET};
use crate::grants::{OWN, is_pattern, leading, whole};
use crate::host::StartError;
use crate::manifest::{SandboxAsk, TEMPLATE};
use airlock_core::ByteSize;
use airlock_sandbox::plan::{Limits, OwnVariable};
use airlock_sandbox::{HostPath, Plan, PlanBuilder, Reach, Surroundings, Template};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn refused(why: impl Into<String>) -> StartError {
    StartError::Confinement(why.into())
}

/// The plan of a plugin's sandbox.
pub(super) fn build(
    request: &BoxRequest<'_>,
    program: &Program,
    ground: &Ground,
) -> Result<Plan, StartError> {
    let ask = &request.manifest.execution.sandbox;
    let template = template(ask)?;
    // Our own places are kept clear of by `Asked`, see the invariant. What is granted is where it
    // really is, and is held against a home that is so, too.
    let home = ground.surroundings.home.as_ref();
    let surroundings = Surroundings {
        own: Vec::new(),
        home: home.map(real_home),
    };
    let asked = Asked { request, ground };
    let data = asked.existing(request.data)?;
    let reach = asked.existing(request.reach)?;
    let socket = reach.join(KERNEL_SOCKET);
    let mut builder = Plan::builder(template, &surroundings)
        .without_network()
        .limits(limits(template, ask, ground.disk))
        .read(program.tree())
        .read(program.directory())
        .write(&data)
        .write(&reach)
        .directory(&data);
    if request.directory != program.directory() {
        builder = builder.read(request.directory);
    }
    builder = ground.outfit.apply(builder);
    builder = asked.grants(builder)?;
    for (name, value) in &request.environment {
        builder = builder.set(name, value);
    }
    builder
        .own(OwnVariable::Home, ground.outfit.base().home.as_os_str())
        .own(OwnVariable::TemporaryDirectory, "/tmp")
        .own(OwnVariable::KernelSocket, &socket)
        .build()
        .map_err(|error| refused(error.to_string()))
}

fn real_home(home: &HostPath) -> HostPath {
    HostPath::new(leading(home.as_path())).unwrap_or_else(|_| home.clone())
}

fn template(ask: &SandboxAsk) -> Result<&'static Template, StartError> {
    let name = ask.template.as_deref().unwrap_or(TEMPLATE);
    let template =
        Template::find(name).ok_or_else(|| refused(format!("there is no template `{name}`")))?;
    // A network without the proxy could not be kept to what was asked for.
    if template.network != Reach::None || !ask.network.is_empty() {
        return Err(refused(
            "it asks for a network, which plugins cannot have yet",
        ));
    }
    if name != TEMPLATE {
        let why = format!("the template `{name}` is for Airlock's own workers");
        return Err(refused(why));
    }
    Ok(template)
}

fn limits(template: &Template, ask: &SandboxAsk, disk: ByteSize) -> Limits {
    let most = template.limits;
    Limits {
        // More than the template has is refused by the plan, with the bound.
        memory: ask.memory_limit.unwrap_or(most.memory),
        file_size: most.file_size.min(disk),
        ..most
    }
}

/// What a manifest asks for, made paths of this machine.
struct Asked<'a> {
    request: &'a BoxRequest<'a>,
    ground: &'a Ground,
}

impl Asked<'_> {
    fn grants(&self, mut builder: PlanBuilder) -> Result<PlanBuilder, StartError> {
        let ask = &self.request.manifest.execution.sandbox;
        let (reads, writes) = (
            self.places(&ask.read_allow)?,
            self.places(&ask.write_allow)?,
        );
        for path in &reads {
            builder = builder.read(path);
        }
        for path in &writes {
            // What lies in another that is written adds nothing, and on the way to it the plugin
            // itself could move things about while its box is made.
            let is_in = |other: &PathBuf| other != path && path.starts_with(other);
            if !writes.iter().any(is_in) {
                builder = builder.write(path);
            }
        }
        if !writes.is_empty() {
            builder = builder.keep_policies();
        }
        for text in &ask.read_deny {
            for path in self.denied(text)? {
                builder = if is_pattern(text) {
                    builder.deny_pattern(&path)
                } else {
                    builder.deny(path)
                };
            }
        }
        Ok(builder)
    }

    /// Where the paths are that are asked for, without those the plugin has anyway.
    fn places(&self, asked: &[String]) -> Result<Vec<PathBuf>, StartError> {
        let places = asked.iter().map(|text| self.place(text));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        Ok(places.into_iter().flatten().collect())
    }

    /// Where a path is that is asked for; none where the plugin has it anyway. Links were followed
    /// before this was judged, and are not followed again.
    fn place(&self, text: &str) -> Result<Option<PathBuf>, StartError> {
        if text.starts_with(OWN) {
            let path = self.absolute(whole(text)?)?;
            let path = HostPath::new(path).map_err(|error| refused(error.to_string()))?;
            return if self.is_own(&path)? {
                Ok(None)
            } else {
                Err(refused(format!("`{text}` is not in the plugin's data")))
            };
        }
        let place = self.request.grants.place(text);
        let place = place.ok_or_else(|| refused(format!("nobody granted `{text}`")))?;
        if let Some(why) = place.missing() {
            let named = place.named().display();
            return Err(refused(format!("`{named}`: {why}")));
        }
        let named = HostPath::new(place.named()).map_err(|error| refused(error.to_string()))?;
        if self.is_own(&named)? {
            return Ok(None);
        }
        for path in [place.named(), place.real()] {
            self.keep_clear(text, path)?;
        }
        Ok(Some(place.real().to_owned()))
    }

    /// What is not to be read: by its name, and by where that leads. What is granted is seen where it
    /// really is, and would be read there.
    fn denied(&self, text: &str) -> Result<BTreeSet<String>, StartError> {
        let named = self.absolute(text)?;
        if !named.starts_with('/') {
            return Ok(BTreeSet::from([named]));
        }
        let parts: Vec<&str> = named.split('/').collect();
        let plain = parts.iter().take_while(|part| !is_pattern(part)).count();
        let (plain, pattern) = parts.split_at_checked(plain).unwrap_or_default();
        let real = leading(Path::new(&plain.join("/")));
        let real = real.into_os_string().into_string();
        let real = real.map_err(|_| refused(format!("`{text}` is no text on this machine")))?;
        if pattern.is_empty() {
            return Ok(BTreeSet::from([named, real]));
        }
        if is_pattern(&real) {
            let why = format!("`{text}` leads to `{real}`, which a pattern cannot name");
            return Err(refused(why));
        }
        let mut parts = vec![real.trim_end_matches('/')];
        parts.extend_from_slice(pattern);
        let real = parts.join("/");
        Ok(BTreeSet::from([named, real]))
    }

    /// The path on this machine that `~/`, `self/` or an absolute one means.
    fn absolute(&self, text: &str) -> Result<String, StartError> {
        let below = |base: &Path, rest: &str| {
            let path = base.join(rest);
            let path = path.into_os_string().into_string();
            path.map_err(|_| refused(format!("`{text}` is no text on this machine")))
        };
        if let Some(rest) = text.strip_prefix(OWN) {
            return below(self.request.data, rest);
        }
        if let Some(rest) = text.strip_prefix("~/") {
            let home = self.ground.surroundings.home.as_ref();
            let home = home.ok_or_else(|| refused(format!("`{text}`: there is no home")))?;
            return below(home.as_path(), rest);
        }
        Ok(text.to_owned())
    }

    /// Whether `path` lies in the plugin's own data.
    fn is_own(&self, path: &HostPath) -> Result<bool, StartError> {
        let named = |path: &Path| HostPath::new(path).map_err(|error| refused(error.to_string()));
        let data = [
            named(self.request.data)?,
            named(&self.existing(self.request.data)?)?,
        ];
        Ok(data.iter().any(|data| data.holds(path)))
    }

    /// Where something that must be there really is.
    fn existing(&self, path: &Path) -> Result<PathBuf, StartError> {
        let _ = self;
        path.canonicalize()
            .map_err(|error| refused(format!("`{}`: {error}", path.display())))
    }

    fn keep_clear(&self, text: &str, path: &Path) -> Result<(), StartError> {
        let path = HostPath::new(path).map_err(|error| refused(error.to_string()))?;
        let place = self.ground.place.as_path();
        let mut own: Vec<PathBuf> = vec![place.to_owned(), self.request.reach.to_owned()];
        own.extend(
            self.ground
                .surroundings
                .own
                .iter()
                .map(|own| own.as_path().to_owned()),
        );
        let real: Vec<PathBuf> = own
            .iter()
            .filter_map(|own| own.canonicalize().ok())
            .collect();
        own.extend(real);
        for own in own.iter().filter_map(|own| HostPath::new(own).ok()) {
            if own.holds(&path) || path.holds(&own) {
                return Err(refused(format!(
                    "`{text}` meets a directory that is not for plugins"
                )));
            }
        }
        Ok(())
    }
}
