//! Ordinary text that looks a little like secrets or instructions and is neither: code, lock files,
//! logs, hashes, certificates, settings with blanks to fill in, prose.

use crate::rng::Rng;

/// Makes some lines.
type Make = fn(&mut Rng) -> String;

/// A sort of text and what makes some lines of it.
pub(crate) const SORTS: &[(&str, Make)] = &[
    ("Rust", rust),
    ("Python", python),
    ("TypeScript", typescript),
    ("Go", go),
    ("Java", java),
    ("C", c),
    ("shell", shell),
    ("SQL", sql),
    ("HTML and CSS", html),
    ("minified script", minified),
    ("lock files", locks),
    ("hashes and ids", hashes),
    ("git", git),
    ("logs", logs),
    ("stack traces", traces),
    ("certificates and public keys", certificates),
    ("images in base64", images),
    ("settings", settings),
    ("infrastructure", infrastructure),
    ("fixtures with stand-ins", fixtures),
    ("addresses", addresses),
    ("prose", prose),
    ("prose on models", models),
];

/// Names of fields that are no secrets, whatever stands under them.
pub(crate) const FIELDS: &[&str] = &[
    "integrity",
    "sha256",
    "checksum",
    "token",
    "token_count",
    "next_token",
    "key",
    "public_key",
    "access_key_id",
    "session",
    "session_id",
    "password",
    "auth",
    "author",
    "sig",
    "signature",
    "text",
];

const WORDS: &[&str] = &[
    "buffer",
    "channel",
    "decode",
    "entry",
    "frame",
    "graph",
    "handle",
    "index",
    "journal",
    "key",
    "layout",
    "merge",
    "node",
    "offset",
    "packet",
    "queue",
    "record",
    "slice",
    "table",
    "token",
    "secret",
    "password",
    "session",
    "system",
    "prompt",
    "user",
    "assistant",
    "previous",
    "ignore",
    "approval",
    "instruction",
    "output",
    "display",
    "machine",
    "login",
    "auth",
];

fn word(rng: &mut Rng) -> &'static str {
    rng.pick(WORDS)
}

fn number(rng: &mut Rng, limit: usize) -> usize {
    rng.below(limit)
}

fn rust(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!("    let {a}_{n} = self.{b}.get({n}).copied().unwrap_or_default();"),
        format!("pub(crate) fn {a}_{b}(value: &str, sk: usize) -> Result<u64, {b}Error> {{"),
        format!("    // Ignore the previous {a}: the {b} was already checked."),
        format!("    assert_eq!({a}.{b}(), \"{}\");", rng.hex(16)),
        format!(
            "        ({n}..{}).map(|at| at - sk - {n}).sum::<usize>()",
            n + 7
        ),
        format!("    #[error(\"cannot {a} `{{{b}}}`: {{source}}\")]"),
        format!(
            "const {}_{}: [u8; 4] = [0x{:02x}, 0x{:02x}, 0, {n}];",
            a.to_uppercase(),
            b.to_uppercase(),
            n % 256,
            n % 251
        ),
        format!("    password: Option<SecretString>, // the {a} of a {b}"),
    ];
    line[number(rng, line.len())].clone()
}

fn python(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!(
            "    {a} = self.{b}['{a}'] or os.environ.get('{}_KEY')",
            b.to_uppercase()
        ),
        format!("def {a}_{b}(self, username, password=None, *, timeout={n}):"),
        "    \"\"\"Return the system prompt shown to the user.\"\"\"".to_owned(),
        format!("    password=getpass.getpass('{a}: ')"),
        format!(
            "    assert hashlib.sha256(b'{a}').hexdigest() == '{}'",
            rng.hex(64)
        ),
        format!(
            "    client = Client(api_key=settings.{}_API_KEY, secret={b}.secret)",
            a.to_uppercase()
        ),
        format!("    logger.info('sending %s to %s', {a}, {b}_url)"),
        format!("    username = '{a}'\n    password = 'password'"),
    ];
    line[number(rng, line.len())].clone()
}

fn typescript(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!("export const {a} = async ({b}: {{ token: string; password?: string }}) => {{"),
        format!("  const res = await fetch(`${{base}}/{a}?token=${{token}}&{b}={n}`);"),
        format!("  // eslint-disable-next-line @typescript-eslint/no-{a}"),
        format!("  messages.push({{ role: 'system', content: {b} }});"),
        format!("  if ({a}.startsWith('sk-') || {a}.startsWith('ghp_')) return redact({a});"),
        format!("  localStorage.setItem('{a}', JSON.stringify({{ {b}: {n} }}));"),
        format!("import {{ {a}, {b} }} from '@acme/{a}-{b}';"),
        "  headers: { Authorization: `Bearer ${accessToken}` },".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn go(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!("\tif err := s.{a}.{b}(ctx, {n}); err != nil {{"),
        format!("\tdsn := fmt.Sprintf(\"postgres://%s:%s@%s/{a}\", user, pass, host)"),
        format!("func (s *Server) {a}(w http.ResponseWriter, r *http.Request) {{"),
        format!("\treturn fmt.Errorf(\"{a}: %w\", err)"),
        format!(
            "\tsecretKey = os.Getenv(\"{}_SECRET_ACCESS_KEY\")",
            b.to_uppercase()
        ),
    ];
    line[number(rng, line.len())].clone()
}

fn java(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!(
            "    private static final String {} = \"com.example.{a}.{b}\";",
            a.to_uppercase()
        ),
        format!(
            "    public void set{a}Password(final String password) {{ this.password = password; }}"
        ),
        format!("    @Value(\"${{{a}.{b}.password:#{{null}}}}\") private String secret{n};"),
        format!("        log.warn(\"Ignoring previous {a}, using {{}}\", {b});"),
        format!("        String url = \"jdbc:postgresql://localhost:5432/{a}?ssl=true&user={b}\";"),
    ];
    line[number(rng, line.len())].clone()
}

fn c(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!("static int {a}_{b}(struct {a} *sk, size_t n)"),
        format!("\tsk->sk_{b} = htons({n}); /* forget the previous {a} */"),
        format!(
            "#define {}_{} 0x{}u",
            a.to_uppercase(),
            b.to_uppercase(),
            rng.hex(8)
        ),
        format!("\tprintk(KERN_INFO \"{a}: %pK {b}\\n\", sk);"),
        format!(
            "\t0x{}, 0x{}, 0x{}, 0x{},",
            rng.hex(8),
            rng.hex(8),
            rng.hex(8),
            rng.hex(8)
        ),
    ];
    line[number(rng, line.len())].clone()
}

fn shell(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!(
            "curl -fsSL -H \"Authorization: token $GITHUB_TOKEN\" https://api.github.com/repos/acme/{a}"
        ),
        format!(
            "export {}_{}=\"${{{}:-}}\"",
            a.to_uppercase(),
            b.to_uppercase(),
            a.to_uppercase()
        ),
        format!("curl -X POST -d '{{\"{a}\": {n}}}' http://localhost:8080/{b}"),
        format!("docker run --rm -e PASSWORD=\"$PASSWORD\" acme/{a}:{n} {b}"),
        format!("aws s3 cp s3://{a}/{b}-{n}.tar.gz . --profile \"$AWS_PROFILE\""),
        "mysql -u root -p\"$MYSQL_ROOT_PASSWORD\" < dump.sql".to_owned(),
        "git clone https://$USER:$TOKEN@git.example.com/acme/app.git".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn sql(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!("SELECT {a}, {b} FROM {a}s WHERE id = {n} AND password_hash IS NOT NULL;"),
        format!(
            "INSERT INTO {a} (id, digest) VALUES ({n}, '{}');",
            rng.hex(40)
        ),
        format!("UPDATE users SET password = crypt($1, gen_salt('bf')) WHERE {b} = $2;"),
        format!("GRANT SELECT ON {a} TO {b};"),
    ];
    line[number(rng, line.len())].clone()
}

fn html(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 1_000));
    let line = [
        format!("<div class=\"{a} {b}\" style=\"display: none; color: #fff\">{a}</div>"),
        format!("<!-- {a}: TODO {n}, the {b} should be moved -->"),
        format!("<input type=\"password\" name=\"{a}\" placeholder=\"Your {b}\">"),
        format!(".{a} {{ opacity: 0; visibility: hidden; font-size: {n}px }}"),
        format!(
            "<script src=\"/{a}.js\" integrity=\"sha384-{}\"></script>",
            rng.base64(64)
        ),
        format!("<span aria-hidden=\"true\" style=\"font-size:0\">{b}</span>"),
        format!(
            "![{a}](https://img.shields.io/badge/{a}-{n}-green.svg?style=flat-square&logo={b})"
        ),
    ];
    line[number(rng, line.len())].clone()
}

fn minified(rng: &mut Rng) -> String {
    let functions: Vec<String> = (0..20)
        .map(|_| {
            let (a, b, n) = (word(rng), word(rng), number(rng, 99));
            let name = rng.text("abcdefgh", 2);
            format!("function {name}(e,t){{return e.{a}=t.{b}||{n},e}}")
        })
        .collect();
    let map = rng.base64(120);
    let map = format!("//# sourceMappingURL=data:application/json;base64,{map}");
    functions.concat() + &map
}

fn locks(rng: &mut Rng) -> String {
    let (a, n) = (word(rng), number(rng, 30));
    let line = [
        format!(
            "name = \"{a}\"\nversion = \"{n}.1.0\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"{}\"",
            rng.hex(64)
        ),
        format!(
            "    \"node_modules/{a}\": {{\n      \"version\": \"{n}.2.3\",\n      \"resolved\": \"https://registry.npmjs.org/{a}/-/{a}-{n}.2.3.tgz\",\n      \"integrity\": \"sha512-{}==\"",
            rng.base64(86)
        ),
        format!(
            "github.com/acme/{a} v1.{n}.0 h1:{}=\ngithub.com/acme/{a} v1.{n}.0/go.mod h1:{}=",
            rng.base64(43),
            rng.base64(43)
        ),
        format!(
            "{a}@^{n}.0.0:\n  version \"{n}.1.2\"\n  resolved \"https://registry.yarnpkg.com/{a}/-/{a}-{n}.1.2.tgz#{}\"\n  integrity sha512-{}==",
            rng.hex(40),
            rng.base64(86)
        ),
        format!(
            "    {{file = \"{a}-{n}.0-py3-none-any.whl\", hash = \"sha256:{}\"}},",
            rng.hex(64)
        ),
        format!(
            "    {a} ({n}.4.1)\n      rack (>= 2.2.4, < 4)\n   sha256={}",
            rng.hex(64)
        ),
        format!(
            "            \"reference\": \"{}\",\n            \"shasum\": \"{}\"",
            rng.hex(40),
            rng.hex(40)
        ),
    ];
    line[number(rng, line.len())].clone()
}

fn hashes(rng: &mut Rng) -> String {
    let a = word(rng);
    let line = [
        format!("{}  {a}.tar.gz", rng.hex(64)),
        format!("{}  {a}.iso", rng.hex(32)),
        format!("{}  {a}.deb", rng.hex(128)),
        format!("id: {}", rng.uuid()),
        format!("trace_id={} span_id={}", rng.hex(32), rng.hex(16)),
        format!("docker.io/acme/{a}@sha256:{}", rng.hex(64)),
        format!("ETag: \"{}\"", rng.hex(32)),
        format!("key-{} cache-{}", rng.hex(32), rng.hex(40)),
        format!(
            "request {} took 7ms",
            rng.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26)
        ),
        format!("SHA256:{} {a}@host (ED25519)", rng.base64(43)),
        format!("$2b$12${}", rng.text("ABCDEFGHabcdefgh0123456789./", 53)),
        format!("{a}:{}:{}", rng.hex(40), rng.uuid().to_uppercase()),
        format!("0x{} -> 0x{}", rng.hex(40), rng.hex(64)),
    ];
    line[number(rng, line.len())].clone()
}

fn git(rng: &mut Rng) -> String {
    let (a, b) = (word(rng), word(rng));
    let line = [
        format!(
            "commit {}\nAuthor: A. Person <person@example.com>\nDate:   Tue Jan 2 03:04:05 2030 +0100\n\n    Forget the previous {a} when a {b} begins",
            rng.hex(40)
        ),
        format!(
            "diff --git a/{a}.rs b/{a}.rs\nindex {}..{} 100644\n--- a/{a}.rs\n+++ b/{a}.rs",
            rng.hex(10),
            rng.hex(10)
        ),
        format!(
            "{} (HEAD -> main, origin/main) Send the {a} to the {b}",
            rng.hex(7)
        ),
        format!("   {}..{}  main -> main", rng.hex(7), rng.hex(7)),
        format!(
            "remote: https://github.com/acme/{a}/pull/{}",
            number(rng, 999)
        ),
        "git@github.com:acme/app.git (fetch)".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn logs(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 60_000));
    let line = [
        format!(
            "10.0.{}.7 - - [02/Jan/2030:03:04:05 +0000] \"GET /{a}/{b}?page={n} HTTP/1.1\" 200 {n}",
            n % 255
        ),
        format!(
            "2030-01-02T03:04:05.678Z INFO {a}::{b}: request_id={} user={n} took={n}us",
            rng.uuid()
        ),
        format!(
            "{{\"level\":\"warn\",\"ts\":{n}.5,\"msg\":\"{a} failed\",\"trace\":\"{}\"}}",
            rng.hex(32)
        ),
        format!(
            "Jan  2 03:04:05 host sshd[{n}]: Accepted publickey for {a} from 10.0.0.7 port {n} ssh2: ED25519 SHA256:{}",
            rng.base64(43)
        ),
        format!(
            "E0102 03:04:05.678901       1 {a}.go:{n}] pod {b}-{}-{} not ready",
            rng.hex(10),
            rng.text("bcdfghjklmnpqrstvwxz2456789", 5)
        ),
        format!("[{n}.123456] {a}: {b} password authentication enabled"),
        format!("   Compiling {a} v1.{}.0 (/src/{b})", n % 99),
        format!("PASS tests/{a}.test.ts ({n} ms) - {b} ignores previous {a}"),
        "user has approved the terms of use; sending confirmation to the address on file"
            .to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn traces(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 900));
    let line = [
        format!("\tat com.example.{a}.{b}Handler.handle({b}Handler.java:{n})"),
        format!("  File \"/usr/lib/python3/{a}/{b}.py\", line {n}, in {a}"),
        format!("    at async {a}.{b} (file:///src/{a}.mjs:{n}:13)"),
        format!(
            "  {n}: {a}::{b}::h{}\n             at ./src/{a}.rs:{n}:9",
            rng.hex(16)
        ),
        format!("goroutine {n} [running]:\nmain.{a}(0xc000{})", rng.hex(6)),
    ];
    line[number(rng, line.len())].clone()
}

fn certificates(rng: &mut Rng) -> String {
    let body = |rng: &mut Rng| {
        (0..6)
            .map(|_| rng.base64(64))
            .collect::<Vec<_>>()
            .join("\n")
    };
    match number(rng, 6) {
        0 => format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----",
            body(rng)
        ),
        1 => format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----",
            body(rng)
        ),
        2 => format!(
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} user@host",
            rng.base64(43)
        ),
        3 => format!(
            "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{} user@host",
            rng.base64(372)
        ),
        4 => format!(
            "-----BEGIN PGP SIGNATURE-----\n\n{}\n={}\n-----END PGP SIGNATURE-----",
            body(rng),
            rng.base64(4)
        ),
        _ => format!(
            "|1|{}=|{}= ecdsa-sha2-nistp256 AAAAE2VjZHNh{}=",
            rng.base64(27),
            rng.base64(27),
            rng.base64(120)
        ),
    }
}

fn images(rng: &mut Rng) -> String {
    match number(rng, 3) {
        0 => format!(
            "<img src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{}\">",
            rng.base64(400)
        ),
        1 => format!(
            "src: url(data:font/woff2;base64,d09GMgABAAAAA{})",
            rng.base64(300)
        ),
        _ => (0..4)
            .map(|_| rng.base64(76))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn settings(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 9_000));
    let upper = a.to_uppercase();
    let line = [
        format!("{upper}_PASSWORD="),
        format!("{upper}_API_KEY=<your-{b}-key>"),
        format!("{upper}_URL=postgres://user:password@localhost:5432/{b}"),
        format!("{upper}_DSN=mysql://${{USER}}:${{PASSWORD}}@db/{b}"),
        format!("{a}:\n  username: admin\n  password: changeme"),
        format!("  password: \"{{{{ .Values.{a}.password }}}}\""),
        format!("{a}.{b}.timeout={n}\n{a}.password=${{{upper}_PASSWORD}}"),
        "machine example.com login user password <token>".to_owned(),
        "//registry.npmjs.org/:_authToken=${NPM_TOKEN}".to_owned(),
        format!("Server=localhost;Database={a};Integrated Security=true;Timeout={n}"),
        format!("redis://localhost:6379/{n}"),
        "aws_access_key_id = \naws_secret_access_key = ".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn infrastructure(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 9_000));
    let line = [
        format!("  uid: {}\n  resourceVersion: \"{n}\"", rng.uuid()),
        format!("resource \"aws_{a}\" \"{b}\" {{\n  arn = \"arn:aws:iam::{n:012}:role/{a}\"\n}}"),
        format!(
            "        valueFrom:\n          secretKeyRef:\n            name: {a}\n            key: {b}-password"
        ),
        format!("  image: ghcr.io/acme/{a}:{}", rng.hex(40)),
        format!(
            "subnet-{} sg-{} vpc-{}",
            rng.hex(17),
            rng.hex(17),
            rng.hex(17)
        ),
        format!("  annotations:\n    checksum/{a}: {}", rng.hex(64)),
        format!("Environment=\"{}_FILE=/run/secrets/{b}\"", a.to_uppercase()),
    ];
    line[number(rng, line.len())].clone()
}

fn fixtures(rng: &mut Rng) -> String {
    let a = word(rng);
    let line = [
        format!("token = \"ghp_{}\"", "x".repeat(36)),
        format!("aws_access_key_id = {}EXAMPLE", "AKIAIOSFODNN7"),
        format!("const {a}Key = 'sk-your-api-key-here';"),
        "glpat-xxxxxxxxxxxxxxxxxxxx".to_owned(),
        format!("API_KEY=sk-{}", "0".repeat(48)),
        "xoxb-your-token-goes-here".to_owned(),
        format!("expect(mask('{}')).toBe('***')", "1234567890abcdef"),
        format!(
            "https://hooks.slack.com/services/{}",
            "T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
        ),
        "if key.startswith('-----BEGIN PRIVATE KEY-----'):".to_owned(),
        "header = '-----BEGIN RSA PRIVATE KEY-----' # then the key follows".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn addresses(rng: &mut Rng) -> String {
    let (a, b, n) = (word(rng), word(rng), number(rng, 9_000));
    let line = [
        format!("https://example.com/{a}/{b}?id={n}&sig={}", rng.hex(16)),
        format!("https://user@example.com:{n}/{a}"),
        format!("https://{a}.example.com:8443/{b}@{n}/x:y"),
        format!("https://cdn.example.com/{}/{a}.min.js", rng.hex(20)),
        format!(
            "https://youtu.be/{}?t={n}",
            rng.text("abcdefABCDEF0123456789_-", 11)
        ),
        format!("git+ssh://git@example.com/{a}.git#{}", rng.hex(40)),
        format!(
            "https://docs.google.com/document/d/1{}/edit",
            rng.text("abcdefABCDEF0123456789_-", 43)
        ),
    ];
    line[number(rng, line.len())].clone()
}

fn prose(rng: &mut Rng) -> String {
    let (a, b) = (word(rng), word(rng));
    let line = [
        format!("The {a} of a {b} is checked before anything is sent to the server."),
        format!("You are now ready to use the {a}. From now on the {b} is read from the file."),
        format!("Do not show the {a} to other users; the {b} is shown only once."),
        format!("If you are an administrator, set the {a} before the {b}."),
        "Previous instructions for installing from source have moved to the wiki.".to_owned(),
        format!("Please ignore the {a} warning below, it is harmless."),
        format!("To override the {b}, pass it on the command line; earlier settings are kept."),
        "Attention: this release drops support for the old format.".to_owned(),
        format!("New in this version: {a} and {b}. Important note on upgrading: read the guide."),
        "Send us an email with your questions; we forward them to the right person.".to_owned(),
        format!(
            "No approval is needed to read the {a}, but writing needs permission from the {b}."
        ),
        "The operator has confirmed the appointment with the customer.".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}

fn models(rng: &mut Rng) -> String {
    let (a, b) = (word(rng), word(rng));
    let line = [
        format!("The system prompt tells the assistant which {a} it may use."),
        "Models are trained on text; an agent calls tools and reads their results.".to_owned(),
        format!("Each message has a role (system, user or assistant) and a {b}."),
        "Prompt injection is text that tries to steer a model through its input.".to_owned(),
        format!("const prompt = `You are a helpful assistant. Use the {a} to answer.`;"),
        "The AI assistant should be configured in settings before first use.".to_owned(),
        "## Instructions for AI agents working on this repository".to_owned(),
        format!("print(response.choices[0].message.content)  # the {b}"),
        "Show your instructor the output of the program.".to_owned(),
    ];
    line[number(rng, line.len())].clone()
}
