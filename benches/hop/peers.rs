//! The programs that are compared, each configured as its manual says for this job: plain HTTP in, mutual TLS and kept-alive
//! connections out.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::machine::Process;
use super::stage::{Stage, free_port, listens, this_program};

/// A running proxy.
pub(crate) struct Peer {
    /// The process; none for a direct connection.
    pub(crate) process: Option<Process>,
    /// Where the load goes.
    pub(crate) port: u16,
    /// Where its operator asks; only of a sidecar.
    pub(crate) admin: Option<u16>,
    /// The name of its configuration's file; only of a sidecar.
    pub(crate) config: Option<String>,
    /// How long after its start it listened.
    pub(crate) listening: Duration,
    /// How long after its start it called itself ready; as `listening` where it does not tell.
    pub(crate) ready: Duration,
}

impl Peer {
    pub(crate) fn end(self) {
        if let Some(process) = self.process {
            process.end();
        }
    }
}

/// As cargo builds it for users, put aside by `make bench-hop`: what it builds along with benches shares features of libraries with
/// what only tests need, and is larger.
fn as_released() -> String {
    let deps = std::env::current_exe().unwrap();
    deps.parent().unwrap().with_file_name("ojs-sidecar-as-released").to_str().unwrap().to_owned()
}

/// Another build of the sidecar, which is measured in the place of cargo's.
pub(crate) static PROGRAM: OnceLock<String> = OnceLock::new();

/// How the sidecar is configured beyond what every peer has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sidecar {
    /// Further regions, which nobody answers for, so that the local one is always taken.
    pub(crate) more_regions: usize,
    /// Every access event as JSON.
    pub(crate) logged: bool,
    /// Ids do not tell where their jobs are, so that each is remembered.
    pub(crate) remembers: bool,
    /// Cargo's build, also where another one is measured.
    pub(crate) released: bool,
}

/// Starts a peer by its name, on a core.
pub(crate) fn start(name: &str, stage: &Stage, core: Option<usize>) -> Peer {
    match name {
        "direct" => {
            let listening = Duration::ZERO;
            Peer { process: None, port: stage.plain_port, admin: None, config: None, listening, ready: listening }
        }
        "nginx" => nginx(stage, core, false),
        "lua" => nginx(stage, core, true),
        "haproxy" => haproxy(stage, core),
        "bare" | "pooled" => bare(name, stage, core),
        "sidecar" => sidecar(stage, core, Sidecar::default()),
        "logged" => sidecar(stage, core, Sidecar { logged: true, ..Sidecar::default() }),
        "released" => sidecar(stage, core, Sidecar { released: true, ..Sidecar::default() }),
        other => panic!("no peer is called {other}"),
    }
}

fn started(process: Process, port: u16) -> Peer {
    let listening = listens(port);
    Peer { process: Some(process), port, admin: None, config: None, listening, ready: listening }
}

/// Where the distribution puts the modules of nginx and of Lua 5.1, which the former embeds.
const MODULES: &str = "/usr/lib/nginx/modules";
const LUA_MODULES: &str = "/usr/lib/x86_64-linux-gnu/lua/5.1";

/// What the sidecar does to a job, in Lua: reads it, looks where it may go, gives it an id and a tracking id, writes it again.
const LUA: &str = "access_by_lua_block {
  ngx.req.read_body()
  local cjson = require 'cjson.safe'
  local job = cjson.decode(ngx.req.get_body_data() or '')
  if not job then return ngx.exit(400) end
  local meta = job.meta or {}
  if meta['ojs.federation.region'] and meta['ojs.federation.region'] ~= 'region-0' then return ngx.exit(503) end
  local function draw() return string.format('%04x', math.random(0, 65535)) end
  local id = string.format('%012x', ngx.now() * 1000)
  id = id:sub(1, 8) .. '-' .. id:sub(9, 12) .. '-7' .. draw():sub(2) .. '-8' .. draw():sub(2) .. '-' .. draw() .. draw() .. draw()
  job.id = job.id or id
  meta['ojs.federation.id'] = id
  job.meta = meta
  ngx.req.set_body_data(cjson.encode(job))
}";

/// As a pass-through, or with Lua doing the work on the body.
fn nginx(stage: &Stage, core: Option<usize>, lua: bool) -> Peer {
    let port = free_port();
    let (load, paths, work) = if lua {
        let load = |module: &str| format!("load_module {MODULES}/{module}_module.so;\n");
        (
            [load("ndk_http"), load("ngx_http_lua")].concat(),
            format!(" lua_package_cpath '{LUA_MODULES}/?.so;;';\n"),
            LUA,
        )
    } else {
        (String::new(), String::new(), "")
    };
    // Lua sees a body only if it is in memory.
    let buffer = if lua { "2m" } else { "16k" };
    let workers = if core.is_some() { 1 } else { 2 };
    let config = format!(
        "{load}daemon off;\nworker_processes {workers};\npid {dir}/nginx.pid;\nerror_log {dir}/nginx.err;\n\
         events {{ worker_connections 16384; }}\n\
         http {{\n{paths} access_log off;\n client_body_temp_path {dir}/nginx-body; proxy_temp_path {dir}/nginx-proxy;\n\
         fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         client_max_body_size 16m; client_body_buffer_size {buffer}; keepalive_timeout 120s; keepalive_requests 1000000000;\n\
         upstream region {{ server 127.0.0.1:{to}; keepalive 512; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port} backlog=4096;\n location / {{ proxy_pass https://region; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_set_header Host $host; proxy_ssl_protocols TLSv1.3; proxy_ssl_session_reuse on;\n\
         proxy_ssl_certificate {cert}; proxy_ssl_certificate_key {key};\n\
         proxy_ssl_trusted_certificate {ca}; proxy_ssl_verify on; proxy_ssl_name localhost; proxy_ssl_server_name on;\n\
         {work} }} }} }}\n",
        dir = stage.dir().display(),
        to = stage.tls_port,
        cert = stage.file("client.cert.pem"),
        key = stage.file("client.key.pem"),
        ca = stage.file("servers.ca.pem"),
    );
    let path = stage.write(if lua { "lua.conf" } else { "nginx.conf" }, &config).display().to_string();
    let arguments = ["-c".to_owned(), path, "-p".to_owned(), stage.dir().display().to_string()];
    started(Process::start(core, "nginx", &arguments), port)
}

fn haproxy(stage: &Stage, core: Option<usize>) -> Peer {
    let port = free_port();
    let threads = if core.is_some() { 1 } else { 2 };
    let config = format!(
        "global\n nbthread {threads}\n maxconn 4000\n\
         defaults\n mode http\n timeout client 120s\n timeout server 30s\n timeout connect 5s\n timeout http-keep-alive 120s\n\
         frontend clients\n bind 127.0.0.1:{port}\n default_backend region\n\
         backend region\n http-reuse always\n\
         server r1 127.0.0.1:{to} ssl verify required ca-file {ca} crt {pem} sni str(localhost) verifyhost localhost alpn http/1.1 ssl-min-ver TLSv1.3 pool-max-conn 512\n",
        to = stage.tls_port,
        ca = stage.file("servers.ca.pem"),
        pem = stage.file("client.pem"),
    );
    let path = stage.write("haproxy.cfg", &config).display().to_string();
    started(Process::start(core, "haproxy", &["-db".to_owned(), "-f".to_owned(), path]), port)
}

/// The pass-through of this name.
fn bare(name: &str, stage: &Stage, core: Option<usize>) -> Peer {
    let port = free_port();
    let to = [port.to_string(), stage.tls_port.to_string()];
    let files = [stage.file("client.cert.pem"), stage.file("client.key.pem"), stage.file("servers.ca.pem")];
    let arguments = [&[name.to_owned()][..], &to[..], &files[..]].concat();
    started(Process::start(core, &this_program(), &arguments), port)
}

/// The sidecar with its default configuration but for what `with` says.
pub(crate) fn sidecar(stage: &Stage, core: Option<usize>, with: Sidecar) -> Peer {
    let (port, admin) = (free_port(), free_port());
    let tls = format!(
        "{{ ca: \"{}\", cert: \"{}\", key: \"{}\" }}",
        stage.file("servers.ca.pem"),
        stage.file("client.cert.pem"),
        stage.file("client.key.pem")
    );
    let mut config = format!(
        "local_region: region-0\nlisten: {{ clients: [\"127.0.0.1:{port}\"], admin: \"127.0.0.1:{admin}\" }}\n\
         log: {{ format: json, access: {} }}\nrouting: {{ id_hint: {} }}\nregions:\n  - {{ id: region-0, url: \"https://localhost:{}\", tls: {tls} }}\n",
        if with.logged { "all" } else { "errors" },
        !with.remembers,
        stage.tls_port,
    );
    for number in 1..=with.more_regions {
        let _ = writeln!(
            config,
            "  - {{ id: region-{number}, url: \"https://localhost:{}\", tls: {tls} }}",
            stage.tls_port
        );
    }
    let name = format!("sidecar-{port}.yaml");
    let path = stage.write(&name, &config).display().to_string();
    let arguments = ["run".to_owned(), "--config".to_owned(), path];
    let begun = Instant::now();
    let program = PROGRAM.get().filter(|_| !with.released).cloned().unwrap_or_else(as_released);
    assert!(Path::new(&program).exists(), "no program {program}: make bench-hop builds what is measured");
    let peer = started(Process::start(core, &program, &arguments), port);
    let listening = begun.elapsed();
    ready(admin);
    Peer { admin: Some(admin), config: Some(name), listening, ready: begun.elapsed(), ..peer }
}

/// Waits for the first round of probes: before it, every region counts as unknown.
fn ready(admin: u16) {
    let is_ready = || ask(admin, "GET /readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
    let begun = Instant::now();
    while !is_ready() {
        assert!(begun.elapsed().as_secs() < 20, "the sidecar is not ready");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One call without a body on a connection of its own, and its whole answer.
pub(crate) fn ask(port: u16, call: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    write!(socket, "{call} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}
