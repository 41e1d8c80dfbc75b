//! From a manifest to what its sandbox is granted.
//!
//! Invariant: nothing of Airlock's own is granted but the plugin's data and its reach directory.
//! They lie among Airlock's own, so a path that a manifest asks for is held against those places
//! here, in either direction: it must not lie in one, nor hold one.

use super::program::Program;
use super::{BoxRequest, Ground, KERNEL_SOCKET};
use crate::host::StartError;
use crate::manifest::{SandboxAsk, TEMPLATE};
use airlock_core::ByteSize;
use airlock_sandbox::plan::{Limits, OwnVariable};
use airlock_sandbox::{HostPath, Plan, PlanBuilder, Reach, Surroundings, Template};
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
    // Our own places are kept clear of by `Asked`, see the invariant.
    let surroundings = Surroundings {
        own: Vec::new(),
        home: ground.surroundings.home.clone(),
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
        for text in &ask.read_allow {
            if let Some(path) = self.grant(text)? {
                builder = builder.read(path);
            }
        }
        for text in &ask.write_allow {
            if let Some(path) = self.grant(text)? {
                builder = builder.write(path);
            }
        }
        for text in &ask.read_deny {
            let path = self.absolute(text)?;
            builder = if path.contains(['*', '?', '[', '{']) {
                builder.deny_pattern(&path)
            } else {
                builder.deny(path)
            };
        }
        Ok(builder)
    }

    /// A path that is asked for; none where the plugin has it anyway.
    fn grant(&self, text: &str) -> Result<Option<PathBuf>, StartError> {
        let path = self.absolute(text)?;
        // All of a directory is what granting it means.
        let path = path
            .strip_suffix("/**")
            .or(path.strip_suffix("/*"))
            .unwrap_or(&path);
        if path.contains(['*', '?', '[', '{']) {
            return Err(refused(format!(
                "`{text}` is a pattern, and only paths can be granted"
            )));
        }
        let path = HostPath::new(path).map_err(|error| refused(error.to_string()))?;
        if self.own_data()?.iter().any(|data| data.holds(&path)) {
            return Ok(None);
        }
        let real = self.existing(path.as_path())?;
        for path in [path.as_path(), &real] {
            self.keep_clear(text, path)?;
        }
        Ok(Some(real))
    }

    /// The path on this machine that `~/`, `self/` or an absolute one means.
    fn absolute(&self, text: &str) -> Result<String, StartError> {
        let below = |base: &Path, rest: &str| {
            let path = base.join(rest);
            let path = path.into_os_string().into_string();
            path.map_err(|_| refused(format!("`{text}` is no text on this machine")))
        };
        if let Some(rest) = text.strip_prefix("self/") {
            return below(self.request.data, rest);
        }
        if let Some(rest) = text.strip_prefix("~/") {
            let home = self.ground.surroundings.home.as_ref();
            let home = home.ok_or_else(|| refused(format!("`{text}`: there is no home")))?;
            return below(home.as_path(), rest);
        }
        Ok(text.to_owned())
    }

    fn own_data(&self) -> Result<[HostPath; 2], StartError> {
        let named = |path: &Path| HostPath::new(path).map_err(|error| refused(error.to_string()));
        Ok([
            named(self.request.data)?,
            named(&self.existing(self.request.data)?)?,
        ])
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
