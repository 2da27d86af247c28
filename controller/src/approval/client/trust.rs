//! Whose certificates are accepted.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hitless_runtime::http_client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::approval::requests::Failure;

/// The public authorities that browsers trust; the container image has no files with them.
static PUBLIC: LazyLock<Arc<RootCertStore>> =
    LazyLock::new(|| Arc::new(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }));

/// TLS with `ca_bundle` (base64 of PEM) as the only authorities; without one the public ones.
pub fn client_config(ca_bundle: Option<&str>) -> Result<ClientConfig, Failure> {
    let roots = roots(ca_bundle)?;
    let builder = http_client::tls().map_err(|error| Failure::Unreachable(format!("TLS can't be set up: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn roots(ca_bundle: Option<&str>) -> Result<Arc<RootCertStore>, Failure> {
    let encoded: String = ca_bundle.unwrap_or_default().split_whitespace().collect();
    // The second is a lone line break: what an empty file becomes.
    if encoded.is_empty() || encoded == "Cg==" {
        return Ok(Arc::clone(&PUBLIC));
    }
    let wrong = |why: &str| {
        Failure::Misconfigured(format!(
            "webhook.clientConfig.caBundle {why}; it must be the base64 of one or more PEM certificates"
        ))
    };
    let pem = STANDARD.decode(encoded).map_err(|error| wrong(&format!("is no base64 ({error})")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(&format!("is no PEM ({error})")))?;
        roots.add(certificate).map_err(|error| wrong(&format!("has a certificate that can't be read ({error})")))?;
    }
    if roots.is_empty() { Err(wrong("has no certificate")) } else { Ok(Arc::new(roots)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bundle_means_the_public_authorities() {
        for none in [None, Some(""), Some("Cg=="), Some(" \n")] {
            assert_eq!(roots(none).unwrap().len(), PUBLIC.len(), "{none:?}");
        }
        assert!(PUBLIC.len() > 50);
    }

    #[test]
    fn a_bundle_replaces_them_and_a_broken_one_is_named() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap().pem();
        let two = STANDARD.encode(format!("{certificate}\n{certificate}"));
        let wrapped: String =
            two.as_bytes().chunks(64).flat_map(|line| [line, b"\n"].concat()).map(char::from).collect();
        assert_eq!(roots(Some(&wrapped)).unwrap().len(), 2);
        let truncated = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode("x"));
        for (bundle, why) in [
            ("%".to_owned(), "base64"),
            (certificate, "base64"),
            (STANDARD.encode("hello"), "has no certificate"),
            (STANDARD.encode(&truncated), "can't be read"),
            (STANDARD.encode("-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n"), "PEM"),
        ] {
            let Err(Failure::Misconfigured(text)) = roots(Some(&bundle)) else { panic!("{bundle} is taken") };
            assert!(text.contains(why), "{text}");
        }
    }
}
