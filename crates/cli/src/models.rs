//! The models a person configured for themselves: whom to ask, where, with which key.
//!
//! Read from the person's own configuration alone. Keys are named there, never written there: a
//! variable, a file or a program that says them.

use crate::commands::agent::kept;
use crate::config::Config;
use crate::failure::{Failure, Kind};
use crate::place::{Place, variable};
use crate::reading;
use airlock_core::closest;
use airlock_kernel::{Models, NoModel, sanitise_line};
use airlock_model::{
    Budget, Cancel, Clock, Counter, Event, Failover, Ledger, Limit, Metered, Model, ModelError,
    OpenAi, OpenAiSettings, Price, Reply, Request, Script, Scripted, Secret,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The longest file that is a key, a script or a list of certificates.
const LONGEST: u64 = 8 * 1024 * 1024;
/// What names a script on the command line, in place of a configured model.
const SCRIPT: &str = "script:";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    models: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Provider {
    Openai,
    Scripted,
}

/// One configured model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    provider: Provider,
    base_url: Option<String>,
    model: Option<String>,
    key: Option<KeySource>,
    script: Option<PathBuf>,
    window: Option<u32>,
    stream: Option<bool>,
    proxy: Option<String>,
    ca_file: Option<PathBuf>,
    price: Option<PriceEntry>,
    #[serde(default)]
    budget: BudgetEntry,
}

/// Where a key is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum KeySource {
    Env(String),
    File(PathBuf),
    Command(Vec<String>),
}

/// What a million tokens cost.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    input: f64,
    output: f64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BudgetEntry {
    call: LimitEntry,
    session: LimitEntry,
    hour: LimitEntry,
    day: LimitEntry,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitEntry {
    tokens: Option<u64>,
    cost: Option<f64>,
}

/// What was spent, by the name of the model.
pub(crate) type Ledgers = BTreeMap<String, Arc<Mutex<Ledger>>>;

/// Whom a session asks.
pub(crate) struct Chosen {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) ledgers: Ledgers,
}

/// The configured model called `wanted`, or the first one with the others behind it.
pub(crate) fn choose(
    config: &Config,
    wanted: Option<&str>,
    place: &Place,
) -> Result<Chosen, Failure> {
    choose_in(config.models(), wanted, place)
}

fn choose_in(models: Option<&str>, wanted: Option<&str>, place: &Place) -> Result<Chosen, Failure> {
    if let Some(path) = wanted.and_then(|wanted| wanted.strip_prefix(SCRIPT)) {
        let model = scripted("script", Path::new(path), None)?;
        return Ok(Chosen {
            model: Arc::new(model),
            ledgers: Ledgers::new(),
        });
    }
    let entries = entries(models)?;
    let picked: Vec<&Entry> = match wanted {
        Some(wanted) => vec![named(&entries, wanted)?],
        None => first(&entries)?,
    };
    let mut ledgers = Ledgers::new();
    let mut members: Vec<Arc<dyn Model>> = Vec::new();
    for entry in picked {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        members.push(entry.build(&ledger)?);
        ledgers.insert(entry.name.clone(), ledger);
    }
    let model = Failover::new(members, Clock::system()).ok_or_else(none)?;
    kept::refresh(place, &ledgers);
    let model = Kept {
        model,
        ledgers: ledgers.clone(),
        place: place.clone(),
    };
    Ok(Chosen {
        model: Arc::new(model),
        ledgers,
    })
}

/// The configured models, for the agents that a kernel runs: each task asks with fresh keys, and
/// what it spends counts in budgets of hours and days.
pub(crate) struct Configured {
    models: Option<String>,
    place: Place,
}

impl Configured {
    pub(crate) fn new(config: &Config, place: &Place) -> Self {
        Self {
            models: config.models().map(str::to_owned),
            place: place.clone(),
        }
    }
}

/// The name by which a definition means the first configured model.
const FIRST: &str = "default";

impl Models for Configured {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, NoModel> {
        let none = |failure: Failure| {
            let mut what = failure.what().to_owned();
            for why in failure.reasons() {
                what = format!("{what}: {why}");
            }
            NoModel {
                what,
                fix: failure.fixes().next().map(str::to_owned),
            }
        };
        // A definition names a model, never a file.
        if name.starts_with(SCRIPT) {
            let what = format!("`{}` is no model's name", sanitise_line(name, 60));
            return Err(NoModel { what, fix: None });
        }
        let models = self.models.as_deref();
        let named = entries(models).map_err(none)?;
        let first = name == FIRST && !named.iter().any(|entry| entry.name == FIRST);
        let wanted = (!first).then_some(name);
        let chosen = choose_in(models, wanted, &self.place).map_err(none)?;
        Ok(chosen.model)
    }
}

/// A model that knows before each question what others spent, and whose spending is kept after it.
struct Kept {
    model: Failover,
    ledgers: Ledgers,
    place: Place,
}

impl Model for Kept {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn chat(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> Result<Reply, ModelError> {
        kept::refresh(&self.place, &self.ledgers);
        let answered = self.model.chat(request, on_event, cancel);
        kept::store(&self.place, &self.ledgers);
        answered
    }

    fn counter(&self) -> Counter {
        self.model.counter()
    }

    fn window(&self) -> u32 {
        self.model.window()
    }

    fn hosts(&self) -> Vec<String> {
        self.model.hosts()
    }

    fn price(&self) -> Price {
        self.model.price()
    }
}

/// The names of the configured models.
pub(crate) fn names(config: &Config) -> Result<Vec<String>, Failure> {
    Ok(entries(config.models())?
        .into_iter()
        .map(|entry| entry.name)
        .collect())
}

fn entries(models: Option<&str>) -> Result<Vec<Entry>, Failure> {
    let Some(text) = models else {
        return Ok(Vec::new());
    };
    let block: Block = serde_saphyr::from_str(text).map_err(|error| {
        Failure::new(Kind::Usage, "cannot read `models` in your configuration")
            .why(sanitise_line(&error.to_string(), 300))
            .fix("`docs/agent.md` shows what the list looks like")
    })?;
    Ok(block.models)
}

fn none() -> Failure {
    Failure::new(Kind::Usage, "no model is configured")
        .why("an agent needs a model to ask, and your configuration has no `models`")
        .fix("add one to your configuration: `airlock config path` says where it is, `docs/agent.md` how")
        .fix("see what works without one: airlock --help")
}

fn named<'e>(entries: &'e [Entry], wanted: &str) -> Result<&'e Entry, Failure> {
    let found = entries.iter().find(|entry| entry.name == wanted);
    found.ok_or_else(|| {
        if entries.is_empty() {
            return none();
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let fix = closest(wanted, names.iter().copied()).map_or_else(
            || format!("use one of {}", names.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        let wanted = sanitise_line(wanted, 60);
        Failure::new(Kind::Usage, format!("no model is called `{wanted}`")).fix(fix)
    })
}

/// The first one; models of the same kind stand in for it. A script stands in for nothing, and
/// nothing for a script.
fn first(entries: &[Entry]) -> Result<Vec<&Entry>, Failure> {
    let Some(first) = entries.first() else {
        return Err(none());
    };
    if first.provider == Provider::Scripted {
        return Ok(vec![first]);
    }
    let real = |entry: &&Entry| entry.provider != Provider::Scripted;
    Ok(entries.iter().filter(real).collect())
}

fn wrong(entry: &str, why: impl std::fmt::Display) -> Failure {
    let entry = sanitise_line(entry, 60);
    Failure::new(
        Kind::Usage,
        format!("model `{entry}` is not configured rightly"),
    )
    .why(why)
    .fix("mend its entry under `models:`; `airlock config path` says where that is")
}

impl Entry {
    fn build(&self, ledger: &Arc<Mutex<Ledger>>) -> Result<Arc<dyn Model>, Failure> {
        let model: Arc<dyn Model> = match self.provider {
            Provider::Scripted => {
                let path = self.script.as_deref();
                let path = path.ok_or_else(|| wrong(&self.name, "`script` is missing"))?;
                Arc::new(scripted(&self.name, path, self.window)?)
            }
            Provider::Openai => Arc::new(self.openai()?),
        };
        Ok(Arc::new(Metered::new(
            model,
            self.price()?,
            self.budget()?,
            Arc::clone(ledger),
            Clock::system(),
        )))
    }

    fn openai(&self) -> Result<OpenAi, Failure> {
        let missing = |name: &str| wrong(&self.name, format!("`{name}` is missing"));
        let base_url = self.base_url.as_ref().ok_or_else(|| missing("base_url"))?;
        let model = self.model.as_ref().ok_or_else(|| missing("model"))?;
        let mut settings = OpenAiSettings::new(base_url, model);
        settings.key = self.key.as_ref().map(|key| self.secret(key)).transpose()?;
        settings.window = self.window.unwrap_or(settings.window);
        settings.stream = self.stream.unwrap_or(settings.stream);
        settings.proxy.clone_from(&self.proxy);
        settings.ca_pem = self.ca_file.as_deref().map(read).transpose()?;
        OpenAi::new(&self.name, settings, Clock::system()).map_err(|error| failed(&error))
    }

    fn secret(&self, source: &KeySource) -> Result<Secret, Failure> {
        let text = match source {
            KeySource::Env(name) => variable(name)
                .and_then(|value| value.into_string().ok())
                .ok_or_else(|| wrong(&self.name, format!("the variable `{name}` is not set")))?,
            KeySource::File(path) => String::from_utf8(read(path)?)
                .map_err(|_| wrong(&self.name, "the file of its key is no text"))?,
            KeySource::Command(words) => self.said_by(words)?,
        };
        let secret = Secret::new(text);
        if secret.is_empty() {
            return Err(wrong(&self.name, "its key is empty"));
        }
        Ok(secret)
    }

    /// What a program of the person's own, such as a password manager, says.
    #[expect(
        clippy::disallowed_methods,
        reason = "the person's own configuration names it, and no other can"
    )]
    fn said_by(&self, words: &[String]) -> Result<String, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(wrong(&self.name, "the command of its key is empty"));
        };
        let ran = std::process::Command::new(program)
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| wrong(&self.name, format!("cannot run `{program}`: {error}")))?;
        if !ran.status.success() {
            return Err(wrong(
                &self.name,
                format!("`{program}` failed: {}", ran.status),
            ));
        }
        String::from_utf8(ran.stdout)
            .map_err(|_| wrong(&self.name, format!("`{program}` said no text")))
    }

    fn price(&self) -> Result<Price, Failure> {
        let Some(price) = self.price else {
            return Ok(Price::default());
        };
        Ok(Price {
            input_micros: self.micros(price.input)?,
            output_micros: self.micros(price.output)?,
        })
    }

    fn budget(&self) -> Result<Budget, Failure> {
        let limit = |entry: LimitEntry| -> Result<Limit, Failure> {
            let cost = entry.cost.map(|cost| self.micros(cost)).transpose()?;
            if cost.is_some() && self.price.is_none() {
                return Err(wrong(&self.name, "a budget in money needs a `price`"));
            }
            Ok(Limit {
                tokens: entry.tokens,
                cost_micros: cost,
            })
        };
        Ok(Budget {
            call: limit(self.budget.call)?,
            session: limit(self.budget.session)?,
            hour: limit(self.budget.hour)?,
            day: limit(self.budget.day)?,
        })
    }

    fn micros(&self, amount: f64) -> Result<u64, Failure> {
        if !(0.0..=1_000_000.0).contains(&amount) {
            return Err(wrong(&self.name, "an amount of money is from 0 to 1000000"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just looked at"
        )]
        let micros = (amount * 1_000_000.0).round() as u64;
        Ok(micros)
    }
}

/// A model's failure, as the command's.
pub(crate) fn failed(error: &ModelError) -> Failure {
    if let ModelError::Certificate { host, fault } = error {
        let what = format!("the certificate of `{host}` is not accepted");
        return Failure::new(Kind::Failed, what)
            .why(fault)
            .why("nothing was sent: without it anybody could be there")
            .maybe_fix(error.hint());
    }
    let kind = match error {
        ModelError::Configuration { .. } => Kind::Usage,
        ModelError::OverBudget(_) => Kind::Denied,
        ModelError::Unreachable { .. }
        | ModelError::Certificate { .. }
        | ModelError::TimedOut { .. }
        | ModelError::Unauthorized { .. }
        | ModelError::Busy { .. }
        | ModelError::Rejected { .. }
        | ModelError::ContextLength { .. }
        | ModelError::Filtered { .. }
        | ModelError::Redirected { .. }
        | ModelError::Malformed { .. }
        | ModelError::TooLarge { .. }
        | ModelError::Disconnected { .. }
        | ModelError::Cancelled
        | ModelError::Script(_)
        | ModelError::NoneAnswers { .. } => Kind::Failed,
    };
    Failure::of(kind, error).maybe_fix(error.hint())
}

fn scripted(name: &str, path: &Path, window: Option<u32>) -> Result<Scripted, Failure> {
    let bytes = reading::bytes(path, LONGEST).map_err(|error| unreadable(path, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let script = Script::parse(&text).map_err(|error| {
        let path = crate::output::shown(path);
        Failure::of(Kind::Usage, &error)
            .headed(&format!("cannot play {path}"))
            .fix(error.hint())
    })?;
    let scripted = Scripted::new(name, script);
    Ok(match window {
        Some(window) => scripted.with_window(window),
        None => scripted,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let size = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if size.len() > LONGEST {
        return Err(unreadable(
            path,
            format!("it has more than {LONGEST} bytes"),
        ));
    }
    std::fs::read(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failure {
    let path = crate::output::shown(path);
    Failure::new(Kind::Failed, format!("cannot read {path}"))
        .why(why)
        .fix("check the path in your configuration")
}
