//! The cluster's certificates and kubeconfigs. They are made anew for each cluster and go with it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{Error, Result};

/// A directory of keys and certificates, with the authority that signs them.
pub(crate) struct Pki {
    directory: PathBuf,
    authority: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Makes the directory, the authority (`ca.crt`) and the key of service-account tokens (`sa.key`, `sa.pub`).
    pub(crate) fn make(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
        let (certificate, authority) = authority().map_err(failed("hitless-ca"))?;
        let tokens = KeyPair::generate().map_err(failed("service accounts"))?;
        let pki = Self { directory: directory.to_path_buf(), authority };
        pki.write("ca.crt", &certificate)?;
        pki.write("sa.key", &tokens.serialize_pem())?;
        pki.write("sa.pub", &tokens.public_key_pem())?;
        Ok(pki)
    }

    /// Makes `<name>.crt` and `<name>.key` for a user (common name) in a group (organisation), valid for the given
    /// host names and addresses.
    pub(crate) fn issue(&self, name: &str, user: &str, group: Option<&str>, hosts: &[String]) -> Result<()> {
        let (certificate, key) = self.sign(user, group, hosts).map_err(failed(user))?;
        self.write(&format!("{name}.crt"), &certificate)?;
        self.write(&format!("{name}.key"), &key)
    }

    /// Writes a kubeconfig that identifies itself to the API server with the certificate `<name>`.
    pub(crate) fn kubeconfig(&self, name: &str, api_server: SocketAddr, to: &Path) -> Result<()> {
        let path = |file: String| self.directory.join(file).to_string_lossy().into_owned();
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": {
                "server": format!("https://{api_server}"),
                "certificate-authority": path("ca.crt".into()),
            }}],
            "users": [{"name": name, "user": {
                "client-certificate": path(format!("{name}.crt")),
                "client-key": path(format!("{name}.key")),
            }}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": name}}],
            "current-context": "context",
        });
        fs::write(to, format!("{config:#}\n")).map_err(Error::file("write", to))
    }

    fn sign(&self, user: &str, group: Option<&str>, hosts: &[String]) -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.authority)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))?;
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).map_err(Error::file("protect", &path))
    }
}

fn authority() -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "hitless-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?.pem();
    Ok((certificate, Issuer::new(params, key)))
}

fn failed(subject: &str) -> impl Fn(rcgen::Error) -> Error {
    let subject = subject.to_owned();
    move |source| Error::Certificate { subject: subject.clone(), source }
}
