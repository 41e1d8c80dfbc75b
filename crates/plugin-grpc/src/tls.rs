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
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// What the other side must speak on top.
const HTTP2: &[u8] = b"h2";
/// What plugins think the host is called. Libraries of go-plugin say the first, the oldest of them
/// the second where they connect to a brokered connection.
const NAMES: [&str; 2] = ["localhost", "unused"];

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Configure(#[from] Error),
}

/// The host's side of one plugin's connections.
pub(crate) struct Host {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Host {
    /// A new certificate. P-256, because not every TLS library takes the curve go-plugin uses.
    pub(crate) fn new() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, NAMES.concat());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key,
        })
    }

    /// The certificate as a plugin reads it.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// For connecting to the plugin with `certificate`.
    pub(crate) fn client(&self, certificate: &[u8]) -> Result<Arc<ClientConfig>, TlsError> {
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

    /// For being connected to by the plugin with `certificate`.
    pub(crate) fn server(&self, certificate: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
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

/// The name that is asked for. Nothing depends on it: the certificate is known.
pub(crate) fn server_name() -> Result<ServerName<'static>, Error> {
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// Whether a client that expects `server` and a server that expects `client` come to terms.
    async fn agree(
        (client, client_expects): (&Host, &Host),
        (server, server_expects): (&Host, &Host),
    ) -> bool {
        let connector = TlsConnector::from(client.client(&client_expects.certificate).unwrap());
        let acceptor = TlsAcceptor::from(server.server(&server_expects.certificate).unwrap());
        let (near, far) = duplex(64 * 1024);
        let answer = async {
            let mut stream = acceptor.accept(far).await?;
            let mut byte = [0];
            stream.read_exact(&mut byte).await?;
            stream.write_all(&byte).await?;
            stream.flush().await
        };
        let call = async {
            let mut stream = connector.connect(server_name().unwrap(), near).await?;
            stream.write_all(b"x").await?;
            stream.flush().await?;
            let mut byte = [0];
            stream.read_exact(&mut byte).await
        };
        let (answered, called) = tokio::join!(answer, call);
        answered.is_ok() && called.is_ok()
    }

    #[tokio::test]
    async fn each_side_takes_the_certificate_it_was_told_and_no_other() {
        let (host, plugin, stranger) = (
            Host::new().unwrap(),
            Host::new().unwrap(),
            Host::new().unwrap(),
        );
        assert!(agree((&host, &plugin), (&plugin, &host)).await);
        assert!(
            !agree((&host, &plugin), (&stranger, &host)).await,
            "another server"
        );
        assert!(
            !agree((&stranger, &plugin), (&plugin, &host)).await,
            "another client"
        );
    }
}
