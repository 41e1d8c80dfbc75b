//! Variables that make loaders, interpreters, version control or clients run or trust something
//! else. They never pass into a sandbox, whatever a plan lists.
//!
//! Matched in any case: some programs read `http_proxy`, others `HTTP_PROXY`. Where a whole family
//! is refused by its beginning, the few members people need and nothing can abuse are excepted.

/// Which names a row of the table means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// This one, in any case.
    Exactly(&'static str),
    /// All that begin so, in any case.
    Beginning(&'static str),
}

impl Names {
    fn hold(self, name: &[u8]) -> bool {
        match self {
            Self::Exactly(text) => name.eq_ignore_ascii_case(text.as_bytes()),
            Self::Beginning(text) => name
                .get(..text.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(text.as_bytes())),
        }
    }
}

/// Variables that never pass, and what they do.
pub const HIJACKS: &[(Names, &str)] = {
    const LOADER: &str = "makes the loader run other code";
    const SHELL: &str = "makes shells run other code";
    const INTERPRETER: &str = "makes an interpreter run other code";
    const BUILD: &str = "makes a build tool run other programs";
    const GIT: &str = "makes git use other programs, files or repositories";
    const PROXY: &str = "leads clients to another proxy";
    const TRUST: &str = "makes clients trust other certificates, or record their keys";
    const AGENT: &str = "leads to an agent or service outside the sandbox";
    const OWN: &str = "is how Airlock speaks to its own processes";
    &[
        (Names::Beginning("LD_"), LOADER),
        (Names::Beginning("DYLD_"), LOADER),
        (Names::Beginning("GLIBC_"), LOADER),
        (Names::Exactly("GCONV_PATH"), LOADER),
        (Names::Exactly("LOCPATH"), LOADER),
        (Names::Exactly("NLSPATH"), LOADER),
        (Names::Beginning("MALLOC_"), LOADER),
        (Names::Exactly("HOSTALIASES"), PROXY),
        (Names::Exactly("LOCALDOMAIN"), PROXY),
        (Names::Exactly("RES_OPTIONS"), PROXY),
        (Names::Exactly("RESOLV_HOST_CONF"), PROXY),
        (Names::Exactly("GETCONF_DIR"), LOADER),
        (Names::Exactly("BASH_ENV"), SHELL),
        (Names::Beginning("BASH_FUNC_"), SHELL),
        (Names::Exactly("BASHOPTS"), SHELL),
        (Names::Exactly("SHELLOPTS"), SHELL),
        (Names::Exactly("ENV"), SHELL),
        (Names::Exactly("IFS"), SHELL),
        (Names::Exactly("PS4"), SHELL),
        (Names::Exactly("PROMPT_COMMAND"), SHELL),
        (Names::Exactly("CDPATH"), SHELL),
        (Names::Exactly("GLOBIGNORE"), SHELL),
        (Names::Exactly("ZDOTDIR"), SHELL),
        (Names::Beginning("PYTHON"), INTERPRETER),
        (Names::Beginning("PERL"), INTERPRETER),
        (Names::Beginning("RUBY"), INTERPRETER),
        (Names::Beginning("GEM_"), INTERPRETER),
        (Names::Beginning("BUNDLE_"), INTERPRETER),
        (Names::Beginning("NODE_"), INTERPRETER),
        (Names::Beginning("NPM_CONFIG_"), INTERPRETER),
        (Names::Beginning("ELECTRON_"), INTERPRETER),
        (Names::Beginning("LUA_"), INTERPRETER),
        (Names::Beginning("PHP"), INTERPRETER),
        (Names::Beginning("_JAVA_"), INTERPRETER),
        (Names::Exactly("JAVA_TOOL_OPTIONS"), INTERPRETER),
        (Names::Exactly("JDK_JAVA_OPTIONS"), INTERPRETER),
        (Names::Exactly("JAVA_OPTS"), INTERPRETER),
        (Names::Exactly("CLASSPATH"), INTERPRETER),
        (Names::Beginning("MAVEN_"), BUILD),
        (Names::Beginning("GRADLE_"), BUILD),
        (Names::Beginning("DOTNET_"), INTERPRETER),
        (Names::Beginning("CORECLR_"), INTERPRETER),
        (Names::Beginning("COMPLUS_"), INTERPRETER),
        (Names::Exactly("GOFLAGS"), BUILD),
        (Names::Exactly("GOENV"), BUILD),
        (Names::Exactly("GOPROXY"), PROXY),
        (Names::Beginning("CGO_"), BUILD),
        (Names::Exactly("RUSTC"), BUILD),
        (Names::Beginning("RUSTC_"), BUILD),
        (Names::Exactly("RUSTFLAGS"), BUILD),
        (Names::Exactly("RUSTDOC"), BUILD),
        (Names::Exactly("CARGO"), BUILD),
        (Names::Beginning("CARGO_BUILD_"), BUILD),
        (Names::Beginning("CARGO_TARGET_"), BUILD),
        (Names::Beginning("CARGO_HTTP_"), PROXY),
        (Names::Beginning("CARGO_REGISTR"), PROXY),
        (Names::Beginning("PIP_"), PROXY),
        (Names::Beginning("UV_"), PROXY),
        (Names::Exactly("MAKEFLAGS"), BUILD),
        (Names::Exactly("MFLAGS"), BUILD),
        (Names::Exactly("MAKEFILES"), BUILD),
        (Names::Exactly("GCC_EXEC_PREFIX"), BUILD),
        (Names::Exactly("COMPILER_PATH"), BUILD),
        (Names::Beginning("GIT_"), GIT),
        (Names::Exactly("SSH_ASKPASS"), GIT),
        (Names::Exactly("EDITOR"), GIT),
        (Names::Exactly("VISUAL"), GIT),
        (Names::Exactly("PAGER"), GIT),
        (Names::Exactly("BROWSER"), GIT),
        (Names::Beginning("LESS"), GIT),
        (Names::Exactly("HTTP_PROXY"), PROXY),
        (Names::Exactly("HTTPS_PROXY"), PROXY),
        (Names::Exactly("ALL_PROXY"), PROXY),
        (Names::Exactly("FTP_PROXY"), PROXY),
        (Names::Exactly("NO_PROXY"), PROXY),
        (Names::Beginning("SSL_CERT_"), TRUST),
        (Names::Exactly("SSLKEYLOGFILE"), TRUST),
        (Names::Beginning("OPENSSL_"), TRUST),
        (Names::Exactly("CURL_CA_BUNDLE"), TRUST),
        (Names::Exactly("CURL_HOME"), PROXY),
        (Names::Exactly("WGETRC"), PROXY),
        (Names::Exactly("REQUESTS_CA_BUNDLE"), TRUST),
        (Names::Exactly("SSH_AUTH_SOCK"), AGENT),
        (Names::Exactly("SSH_AGENT_PID"), AGENT),
        (Names::Exactly("GPG_AGENT_INFO"), AGENT),
        (Names::Exactly("GNUPGHOME"), AGENT),
        (Names::Beginning("DBUS_"), AGENT),
        (Names::Exactly("DOCKER_HOST"), AGENT),
        (Names::Exactly("CONTAINER_HOST"), AGENT),
        (Names::Exactly("KUBECONFIG"), AGENT),
        (Names::Exactly("XDG_RUNTIME_DIR"), AGENT),
        (Names::Exactly("DISPLAY"), AGENT),
        (Names::Exactly("WAYLAND_DISPLAY"), AGENT),
        (Names::Exactly("XAUTHORITY"), AGENT),
        (Names::Beginning("AIRLOCK_"), OWN),
    ]
};

/// Names a row of the table would take along, which only change how a program behaves.
const HARMLESS: &[&str] = &[
    "NODE_ENV",
    "NODE_DISABLE_COLORS",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
];

/// What `name` would do, if it is one of them.
pub(super) fn hijack(name: &[u8]) -> Option<&'static str> {
    if HARMLESS.iter().any(|harmless| name == harmless.as_bytes()) {
        return None;
    }
    let row = HIJACKS.iter().find(|(names, _)| names.hold(name));
    row.map(|(_, reason)| *reason)
}
