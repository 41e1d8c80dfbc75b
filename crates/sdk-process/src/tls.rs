//! The plugin's side of mutual TLS as go-plugin does it: a certificate made for this one connection,
//! and no other peer than the one whose certificate came with the environment.
//!
//! Certificates are compared byte for byte, so nothing they say about themselves counts. The proof
//! that the peer has the key is checked as always.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// What hosts think a plugin is called.
const NAME: &str = "localhost";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("what the host gives as its certificate is none: {0}")]
    Host(#[from] pem::Error),
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Configure(#[from] Error),
}

/// How connections are secured, and what the host has to know for it.
pub(crate) struct Secured {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Secured {
    /// For the host with the certificate `host`, as PEM.
    pub(crate) fn new(host: &str) -> Result<Self, TlsError> {
        let host = CertificateDer::from_pem_slice(host.as_bytes())?;
        let key = KeyPair::generate()?;
        let certificate = params()?.self_signed(&key)?.der().clone();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pin = Arc::new(Pin {
            certificate: host,
            algorithms: provider.signature_verification_algorithms,
        });
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(pin)
            .with_single_cert(vec![certificate.clone()], key.into())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificate,
        })
    }
}

fn params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

/// Takes one certificate and no other.
#[derive(Debug)]
struct Pin {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Pin {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if *end_entity == self.certificate {
            Ok(ClientCertVerified::assertion())
        } else {
            let other = CertificateError::ApplicationVerificationFailure;
            Err(Error::InvalidCertificate(other))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// A host: its certificate and its key.
    fn host() -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (params().unwrap().self_signed(&key).unwrap(), key)
    }

    /// Whether a client with these credentials, or none, is served.
    async fn is_served(secured: &Secured, client: Option<&(rcgen::Certificate, KeyPair)>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(secured.certificate.clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client {
            Some((certificate, key)) => {
                let key = PrivatePkcs8KeyDer::from(key.serialize_der());
                let key = aws_lc_rs::sign::any_supported_type(&key.into()).unwrap();
                // Whether key and certificate belong together is not looked at.
                let both = CertifiedKey::new(vec![certificate.der().clone()], key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(both)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (near, far) = duplex(64 * 1024);
        let serve = async {
            let acceptor = TlsAcceptor::from(Arc::clone(&secured.config));
            let mut stream = acceptor.accept(far).await?;
            stream.write_all(b"x").await?;
            stream.flush().await
        };
        let ask = async {
            let name = ServerName::try_from(NAME).unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let mut stream = connector.connect(name, near).await?;
            stream.read_exact(&mut [0]).await
        };
        let (served, asked) = tokio::join!(serve, ask);
        served.is_ok() && asked.is_ok()
    }

    #[tokio::test]
    async fn the_host_that_was_named_is_served_and_nobody_else() {
        let (known, stranger) = (host(), host());
        let secured = Secured::new(&known.0.pem()).unwrap();
        assert!(is_served(&secured, Some(&known)).await);
        assert!(!is_served(&secured, Some(&stranger)).await, "a stranger");
        assert!(!is_served(&secured, None).await, "nobody in particular");
        let stolen = (known.0, stranger.1);
        assert!(!is_served(&secured, Some(&stolen)).await, "without the key");
    }

    #[test]
    fn what_is_no_certificate_does_not_turn_security_off() {
        for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n"] {
            assert!(Secured::new(text).is_err(), "{text:?}");
        }
    }
}
