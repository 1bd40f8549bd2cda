//! A PostgreSQL server as a process of a test: its own folder and port, TLS, passwords, and a standby that can take its place.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use ojs_testbed::Authority;

use crate::support::{ReservedPort, eventually};

const USER: &str = "hub";
const PASSWORD: &str = "of-a-test";

/// A server; dropped, it is killed and its folder removed.
pub struct Postgres {
    dir: tempfile::TempDir,
    port: ReservedPort,
    child: Option<Child>,
}

/// An open session; dropped, it ends, and its transaction is undone.
pub struct Session(Child);

impl Session {
    pub fn run(&mut self, statement: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{statement};").unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where Debian and others put the server's programs; none where it is not installed.
fn programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").ok();
    let versions = installed.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    versions.filter(|bin| bin.join("initdb").exists()).max()
}

/// A program of the server, as a user other than root, as it wants.
fn program(name: &str) -> Command {
    let path = programs().unwrap().join(name);
    if !rustix::process::geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
    command
}

fn done(command: &mut Command) -> Output {
    let output = command.env_clear().env("LC_ALL", "C").current_dir("/").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A folder that the user of the server owns.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn own(path: &Path) {
    if rustix::process::geteuid().is_root() {
        done(Command::new("chown").args(["-R", "postgres:postgres"]).arg(path));
    }
}

impl Postgres {
    /// A new server whose certificate the authority signs; none where PostgreSQL is not installed, which is said.
    pub async fn start(authority: &Authority) -> Option<Self> {
        if programs().is_none() {
            // Past the capture of the tests' output, which hides what a passed test prints.
            let _ =
                std::io::stderr().write_all(b"SKIPPED: apt-get install postgresql runs the tests of several hubs\n");
            return None;
        }
        let server = Self { dir: folder(), port: ReservedPort::new(), child: None };
        let work = server.dir.path().join("made");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("password"), PASSWORD).unwrap();
        own(&work);
        let data = server.data();
        let mut initdb = program("initdb");
        initdb.args(["--no-sync", "--auth=scram-sha-256", "--username", USER, "--pwfile"]).arg(work.join("password"));
        done(initdb.arg("--pgdata").arg(&data));
        std::fs::write(
            data.join("pg_hba.conf"),
            "hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl replication all 127.0.0.1/32 scram-sha-256\n",
        )
        .unwrap();
        let identity = authority.server(&["localhost", "127.0.0.1"]);
        std::fs::write(data.join("server.crt"), identity.cert_pem).unwrap();
        std::fs::write(data.join("server.key"), identity.key_pem).unwrap();
        std::fs::set_permissions(data.join("server.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        own(server.dir.path());
        Some(server.run().await)
    }

    /// Where its files are.
    pub fn folder(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("made/data")
    }

    async fn run(mut self) -> Self {
        self.restart().await;
        self
    }

    /// Runs the server, on the port that it had before.
    pub async fn restart(&mut self) {
        let mut server = program("postgres");
        let port = self.port().to_string();
        server.arg("-D").arg(self.data()).args(["-p", &port, "-c", "listen_addresses=127.0.0.1"]);
        // Only processes are killed here, so that what the kernel has is enough.
        server.args(["-c", "ssl=on", "-c", "fsync=off", "-c", "unix_socket_directories="]);
        server.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut child = server.stderr(log).spawn().unwrap();
        eventually("the server takes connections", async || {
            assert!(child.try_wait().unwrap().is_none(), "the server has ended");
            self.is_ready()
        })
        .await;
        self.child = Some(child);
    }

    fn port(&self) -> u16 {
        self.port.address().port()
    }

    fn is_ready(&self) -> bool {
        let mut ready = program("pg_isready");
        ready.args(["-h", "127.0.0.1", "-p", &self.port().to_string()]).stdout(Stdio::null());
        ready.status().unwrap().success()
    }

    /// What `psql` prints for a statement, without the last line break.
    pub fn query(&self, statement: &str) -> String {
        let mut psql = program("psql");
        psql.args(["-AtX", "-v", "ON_ERROR_STOP=1", "-c", statement, &self.address()]);
        String::from_utf8(done(&mut psql).stdout).unwrap().trim().to_owned()
    }

    /// The lines that the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// A session that carries out what it is told, for transactions that stay open.
    pub fn session(&self) -> Session {
        let mut psql = program("psql");
        psql.args(["-AtX", "-v", "ON_ERROR_STOP=1", &self.address()]).env_clear().current_dir("/");
        let child = psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        Session(child)
    }

    fn address(&self) -> String {
        format!("host=127.0.0.1 port={} user={USER} password={PASSWORD} dbname=postgres sslmode=require", self.port())
    }

    /// A standby; the server answers a commit only once the standby has it.
    pub async fn standby(&self) -> Self {
        let standby = Self { dir: folder(), port: ReservedPort::new(), child: None };
        let work = standby.dir.path().join("made");
        std::fs::create_dir(&work).unwrap();
        own(&work);
        let mut copy = program("pg_basebackup");
        copy.args(["--no-sync", "-R", "-X", "stream", "-c", "fast", "-d", &self.address(), "-D"]);
        done(copy.arg(standby.data()));
        let standby = standby.run().await;
        self.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.query("SELECT pg_reload_conf()");
        eventually("the standby follows", async || {
            self.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        })
        .await;
        standby
    }

    /// Makes a standby take writes, without a standby of its own.
    pub fn promote(&self) {
        done(program("pg_ctl").args(["promote", "-w", "-D"]).arg(self.data()));
        self.query("ALTER SYSTEM RESET synchronous_standby_names");
        self.query("SELECT pg_reload_conf()");
    }

    /// Sends SIGKILL to the server; its processes end with it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops all processes of the server without ending them, or lets them go on.
    pub fn pause(&self, pauses: bool) {
        let server = self.child.as_ref().unwrap().id();
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        let signal = if pauses { "-STOP" } else { "-CONT" };
        let all = std::iter::once(server.to_string()).chain(children.split_whitespace().map(str::to_owned));
        // One that has ended in between is no matter.
        let _ = Command::new("kill").arg(signal).args(all).stderr(Stdio::null()).status();
    }

    /// Where it listens.
    pub fn listens_at(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    /// The section of a hub's configuration for these servers. `folder` gets the password.
    pub fn section(servers: &[&Self], folder: &Path, ca: &Path) -> String {
        Self::section_at(&servers.iter().map(|server| server.listens_at()).collect::<Vec<_>>(), folder, ca)
    }

    /// The same for servers that are reached at these addresses.
    pub fn section_at(servers: &[std::net::SocketAddr], folder: &Path, ca: &Path) -> String {
        let hosts: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let password = folder.join("password");
        std::fs::write(&password, PASSWORD).unwrap();
        format!(
            "record: {{ postgres: {{ hosts: {hosts:?}, database: postgres, user: {USER}, password_file: {password:?}, tls: {{ ca: {ca:?} }} }} }}"
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.pause(false);
        }
        self.kill();
    }
}
