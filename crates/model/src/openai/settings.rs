//! Where a server is, and how it is reached.

use crate::secret::Secret;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, Proxy, Url, redirect};
use std::time::Duration;

/// How long each part of an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Reaching the server.
    pub connect: Duration,
    /// Until the answer begins.
    pub first_byte: Duration,
    /// From one piece of it to the next; keep-alives are pieces.
    pub between_chunks: Duration,
    /// All of it, with every further attempt.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(2),
            between_chunks: Duration::from_mins(1),
            total: Duration::from_mins(15),
        }
    }
}

/// How further attempts are spaced: each wait is twice the one before, less a random part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Further attempts after the first.
    pub retries: u32,
    /// The first wait.
    pub first: Duration,
    /// The longest wait, and the longest that a server may ask for.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            retries: 4,
            first: Duration::from_millis(500),
            most: Duration::from_secs(30),
        }
    }
}

/// How a server of chat completions is reached, and which model is asked there.
#[derive(Debug, Clone)]
pub struct OpenAiSettings {
    /// Up to and without `/chat/completions`.
    pub base_url: String,
    /// The model, as the server calls it.
    pub model: String,
    /// The key, if the server wants one.
    pub key: Option<Secret>,
    /// Tokens a question and its answer may take together.
    pub window: u32,
    /// Whether the answer is to come in pieces.
    pub stream: bool,
    /// A proxy. Without it there is none, whatever the environment says.
    pub proxy: Option<String>,
    /// Certificates in PEM that count as roots besides the machine's own.
    pub ca_pem: Option<Vec<u8>>,
    /// How long each part may take.
    pub timeouts: Timeouts,
    /// How further attempts are spaced.
    pub backoff: Backoff,
}

impl OpenAiSettings {
    /// The usual, for `model` at `base_url`.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            window: 32_000,
            stream: true,
            proxy: None,
            ca_pem: None,
            timeouts: Timeouts::default(),
            backoff: Backoff::default(),
        }
    }
}

/// Where questions go.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) url: Url,
    /// For messages and for policy: the host, and the port where it is not the usual one.
    pub(crate) host: String,
}

impl Place {
    pub(crate) fn of(settings: &OpenAiSettings) -> Result<Self, String> {
        let base = settings.base_url.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/chat/completions"))
            .map_err(|error| format!("`base_url` is no URL: {error}"))?;
        let name = url.host_str().unwrap_or_default().to_owned();
        if name.is_empty() || !matches!(url.scheme(), "http" | "https") {
            return Err("`base_url` has to begin with https:// or http://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("`base_url` must hold no user and no password; use `key`".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("`base_url` must have no `?` and no `#`".to_owned());
        }
        if url.scheme() == "http" && settings.key.is_some() && !is_this_machine(&name) {
            return Err(format!(
                "`http://{name}` would send the key unencrypted; use https"
            ));
        }
        // Also on this machine: who carries it would read it, and may be anywhere.
        if url.scheme() == "http" && settings.key.is_some() && settings.proxy.is_some() {
            return Err("`proxy` would be shown the key; use https, or no proxy".to_owned());
        }
        if settings.model.is_empty() {
            return Err("`model` is empty".to_owned());
        }
        let host = url
            .port()
            .map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
        Ok(Self { url, host })
    }
}

fn is_this_machine(host: &str) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = plain.parse().ok();
    plain == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// A client that goes to `place` and nowhere else.
pub(crate) fn client(settings: &OpenAiSettings, place: &Place) -> Result<Client, String> {
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        // Connections end with the question they were made for.
        .pool_max_idle_per_host(0)
        .http1_only()
        .referer(false)
        .connect_timeout(settings.timeouts.connect)
        .default_headers(headers(settings)?)
        .user_agent(concat!("airlock/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &settings.proxy {
        let proxy = Proxy::all(proxy).map_err(|_| "`proxy` is no URL of a proxy".to_owned())?;
        builder = builder.proxy(proxy);
    }
    let own = match &settings.ca_pem {
        Some(pem) => Certificate::from_pem_bundle(pem)
            .ok()
            // A file without any is a mistake, and not a wish for none.
            .filter(|found| !found.is_empty())
            .ok_or_else(|| "`ca_file` holds no certificates in PEM".to_owned())?,
        None => Vec::new(),
    };
    let has_own = !own.is_empty();
    builder = if place.url.scheme() == "http" {
        // No certificate will be looked at, so none is loaded.
        builder.tls_certs_only(own)
    } else {
        builder.tls_certs_merge(own)
    };
    builder.build().map_err(|error| {
        let mut told = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            told = cause.to_string();
            source = cause.source();
        }
        // Nothing else that was given is looked at so late.
        if has_own {
            return format!("`ca_file` holds what is no certificate: {told}");
        }
        told
    })
}

fn headers(settings: &OpenAiSettings) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(reqwest::header::CONTENT_TYPE, json);
    let accept = if settings.stream {
        "text/event-stream, application/json"
    } else {
        "application/json"
    };
    headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static(accept));
    if let Some(key) = settings.key.as_ref().filter(|key| !key.is_empty()) {
        let bearer = zeroize::Zeroizing::new(format!("Bearer {}", key.expose()));
        let mut value = HeaderValue::from_str(&bearer)
            .map_err(|_| "the key holds characters that no header can".to_owned())?;
        value.set_sensitive(true);
        headers.insert(reqwest::header::AUTHORIZATION, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(base_url: &str, key: bool) -> OpenAiSettings {
        let mut settings = OpenAiSettings::new(base_url, "m");
        settings.key = key.then(|| Secret::new("sk-very-secret".to_owned()));
        settings
    }

    #[test]
    fn a_key_travels_encrypted_or_not_at_all() {
        for (base_url, key, good) in [
            ("https://api.example.org/v1", true, true),
            ("http://localhost:11434/v1", true, true),
            ("http://127.0.0.1:8080/v1/", true, true),
            ("http://[::1]:8080", true, true),
            ("http://192.168.1.5:8080/v1", false, true),
            ("http://192.168.1.5:8080/v1", true, false),
            ("http://localhost.evil.example/v1", true, false),
            ("http://127.0.0.1.evil.example/v1", true, false),
            ("https://user:pass@api.example.org/v1", false, false),
            ("https://api.example.org/v1?x=y", false, false),
            ("ftp://api.example.org", false, false),
            ("file:///etc/passwd", false, false),
            ("not a url", false, false),
        ] {
            let place = Place::of(&settings(base_url, key));
            assert_eq!(place.is_ok(), good, "{base_url} {key}: {place:?}");
        }
    }

    #[test]
    fn a_proxy_carries_a_key_encrypted_or_not_at_all() {
        for (base_url, key, good) in [
            ("https://api.example.org/v1", true, true),
            ("http://localhost:11434/v1", false, true),
            ("http://localhost:11434/v1", true, false),
            ("http://127.0.0.1:8080/v1", true, false),
        ] {
            let mut settings = settings(base_url, key);
            settings.proxy = Some("http://proxy.example:3128".to_owned());
            let place = Place::of(&settings);
            assert_eq!(place.is_ok(), good, "{base_url} {key}: {place:?}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_no_authority() {
        for pem in [
            "",
            "no certificate",
            "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n",
        ] {
            let mut settings = settings("https://api.example.org/v1", false);
            settings.ca_pem = Some(pem.as_bytes().to_vec());
            let place = Place::of(&settings).unwrap();
            let why = client(&settings, &place).err();
            let told = why.unwrap_or_default();
            assert!(told.starts_with("`ca_file` holds "), "{pem}: {told}");
        }
    }

    #[test]
    fn the_key_is_in_no_debug_output() {
        let settings = settings("https://api.example.org/v1", true);
        let headers = headers(&settings).unwrap();
        let model = crate::OpenAi::new("m", settings.clone(), crate::Clock::system());
        for shown in [
            format!("{settings:?}"),
            format!("{headers:?}"),
            format!("{model:?}"),
        ] {
            assert!(!shown.contains("very-secret"), "{shown}");
        }
    }
}
