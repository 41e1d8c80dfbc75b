//! The gates that the paths of a plugin's box have to pass.
//!
//! A path is judged by where it was found to be ([`Grants`]) and by its name, in the home by either
//! name that the home has. Where a link leads elsewhere than the name says, a person must have
//! approved that very place: whoever may write on the way to it could put a link there, the plugin
//! itself above all.

use super::desk::Desk;
use airlock_plugin::{Grants, Manifest, Origin, Place, StartError};
use airlock_policy::CapabilityGate;
use std::collections::BTreeMap;
use std::path::Path;

/// What the paths of one plugin are held against.
pub(super) struct Paths<'a> {
    desk: &'a Desk,
    manifest: &'a Manifest,
    grants: &'a Grants,
    /// Where each was when a person approved it.
    approved: BTreeMap<String, String>,
}

impl<'a> Paths<'a> {
    /// Those of a plugin that came so.
    pub(super) fn new(
        desk: &'a Desk,
        manifest: &'a Manifest,
        origin: Origin,
        grants: &'a Grants,
    ) -> Self {
        let key = desk.key(&manifest.name, origin);
        Self {
            approved: desk.table().places(&key),
            desk,
            manifest,
            grants,
        }
    }

    /// Each path with a right that is asked for, and the gate that is closed to it, if one is.
    pub(super) fn judged(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'a Place, Option<CapabilityGate>)> {
        self.rights().map(move |(right, place)| {
            let gate = self.closed(right, place);
            (right, place, gate)
        })
    }

    fn rights(&self) -> impl Iterator<Item = (&'static str, &'a Place)> {
        let (manifest, grants) = (self.manifest, self.grants);
        let rights = manifest.execution.sandbox.rights();
        rights.filter_map(move |(right, asked)| Some((right, grants.place(asked)?)))
    }

    /// The first gate that is closed to `right` of `place`.
    fn closed(&self, right: &str, place: &Place) -> Option<CapabilityGate> {
        if !self.is_approved(right, place) {
            return Some(CapabilityGate::Plugin);
        }
        if self.is_given_up(right, place) {
            return Some(CapabilityGate::PluginDeny);
        }
        let closed = |path: &Path| self.kept(right, path, place.is_directory());
        closed(place.named()).or_else(|| closed(place.real()))
    }

    /// Whether a person approved that the plugin has `right` where `place` is: by its name, because
    /// they saw where it leads, or because it lies in another of which it has as much.
    fn is_approved(&self, right: &str, place: &Place) -> bool {
        let mut others = self.rights().filter(|(other, _)| *other == right);
        self.is_as_seen(place)
            || others
                .any(|(_, other)| self.is_as_seen(other) && place.real().starts_with(other.real()))
    }

    fn is_as_seen(&self, place: &Place) -> bool {
        let approved = self.approved.get(place.asked());
        !place.leads_elsewhere()
            || approved.is_some_and(|approved| Path::new(approved) == place.real())
    }

    /// Whether the manifest itself does without `right` of `place`, by any of its names.
    fn is_given_up(&self, right: &str, place: &Place) -> bool {
        let is_denied = |path: &str| self.manifest.denial(right, path).is_some();
        let mut names = [place.named(), place.real()]
            .into_iter()
            .flat_map(|path| self.grants.names(path));
        names.any(|name| {
            let mut homes = self.grants.homes();
            is_denied(&name.display().to_string())
                || homes.any(|home| of_home(home, &name).is_some_and(|name| is_denied(&name)))
        })
    }

    /// The gate of workspace and user that is closed to `path` by each of its names.
    fn kept(&self, right: &str, path: &Path, is_directory: bool) -> Option<CapabilityGate> {
        // Whoever is given a directory is given what lies in it.
        let below = if is_directory { "/**" } else { "" };
        let names = self.grants.names(path).into_iter();
        let gates = names.map(|name| {
            let name = name.display().to_string();
            let name = name.trim_end_matches('/');
            self.desk.closed(&format!("{right}.{name}{below}"))
        });
        let gates = gates.collect::<Option<Vec<CapabilityGate>>>()?;
        gates.first().copied()
    }
}

/// That `gate` is closed to `right` of `place`.
pub(super) fn refusal(right: &'static str, place: &Place, gate: CapabilityGate) -> StartError {
    // The manifest lists it by name; what it does not list is where that leads.
    let is_elsewhere = gate == CapabilityGate::Plugin;
    StartError::NotGranted {
        right,
        asked: place.asked().to_owned(),
        gate,
        leads_to: is_elsewhere.then(|| place.real().to_owned()),
    }
}

/// The part of `path` that is in the home, as a pattern would name it.
fn of_home(home: &Path, path: &Path) -> Option<String> {
    match path.strip_prefix(home) {
        Ok(below) => Some(format!("~/{}", below.display())),
        Err(_) if home.starts_with(path) => Some("~".to_owned()),
        Err(_) => None,
    }
}
