//! Mutual TLS as go-plugin does it: each side makes a certificate for this one connection, tells the
//! other, and takes no other certificate than the one it was told.
//!
//! Certificates are compared byte for byte, so nothing they say about themselves counts: go-plugin's
//! are their own authorities, which the usual rules do not take for the end of a chain. The proof
//! that the peer has the key is checked as always.

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// What the other side must speak on top.
const HTTP2: &[u8] = b"h2";
/// What each side thinks the other is called. Libraries of go-plugin say the first, the oldest of them
/// the second where they connect to a brokered connection.
const NAMES: [&str; 2] = ["localhost", "unused"];

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// What the other side told is no certificate.
    #[error("what the other side gives as its certificate is none: {0}")]
    Peer(#[from] pem::Error),
    /// None could be made for this side.
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
    /// The certificates do not do for TLS.
    #[error(transparent)]
    Configure(#[from] Error),
}

/// The certificate in a PEM text.
pub fn certificate(pem: &str) -> Result<CertificateDer<'static>, TlsError> {
    Ok(CertificateDer::from_pem_slice(pem.as_bytes())?)
}

/// One side's certificate and key, for the connections of one plugin.
pub struct Identity {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Identity {
    /// The host's. Its own authority, as go-plugin's are: libraries of old look for one.
    pub fn host() -> Result<Self, TlsError> {
        let mut params = params()?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages.push(KeyUsagePurpose::KeyCertSign);
        Self::new(&params)
    }

    /// A plugin's.
    pub fn plugin() -> Result<Self, TlsError> {
        Self::new(&params()?)
    }

    /// On P-256, because not every TLS library takes the curve go-plugin uses.
    fn new(params: &CertificateParams) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key,
        })
    }

    /// The certificate as the environment of a plugin has it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The certificate as a handshake line has it, once encoded.
    pub fn der(&self) -> &[u8] {
        &self.certificate
    }

    /// For connecting to whoever has `certificate`.
    pub fn client(&self, certificate: &[u8]) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pin = Arc::new(Pin::new(certificate, &provider));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(pin)
            .with_client_auth_cert(vec![self.certificate.clone()], self.private_key())?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Arc::new(config))
    }

    /// For being connected to by whoever has `certificate`.
    pub fn server(&self, certificate: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pin = Arc::new(Pin::new(certificate, &provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(pin)
            .with_single_cert(vec![self.certificate.clone()], self.private_key())?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Arc::new(config))
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

fn params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, NAMES.concat());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    Ok(params)
}

/// The name that is asked for. Nothing depends on it: the certificate is known.
pub fn server_name() -> Result<ServerName<'static>, Error> {
    let [name, _] = NAMES;
    ServerName::try_from(name).map_err(|_| Error::General("a name is none".to_owned()))
}

/// Takes one certificate and no other.
#[derive(Debug)]
struct Pin {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    fn new(certificate: &[u8], provider: &CryptoProvider) -> Self {
        Self {
            certificate: CertificateDer::from(certificate.to_vec()),
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn holds(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if *shown == self.certificate {
            Ok(())
        } else {
            let other = CertificateError::ApplicationVerificationFailure;
            Err(Error::InvalidCertificate(other))
        }
    }
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.holds(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
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
        self.holds(end_entity)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// Whether a byte goes to and fro between these two.
    async fn agree(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> bool {
        let (near, far) = duplex(64 * 1024);
        let answer = async {
            let mut stream = TlsAcceptor::from(server).accept(far).await?;
            let mut byte = [0];
            stream.read_exact(&mut byte).await?;
            stream.write_all(&byte).await?;
            stream.flush().await
        };
        let call = async {
            let connector = TlsConnector::from(client);
            let mut stream = connector.connect(server_name().unwrap(), near).await?;
            stream.write_all(b"x").await?;
            stream.flush().await?;
            let mut byte = [0];
            stream.read_exact(&mut byte).await
        };
        let (answered, called) = tokio::join!(answer, call);
        answered.is_ok() && called.is_ok()
    }

    /// A client that takes the server's certificate and shows what `shows` says, or nothing.
    fn client(server: &Identity, shows: Option<(&Identity, &Identity)>) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pin = Arc::new(Pin::new(server.der(), &provider));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(pin);
        let mut config = match shows {
            Some((certificate, key)) => {
                let key = aws_lc_rs::sign::any_supported_type(&key.private_key()).unwrap();
                // Whether key and certificate belong together is not looked at.
                let both = CertifiedKey::new(vec![certificate.certificate.clone()], key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(both)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Arc::new(config)
    }

    #[tokio::test]
    async fn each_side_takes_the_certificate_it_was_told_and_no_other() {
        let (host, plugin) = (Identity::host().unwrap(), Identity::plugin().unwrap());
        let stranger = Identity::host().unwrap();
        for (case, client, server, want) in [
            (
                "each other",
                host.client(plugin.der()),
                plugin.server(host.der()),
                true,
            ),
            (
                "the other way",
                plugin.client(host.der()),
                host.server(plugin.der()),
                true,
            ),
            (
                "another server",
                host.client(plugin.der()),
                stranger.server(host.der()),
                false,
            ),
            (
                "another client",
                stranger.client(plugin.der()),
                plugin.server(host.der()),
                false,
            ),
        ] {
            assert_eq!(
                agree(client.unwrap(), server.unwrap()).await,
                want,
                "{case}"
            );
        }
    }

    #[tokio::test]
    async fn a_certificate_counts_only_with_its_key() {
        let (host, plugin) = (Identity::host().unwrap(), Identity::plugin().unwrap());
        let stranger = Identity::host().unwrap();
        for (case, shows, want) in [
            ("the host", Some((&host, &host)), true),
            ("nobody in particular", None, false),
            ("without the key", Some((&host, &stranger)), false),
            ("a stranger", Some((&stranger, &stranger)), false),
        ] {
            let server = plugin.server(host.der()).unwrap();
            assert_eq!(agree(client(&plugin, shows), server).await, want, "{case}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n"] {
            assert!(certificate(text).is_err(), "{text:?}");
        }
        let host = Identity::host().unwrap();
        assert_eq!(*certificate(host.pem()).unwrap(), *host.der());
    }
}
