//! Certificates that do not hold: why, out of what the layers below say.

use crate::error::CertificateFault;
use rustls::CertificateError as Found;
use std::error::Error;
use std::io;

/// What is wrong with the certificate, if that is why there is no connection.
pub(crate) fn fault(error: &(dyn Error + 'static)) -> Option<CertificateFault> {
    let rustls::Error::InvalidCertificate(found) = encrypting(error)? else {
        return None;
    };
    Some(match found {
        // Signed by somebody who has the name of a known authority, and not its key.
        Found::UnknownIssuer | Found::BadSignature => CertificateFault::UnknownIssuer,
        Found::NotValidForName | Found::NotValidForNameContext { .. } => {
            CertificateFault::WrongName
        }
        Found::Expired | Found::ExpiredContext { .. } => CertificateFault::Expired,
        Found::NotValidYet | Found::NotValidYetContext { .. } => CertificateFault::NotYetValid,
        // Whatever else there is, or will be: it does not hold.
        other => CertificateFault::Other(other.to_string()),
    })
}

/// What the layer that encrypts said. Errors of input and output hide it from their sources.
fn encrypting<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(found) = error.downcast_ref::<rustls::Error>() {
        return Some(found);
    }
    let inside = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let inside = inside.map(|inside| inside as &(dyn Error + 'static));
    inside
        .and_then(encrypting)
        .or_else(|| error.source().and_then(encrypting))
}
