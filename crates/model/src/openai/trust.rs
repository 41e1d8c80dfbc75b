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
    // Signed by somebody who has the name of a known authority but not its key: unknown, too.
    let unknown = matches!(found, Found::UnknownIssuer | Found::BadSignature);
    let another = matches!(
        found,
        Found::NotValidForName | Found::NotValidForNameContext { .. }
    );
    let old = matches!(found, Found::Expired | Found::ExpiredContext { .. });
    let young = matches!(found, Found::NotValidYet | Found::NotValidYetContext { .. });
    Some(match (unknown, another, old, young) {
        (true, ..) => CertificateFault::UnknownIssuer,
        (_, true, ..) => CertificateFault::WrongName,
        (_, _, true, _) => CertificateFault::Expired,
        (.., true) => CertificateFault::NotYetValid,
        // Whatever else there is, or will be: it does not hold.
        (false, false, false, false) => CertificateFault::Other(found.to_string()),
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
