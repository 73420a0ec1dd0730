//! What the tests start in a child's place.
//!
//! `attempt <what> <layer to leave out, or -> <limits>`: isolates itself as a child does and tries what a child cannot.
//! `says <hello> <reply>… <limits>`: answers every order with these frames, whatever they hold.
//! `writes <length> <bytes> <limits>`: greets, then answers an order with that length prefix and so many bytes.
//! `stays silent <limits>`: never says a word. `shows itself <hello> <limits>`: answers with all that it was started with.
//! `starves <hello> <limits>`: isolates itself, then takes more memory than it may when it is asked for something.
//! `host <worker>`: a host with an open VM and children ahead, until somebody kills it.

use std::io::{Read, Write};
use std::process::ExitCode;

use countersign_sandbox::{ChildHost, ChildOptions, Limits, isolate_but};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match texts.as_slice() {
        ["attempt", what, left_out, limits] => attempt(what, left_out, limits),
        ["says", hello, replies @ .., _limits] => says(hello, replies),
        ["writes", hello, length, bytes, _limits] => writes(hello, length, bytes),
        ["stays", "silent", _limits] => stay_silent(),
        ["starves", hello, limits] => starve(hello, limits),
        ["shows itself", hello, _limits] => show_itself(hello),
        ["host", worker] => host(worker),
        _ => return ExitCode::from(64),
    };
    done.map_or_else(
        |error| {
            println!("refused: {error}");
            ExitCode::SUCCESS
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Prints what became of it, unless it was killed over it.
fn attempt(what: &str, left_out: &str, limits: &str) -> std::io::Result<()> {
    let limits: Limits = serde_json::from_str(limits)?;
    let before = Before { parent: nix::unistd::getppid() };
    let isolation = isolate_but(&limits, Some(left_out));
    if what == "report" {
        println!("{isolation}");
        return Ok(());
    }
    before.go(what)?;
    println!("possible");
    Ok(())
}

/// What an attempt needs that could not be had afterwards.
struct Before {
    parent: nix::unistd::Pid,
}

impl Before {
    #[expect(clippy::disallowed_methods, reason = "that it cannot start a process is what is tried")]
    fn go(&self, what: &str) -> std::io::Result<()> {
        match what {
            "read a file" => std::fs::File::open("/etc/passwd").map(drop),
            "list a folder" => std::fs::read_dir("/").map(drop),
            "write a file" => std::fs::write(std::env::temp_dir().join("countersign-probe"), "x"),
            "connect" => std::net::TcpStream::connect("127.0.0.1:9").map(drop),
            "listen" => std::net::TcpListener::bind("127.0.0.1:0").map(drop),
            "send a datagram" => std::net::UdpSocket::bind("127.0.0.1:0").map(drop),
            "start a program" => std::process::Command::new("/bin/true").spawn().map(drop),
            "start a thread" => std::thread::Builder::new().spawn(|| ()).map(drop),
            "signal its parent" => Ok(nix::sys::signal::kill(self.parent, None)?),
            "write elsewhere" => std::io::stdin().write_to_it(),
            "be dumped" => match nix::sys::prctl::get_dumpable()? {
                true => Ok(()),
                false => Err(std::io::Error::other("not dumpable")),
            },
            "take a lot of memory" => {
                let taken = vec![1_u8; 1 << 30];
                println!("{}", std::hint::black_box(taken).len());
                Ok(())
            }
            "make memory executable" => map_executable(),
            "compute for ever" => loop {
                std::hint::spin_loop();
            },
            other => match other.strip_prefix("close ").and_then(|number| number.parse::<i32>().ok()) {
                Some(number) => Ok(nix::unistd::close(number)?),
                None => Err(std::io::Error::other(format!("nobody knows how to {other}"))),
            },
        }
    }
}

trait WriteToIt {
    fn write_to_it(&self) -> std::io::Result<()>;
}

impl WriteToIt for std::io::Stdin {
    fn write_to_it(&self) -> std::io::Result<()> {
        Ok(nix::unistd::write(self, b"x").map(drop)?)
    }
}

#[expect(unsafe_code, reason = "there is no safe way to ask for executable memory, which is the point")]
fn map_executable() -> std::io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory that anybody uses.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

fn says(hello: &str, replies: &[&str]) -> std::io::Result<()> {
    write_frame(hello)?;
    while read_frame()? {
        for reply in replies {
            match reply.strip_prefix("for ever ") {
                Some(reply) => loop {
                    write_frame(reply)?;
                },
                None => write_frame(reply)?,
            }
        }
    }
    Ok(())
}

fn writes(hello: &str, length: &str, bytes: &str) -> std::io::Result<()> {
    write_frame(hello)?;
    read_frame()?;
    let length: u32 = length.parse().map_err(std::io::Error::other)?;
    let bytes: usize = bytes.parse().map_err(std::io::Error::other)?;
    let mut out = std::io::stdout();
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&vec![b'x'; bytes])?;
    out.flush()
}

fn stay_silent() -> std::io::Result<()> {
    while read_frame()? {}
    Ok(())
}

fn starve(hello: &str, limits: &str) -> std::io::Result<()> {
    isolate_but(&serde_json::from_str(limits)?, None);
    write_frame(hello)?;
    read_frame()?;
    let taken = vec![1_u8; 1 << 30];
    write_frame(&std::hint::black_box(taken).len().to_string())
}

fn show_itself(hello: &str) -> std::io::Result<()> {
    let variables: Vec<_> = std::env::vars_os().collect();
    let folder = std::env::current_dir()?;
    let cause = format!("{variables:?} {folder:?}");
    says(hello, &[&serde_json::json!({ "fault": { "crashed": { "cause": cause } } }).to_string()])
}

fn write_frame(body: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(&u32::try_from(body.len()).map_err(std::io::Error::other)?.to_le_bytes())?;
    out.write_all(body.as_bytes())?;
    out.flush()
}

fn read_frame() -> std::io::Result<bool> {
    let mut length = [0; 4];
    let mut orders = std::io::stdin();
    if orders.read_exact(&mut length).is_err() {
        return Ok(false);
    }
    let length = u64::from(u32::from_le_bytes(length));
    std::io::copy(&mut orders.take(length), &mut std::io::sink())?;
    Ok(true)
}

fn host(worker: &str) -> std::io::Result<()> {
    use countersign_kernel::ports::ScriptHost;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let host = ChildHost::new(ChildOptions::new(worker, [] as [&str; 0]))?;
        let _vm = host.open().await.map_err(std::io::Error::other)?;
        println!("open");
        std::future::pending::<()>().await;
        Ok(())
    })
}
